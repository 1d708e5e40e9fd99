//! Directories that a call in the room holds locked while it asks home, and in which home changes
//! names meanwhile.

use crate::agent::Peer;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const ROUNDS: usize = 400;

/// Undoes the room's changes as soon as it sees them.
pub fn home(dir: &Path, peer: &mut Peer) {
    fs::write(dir.join("file"), b"content").unwrap();
    ["here", "there", "sub"].iter().for_each(|name| fs::create_dir(dir.join(name)).unwrap());
    fs::write(dir.join("here/moved"), b"").unwrap();
    peer.tell("ready");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let again = |undo: &(dyn Fn() + Sync)| {
            while !done.load(Ordering::Relaxed) {
                undo();
                std::thread::yield_now();
            }
        };
        scope.spawn(move || {
            again(&|| {
                let _ = fs::remove_file(dir.join("there/link"));
                let _ = fs::rename(dir.join("there/moved"), dir.join("here/moved"));
            });
        });
        scope.spawn(move || {
            again(&|| {
                let _ = fs::write(dir.join("sub/new"), b"");
                let _ = fs::remove_file(dir.join("sub/new"));
                // Not as fast as possible: the room has to forget each of these.
                std::thread::sleep(Duration::from_micros(300));
            });
        });
        peer.expect("done");
        done.store(true, Ordering::Relaxed);
    });
    peer.tell("end");
}

/// Has hung: link(2) and rename(2) look at the file itself with the directory locked, and that
/// reply waited for the directory's earlier invalidations. rmdir(2) locks the directory that is
/// removed.
pub fn room(dir: &Path, peer: &mut Peer) {
    peer.expect("ready");
    let mut made = [0; 3];
    for round in 0..ROUNDS {
        let done = match round % 3 {
            0 => fs::hard_link(dir.join("file"), dir.join("there/link")),
            1 => fs::rename(dir.join("here/moved"), dir.join("there/moved")),
            _ => fs::remove_dir(dir.join("sub")).and_then(|()| fs::create_dir(dir.join("sub"))),
        };
        match done {
            Ok(()) => made[round % 3] += 1,
            // Home has not undone the last change yet, or has just made one.
            Err(e) => {
                let known = [ErrorKind::AlreadyExists, ErrorKind::NotFound, ErrorKind::DirectoryNotEmpty];
                assert!(known.contains(&e.kind()), "{e}, round {round}");
            }
        }
    }
    assert!(made[..2].iter().all(|n| *n > 0), "{made:?}");
    peer.tell("done");
    peer.expect("end");
}
