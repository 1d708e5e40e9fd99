//! Files that are made in a room and removed at home at once were made all the same.

use crate::agent::Peer;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

const ROUNDS: usize = 600;

/// Removes everything that is made under these names as soon as it appears.
pub fn home(dir: &Path, peer: &mut Peer) {
    fs::write(dir.join("file"), b"content").unwrap();
    peer.tell("ready");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let _ = fs::remove_file(dir.join("link"));
                let _ = fs::remove_dir(dir.join("directory"));
                std::thread::yield_now();
            }
        });
        peer.expect("done");
        done.store(true, Ordering::Relaxed);
    });
    peer.tell("end");
}

/// Has failed: a program made a link or directory that a process at home removed at once, and was
/// told that there is no such file.
pub fn room(dir: &Path, peer: &mut Peer) {
    peer.expect("ready");
    let mut made = [0; 2];
    for round in 0..ROUNDS {
        let done = match round % 2 {
            0 => std::os::unix::fs::symlink("file", dir.join("link")),
            _ => fs::create_dir(dir.join("directory")),
        };
        match done {
            Ok(()) => made[round % 2] += 1,
            // The one made last is still there.
            Err(e) => assert_eq!(e.kind(), ErrorKind::AlreadyExists, "{e}, round {round}"),
        }
    }
    assert!(made.iter().all(|n| *n > 0), "{made:?}");
    assert_eq!(fs::read(dir.join("file")).unwrap(), b"content");
    peer.tell("done");
    peer.expect("end");
    // The listing is the one at home, whatever the kernel here was told.
    let names: Vec<_> = fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name()).collect();
    for name in ["link", "directory"] {
        assert_eq!(fs::symlink_metadata(dir.join(name)).is_ok(), names.iter().any(|n| n == name), "{name}");
    }
}
