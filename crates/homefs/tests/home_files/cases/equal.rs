//! Files that are the same on the hosting node are read there, and only while they are the same.

use crate::agent::{Background, Peer};
use crate::link::Random;
use std::fs::{self, File, OpenOptions, Permissions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

const BYTES: usize = 700_001;
/// A generous time that only a hanging case reaches.
const DEADLINE: Duration = Duration::from_secs(120);

fn content(seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    std::iter::repeat_with(|| random.below(u64::MAX).to_le_bytes()).flatten().take(BYTES).collect()
}

fn ask(peer: &mut Peer, question: &str) -> String {
    peer.tell(question);
    peer.hear()
}

/// Gives the number of READs that went to home, and of bytes that did not.
fn reads(peer: &mut Peer) -> (u64, u64) {
    let line = ask(peer, "?reads");
    let (reads, local_bytes) = line.split_once(' ').unwrap();
    (reads.parse().unwrap(), local_bytes.parse().unwrap())
}

/// Reads the whole file past the room's cache.
fn read_anew(file: &File) -> Vec<u8> {
    // SAFETY: numbers only.
    assert_eq!(unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) }, 0);
    let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// Reads until no READ goes to home.
fn read_until_local(file: &File, expected: &[u8], peer: &mut Peer) {
    let until = Instant::now() + DEADLINE;
    loop {
        let before = reads(peer);
        assert!(read_anew(file) == expected);
        let after = reads(peer);
        if after.0 == before.0 && after.1 >= before.1 + expected.len() as u64 {
            return;
        }
        assert!(Instant::now() < until, "is never read from the node's own file");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn assert_read_from_home(file: &File, expected: &[u8], peer: &mut Peer) {
    let before = reads(peer);
    assert!(read_anew(file) == expected);
    let after = reads(peer);
    assert!(after.0 > before.0 && after.1 == before.1, "{before:?} {after:?}");
}

/// Gives the node's own files, at the paths that they have at home.
fn own_files(dir: &Path, peer: &mut Peer) -> PathBuf {
    let own = PathBuf::from(ask(peer, "?local")).join(dir.strip_prefix("/").unwrap());
    fs::create_dir_all(&own).unwrap();
    own
}

/// Waits until the last change is so long ago that a hash holds.
fn let_settle(path: &Path) {
    let until = Instant::now() + DEADLINE;
    let now_s = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() as i64;
    while now_s() <= fs::metadata(path).unwrap().ctime() + 3 {
        assert!(Instant::now() < until, "the clock stands still");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn write_in_place(path: &Path, bytes: &[u8]) {
    OpenOptions::new().write(true).open(path).unwrap().write_all_at(bytes, 0).unwrap();
}

/// Stores one byte into the mapped file, which causes no event.
fn store(path: &Path, byte: u8) {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    // SAFETY: maps, writes to, and unmaps a page of a file that is longer.
    unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let page = libc::mmap(std::ptr::null_mut(), 4096, protection, libc::MAP_SHARED, file.as_raw_fd(), 0);
        assert_ne!(page, libc::MAP_FAILED);
        page.cast::<u8>().write_volatile(byte);
        // The file stays mapped, and so open for writing, until this process ends.
    }
}

/// Waits until home knows that the room has closed the file. From then on, home does not tell the
/// room of other opens.
fn wait_until_not_leased(path: &Path) {
    let ino = format!(":{} ", fs::metadata(path).unwrap().ino());
    let until = Instant::now() + DEADLINE;
    while fs::read_to_string("/proc/locks").unwrap().lines().any(|l| l.contains("LEASE") && l.contains(&ino)) {
        assert!(Instant::now() < until, "the lease stays");
        std::thread::sleep(Duration::from_millis(1));
    }
}

const NAMES: [&str; 9] = ["other", "secret", "shorter", "linked", "same", "changed", "written", "mapped", "cut"];

pub fn home(dir: &Path, peer: &mut Peer) {
    let own = own_files(dir, peer);
    for (n, name) in NAMES.iter().enumerate() {
        fs::write(dir.join(name), content(n as u64)).unwrap();
        fs::write(own.join(name), content(n as u64)).unwrap();
    }
    fs::write(own.join("other"), content(100)).unwrap();
    fs::set_permissions(own.join("secret"), Permissions::from_mode(0o600)).unwrap();
    fs::write(own.join("shorter"), &content(2)[1..]).unwrap();
    fs::rename(own.join("linked"), own.join("target")).unwrap();
    std::os::unix::fs::symlink("target", own.join("linked")).unwrap();
    NAMES.iter().for_each(|name| let_settle(&own.join(name)));
    peer.tell("ready");

    peer.expect("change");
    write_in_place(&dir.join("same"), &content(200));
    peer.tell("changed");
    peer.expect("change own");
    write_in_place(&own.join("changed"), b"!");
    File::options().write(true).open(own.join("cut")).unwrap().set_len(5).unwrap();
    peer.tell("changed own");
    peer.expect("look");
    assert_eq!(fs::read(dir.join("written")).unwrap()[..5], *b"room!");
    assert!(fs::read(own.join("written")).unwrap() == content(6));
    peer.expect("store");
    wait_until_not_leased(&dir.join("mapped"));
    store(&dir.join("mapped"), b'#');
    peer.tell("stored");
    peer.expect("done");
}

pub fn room(dir: &Path, peer: &mut Peer) {
    peer.expect("ready");
    let files: Vec<File> = NAMES.iter().map(|name| File::open(dir.join(name)).unwrap()).collect();
    // Offers are compared in their order: when those after the first four are done, the first four
    // are, too.
    for (n, file) in files.iter().enumerate().skip(4) {
        read_until_local(file, &content(n as u64), peer);
    }
    for (n, file) in files.iter().enumerate().take(4) {
        assert_read_from_home(file, &content(n as u64), peer);
    }
    let [_, _, _, _, same, changed, written, mapped, cut] = <[File; 9]>::try_from(files).unwrap();

    peer.tell("change");
    peer.expect("changed");
    assert_read_from_home(&same, &content(200), peer);

    peer.tell("change own");
    peer.expect("changed own");
    assert_read_from_home(&changed, &content(5), peer);
    assert_read_from_home(&cut, &content(8), peer);

    read_until_local(&written, &content(6), peer);
    write_in_place(&dir.join("written"), b"room!");
    assert_read_from_home(&written, &[b"room!", &content(6)[5..]].concat(), peer);
    peer.tell("look");

    read_until_local(&mapped, &content(7), peer);
    drop(mapped);
    peer.tell("store");
    peer.expect("stored");
    let mapped = File::open(dir.join("mapped")).unwrap();
    assert_read_from_home(&mapped, &[b"#", &content(7)[1..]].concat(), peer);
    peer.tell("done");
}

const ROUNDS: u64 = 150;

/// Makes home's file the node's file, something else, a new file, and the old one in turn, while
/// offers are under way.
pub fn races_home(dir: &Path, peer: &mut Peer) {
    let own = own_files(dir, peer);
    fs::write(own.join("file"), content(0)).unwrap();
    fs::write(dir.join("file"), content(0)).unwrap();
    let_settle(&own.join("file"));
    peer.tell("begin");
    let mut random = Random::new(11);
    for round in 0..ROUNDS {
        let seed = round % 2;
        if random.below(3) == 0 {
            write_in_place(&dir.join("file"), &content(seed));
        } else {
            fs::write(dir.join("new"), content(seed)).unwrap();
            fs::rename(dir.join("new"), dir.join("file")).unwrap();
        }
        peer.tell(&seed.to_string());
        peer.expect("next");
        // The room reads on while the file changes.
        std::thread::sleep(Duration::from_micros(random.below(20_000)));
    }
    peer.tell("end");
    peer.expect("done");
}

pub fn races_room(dir: &Path, peer: &mut Peer) {
    let path = dir.join("file");
    let contents = [content(0), content(1)];
    // Another process reads all the time, also during changes. Each byte it reads then is of one of
    // the two contents.
    let (other_path, other_contents) = (path.clone(), contents.clone());
    peer.expect("begin");
    let other = Background::start(move || {
        loop {
            let bytes = read_anew(&File::open(&other_path).unwrap());
            let of_one = |n: usize, byte: u8| other_contents.iter().any(|content| content[n] == byte);
            assert!(bytes.iter().enumerate().all(|(n, byte)| of_one(n, *byte)));
        }
    });
    loop {
        let line = peer.hear();
        let Ok(seed) = line.parse::<usize>() else { break };
        let file = File::open(&path).unwrap();
        for _ in 0..3 {
            assert!(read_anew(&file) == contents[seed], "{line}");
        }
        peer.tell("next");
        // The file stays open, so that the next change breaks the lease.
        std::mem::forget(file);
    }
    other.signal(libc::SIGTERM);
    assert_eq!(other.wait(), libc::SIGTERM, "the other reader ended by itself");
    assert!(reads(peer).1 > 0, "nothing was ever read from the node's own file");
    peer.tell("done");
}
