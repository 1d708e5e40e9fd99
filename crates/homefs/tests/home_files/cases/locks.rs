//! Locks between room and home, and among guests.

use crate::agent::{Background, Peer, raw};
use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

fn open(dir: &Path) -> File {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(dir.join("locked")).unwrap()
}

fn posix(file: &File, command: i32, kind: i32, start: i64, len: i64) -> io::Result<libc::flock> {
    let mut range = libc::flock { l_type: kind as i16, l_whence: 0, l_start: start, l_len: len, l_pid: 0 };
    // SAFETY: one struct flock, read and written.
    if unsafe { libc::fcntl(raw(file), command, &raw mut range) } < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(range)
    }
}

fn set(file: &File, kind: i32, start: i64, len: i64) -> Result<(), i32> {
    posix(file, libc::F_SETLK, kind, start, len).map(drop).map_err(|e| e.raw_os_error().unwrap())
}

fn flock(file: &File, operation: i32) -> Result<(), i32> {
    // SAFETY: numbers.
    if unsafe { libc::flock(raw(file), operation) } < 0 {
        Err(io::Error::last_os_error().raw_os_error().unwrap())
    } else {
        Ok(())
    }
}

pub fn home(dir: &Path, peer: &mut Peer) {
    let file = open(dir);
    peer.tell("made");
    peer.expect("room has 0..10");
    assert_eq!(set(&file, libc::F_WRLCK, 5, 1), Err(libc::EAGAIN));
    assert_eq!(set(&file, libc::F_WRLCK, 10, 5), Ok(()));
    assert_eq!(posix(&file, libc::F_GETLK, libc::F_WRLCK, 0, 20).unwrap().l_type, libc::F_WRLCK as i16);
    peer.tell("home has 10..15");
    // Waits until the room's process closes another descriptor of the file.
    posix(&file, libc::F_SETLKW, libc::F_WRLCK, 0, 10).unwrap();
    peer.tell("home has 0..15");
    peer.expect("waiting was interrupted");
    set(&file, libc::F_UNLCK, 0, 0).unwrap();
    peer.expect("room waited and got it");
    assert_eq!(flock(&file, libc::LOCK_EX | libc::LOCK_NB), Err(libc::EAGAIN));
    peer.tell("flock seen");
    flock(&file, libc::LOCK_EX).unwrap();
    peer.tell("flock at home");
    peer.expect("seen in room");
}

extern "C" fn nothing(_: i32) {}

pub fn room(dir: &Path, peer: &mut Peer) {
    peer.expect("made");
    let file = open(dir);
    assert_eq!(set(&file, libc::F_WRLCK, 0, 10), Ok(()));
    peer.tell("room has 0..10");
    peer.expect("home has 10..15");
    assert_eq!(set(&file, libc::F_RDLCK, 12, 1), Err(libc::EAGAIN));
    let guest = Background::start(|| {
        let file = open(dir);
        assert_eq!(set(&file, libc::F_WRLCK, 3, 1), Err(libc::EAGAIN));
        let found = posix(&file, libc::F_GETLK, libc::F_WRLCK, 0, 10).unwrap();
        assert_eq!((found.l_type, found.l_pid), (libc::F_WRLCK as i16, 1));
    });
    assert_eq!(guest.wait(), 0);
    drop(open(dir));
    peer.expect("home has 0..15");
    interrupted(&file);
    peer.tell("waiting was interrupted");
    posix(&file, libc::F_SETLKW, libc::F_WRLCK, 0, 15).unwrap();
    let other = open(dir);
    flock(&file, libc::LOCK_EX).unwrap();
    peer.tell("room waited and got it");
    assert_eq!(flock(&other, libc::LOCK_SH | libc::LOCK_NB), Err(libc::EAGAIN));
    peer.expect("flock seen");
    drop(file);
    peer.expect("flock at home");
    assert_eq!(flock(&other, libc::LOCK_SH | libc::LOCK_NB), Err(libc::EAGAIN));
    peer.tell("seen in room");
}

/// A signal ends the wait for a lock with EINTR.
fn interrupted(file: &File) {
    // SAFETY: a handler that does nothing, without SA_RESTART; numbers.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as *const () as usize;
        libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut());
        libc::setitimer(
            libc::ITIMER_REAL,
            &libc::itimerval {
                it_interval: libc::timeval { tv_sec: 0, tv_usec: 50_000 },
                it_value: libc::timeval { tv_sec: 0, tv_usec: 50_000 },
            },
            std::ptr::null_mut(),
        );
    }
    let error = posix(file, libc::F_SETLKW, libc::F_WRLCK, 0, 1).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EINTR));
    // SAFETY: numbers.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &std::mem::zeroed(), std::ptr::null_mut()) };
}
