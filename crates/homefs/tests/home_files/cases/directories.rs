//! Directories that the room has opened before, and those that it has made: it need not ask home
//! about them, and still sees what others do there.

use crate::agent::Peer;
use homefs::proto::Opcode;
use std::fs::{self, File};
use std::path::Path;

fn requests(peer: &mut Peer, opcode: Opcode) -> u64 {
    peer.tell(&format!("?requests {}", opcode as u32));
    peer.hear().parse().unwrap()
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

pub fn room(dir: &Path, peer: &mut Peer) {
    // Opened again and again: home hears of the first time.
    peer.expect("made");
    let old = dir.join("old");
    assert_eq!(names(&old), ["1", "2"]);
    let before = requests(peer, Opcode::Opendir);
    for _ in 0..20 {
        assert_eq!(names(&old), ["1", "2"]);
    }
    assert_eq!(requests(peer, Opcode::Opendir), before, "the directory was known");
    // Open while home changes it: what is read later is new.
    let open = File::open(&old).unwrap();
    peer.tell("more");
    peer.expect("done");
    assert_eq!(names(&old), ["1", "2", "3"]);
    open.sync_all().unwrap();
    rustix::fs::flock(&open, rustix::fs::FlockOperation::LockExclusive).unwrap();
    drop(open);
    // Made here: home is not asked for names that nobody has made.
    let new = dir.join("new");
    fs::create_dir(&new).unwrap();
    let before = requests(peer, Opcode::Lookup);
    for n in 0..20 {
        assert!(!new.join(format!("none{n}")).exists());
    }
    assert_eq!(requests(peer, Opcode::Lookup), before, "the directory is new");
    File::create(new.join("file")).unwrap();
    fs::rename(new.join("file"), new.join("renamed")).unwrap();
    std::os::unix::fs::symlink("renamed", new.join("link")).unwrap();
    fs::hard_link(new.join("renamed"), new.join("other")).unwrap();
    fs::create_dir(new.join("sub")).unwrap();
    for name in ["renamed", "link", "other", "sub"] {
        assert!(new.join(name).exists(), "{name}");
    }
    assert!(!new.join("file").exists());
    // Others make names there.
    peer.tell("in new");
    peer.expect("done");
    for name in ["home", "none3", "sub/deep"] {
        assert!(new.join(name).exists(), "{name}");
    }
    assert_eq!(names(&new), ["home", "link", "none3", "other", "renamed", "sub"]);
    peer.tell("end");
    peer.expect("end");
}

pub fn home(dir: &Path, peer: &mut Peer) {
    fs::create_dir(dir.join("old")).unwrap();
    for name in ["1", "2"] {
        File::create(dir.join("old").join(name)).unwrap();
    }
    peer.tell("made");
    peer.expect("more");
    File::create(dir.join("old/3")).unwrap();
    peer.tell("done");
    peer.expect("in new");
    for name in ["home", "none3", "sub/deep"] {
        File::create(dir.join("new").join(name)).unwrap();
    }
    peer.tell("done");
    peer.expect("end");
    peer.tell("end");
}
