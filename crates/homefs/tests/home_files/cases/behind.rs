//! Writes that the room answers before home has made them: home has them when it hears of them,
//! and they come before whatever the room does next.

use crate::agent::Peer;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::path::Path;

const TIMES: usize = 300;

pub fn room(dir: &Path, peer: &mut Peer) {
    let (one, other) = (dir.join("one"), dir.join("other"));
    let mut file = OpenOptions::new().create(true).truncate(true).read(true).write(true).open(&one).unwrap();
    let mut log = OpenOptions::new().create(true).append(true).open(&other).unwrap();
    for n in 0..TIMES {
        writeln!(file, "{n}").unwrap();
        writeln!(log, "{n}").unwrap();
        if n % 50 == 0 {
            // The size and the content, by ways that ask home and by those that do not.
            assert_eq!(fs::metadata(&one).unwrap().len(), file.stream_position().unwrap());
            assert_eq!(fs::read_to_string(&other).unwrap().lines().count(), n + 1);
            peer.tell(&format!("{n}"));
            peer.expect("seen");
        }
    }
    file.rewind().unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text.lines().count(), TIMES);
    // A file that is replaced, and one that is gone when it is closed.
    fs::write(dir.join("new"), "new").unwrap();
    fs::rename(dir.join("new"), &one).unwrap();
    let mut gone = File::create(dir.join("gone")).unwrap();
    fs::remove_file(dir.join("gone")).unwrap();
    gone.write_all(b"x").unwrap();
    gone.sync_all().unwrap();
    drop(gone);
    peer.tell("?behind");
    let behind: usize = peer.hear().parse().unwrap();
    assert!(behind >= 2 * TIMES, "only {behind} requests were behind");
    peer.tell("end");
    peer.expect("end");
}

pub fn home(dir: &Path, peer: &mut Peer) {
    loop {
        let line = peer.hear();
        let Ok(n) = line.parse::<usize>() else { break };
        for name in ["one", "other"] {
            let text = fs::read_to_string(dir.join(name)).unwrap();
            assert_eq!(text.lines().count(), n + 1, "{name}");
        }
        peer.tell("seen");
    }
    assert_eq!(fs::read_to_string(dir.join("one")).unwrap(), "new");
    assert_eq!(fs::read_to_string(dir.join("other")).unwrap().lines().count(), TIMES);
    assert!(!dir.join("gone").exists() && !dir.join("new").exists());
    peer.tell("end");
}
