//! Home stores into a file through a shared mapping, which causes no event. The room must not cache
//! the file meanwhile.

use crate::agent::Peer;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

const ROUNDS: u64 = 300;

pub fn home(dir: &Path, peer: &mut Peer) {
    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
    let path = dir.join("mapped");
    fs::write(&path, [0; 4096]).unwrap();
    peer.tell("made");
    peer.expect("cached");
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    // SAFETY: a new mapping of the file's one page.
    let map = unsafe { mmap(std::ptr::null_mut(), 4096, ProtFlags::WRITE, MapFlags::SHARED, &file, 0).unwrap() };
    drop(file);
    for round in 1..=ROUNDS {
        // SAFETY: within the mapping, aligned.
        unsafe { map.cast::<u64>().write_volatile(round) };
        peer.tell("stored");
        peer.expect("seen");
    }
    peer.expect("room writes");
    peer.tell("mapped already");
    peer.expect("open");
    // SAFETY: within the mapping, aligned.
    unsafe { map.cast::<u64>().write_volatile(77) };
    peer.tell("stored");
    peer.expect("seen");
    // SAFETY: our own mapping, used no more.
    unsafe { munmap(map, 4096).unwrap() };
    peer.tell("unmapped");
    // The room has the file open for writing, and caches it, when home opens and maps it.
    peer.expect("room writes alone");
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    // SAFETY: a new mapping of the file's one page.
    let map = unsafe { mmap(std::ptr::null_mut(), 4096, ProtFlags::WRITE, MapFlags::SHARED, &file, 0).unwrap() };
    for round in 1..=ROUNDS {
        // SAFETY: within the mapping, aligned.
        unsafe { map.cast::<u64>().write_volatile(1000 + round) };
        peer.tell("stored");
        peer.expect("seen");
    }
    // SAFETY: our own mapping, used no more.
    unsafe { munmap(map, 4096).unwrap() };
    peer.expect("done");
}

fn value(file: &File) -> u64 {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, 0).unwrap();
    u64::from_ne_bytes(bytes)
}

pub fn room(dir: &Path, peer: &mut Peer) {
    peer.expect("made");
    let path = dir.join("mapped");
    let before = File::open(&path).unwrap();
    assert_eq!(value(&before), 0);
    peer.tell("cached");
    for round in 1..=ROUNDS {
        peer.expect("stored");
        assert_eq!(value(&before), round, "opened while it was cached");
        assert_eq!(value(&before), round, "read again");
        assert_eq!(value(&File::open(&path).unwrap()), round, "opened now");
        peer.tell("seen");
    }
    peer.tell("room writes");
    peer.expect("mapped already");
    let both = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    assert_eq!(value(&both), ROUNDS);
    peer.tell("open");
    peer.expect("stored");
    assert_eq!((value(&both), value(&before)), (77, 77));
    peer.tell("seen");
    peer.expect("unmapped");
    assert_eq!(value(&File::open(&path).unwrap()), 77);
    drop(both);
    let both = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    both.write_all_at(&1000u64.to_ne_bytes(), 0).unwrap();
    assert_eq!((value(&both), value(&before)), (1000, 1000));
    peer.tell("room writes alone");
    for round in 1..=ROUNDS {
        peer.expect("stored");
        assert_eq!((value(&both), value(&before)), (1000 + round, 1000 + round));
        peer.tell("seen");
    }
    peer.tell("done");
}
