//! Packets over real sockets.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{Read as _, Seek as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

#[test]
fn packets_descriptors_credentials() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let listener = packet::listen(&path, 0o600, 4).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let a = packet::connect(&path).unwrap();
    let b = packet::accept(&listener).unwrap();
    assert_eq!(
        packet::peer(&b).unwrap(),
        packet::Peer { pid: i32::try_from(std::process::id()).unwrap(), uid: rustix::process::getuid().as_raw() }
    );

    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"inside").unwrap();
    file.rewind().unwrap();
    packet::send(&a, b"one", &[file.as_fd()]).unwrap();
    packet::send(&a, b"two", &[]).unwrap();
    let mut first = packet::receive(&b, 100).unwrap();
    assert_eq!((first.bytes.as_slice(), first.descriptors.len()), (&b"one"[..], 1));
    let mut text = String::new();
    std::fs::File::from(first.descriptors.remove(0)).read_to_string(&mut text).unwrap();
    assert_eq!(text, "inside");
    assert_eq!(packet::receive(&b, 100).unwrap().bytes, b"two");

    packet::send(&a, b"too long", &[]).unwrap();
    assert_eq!(packet::receive(&b, 3).unwrap_err().kind(), std::io::ErrorKind::InvalidData);
    packet::set_timeout(&b, Some(Duration::from_millis(1))).unwrap();
    assert_eq!(packet::receive(&b, 3).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    drop(a);
    assert!(packet::receive(&b, 3).unwrap().bytes.is_empty());
}

#[test]
fn more_descriptors_than_allowed_are_closed() {
    let (a, b) = packet::pair().unwrap();
    let many = vec![a.as_fd(); packet::DESCRIPTORS_MAX + 1];
    assert!(packet::send(&a, b"x", &many).is_err());
    packet::send(&a, b"x", &many[..packet::DESCRIPTORS_MAX]).unwrap();
    assert_eq!(packet::receive(&b, 1).unwrap().descriptors.len(), packet::DESCRIPTORS_MAX);
}
