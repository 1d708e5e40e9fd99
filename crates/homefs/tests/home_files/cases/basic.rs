//! Reading files that home has made.

use crate::agent::Peer;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

pub fn reads_home(dir: &Path, peer: &mut Peer) {
    fs::write(dir.join("file"), b"hello from home").unwrap();
    fs::create_dir(dir.join("sub")).unwrap();
    for i in 0..10_000 {
        fs::write(dir.join("sub").join(format!("entry-{i}")), b"").unwrap();
    }
    std::os::unix::fs::symlink("file", dir.join("link")).unwrap();
    let big: Vec<u8> = (0..3_000_000u32).map(|i| (i % 251) as u8).collect();
    fs::write(dir.join("big"), big).unwrap();
    peer.tell("ready");
    peer.expect("done");
}

pub fn reads_room(dir: &Path, peer: &mut Peer) {
    peer.expect("ready");
    assert_eq!(fs::read(dir.join("file")).unwrap(), b"hello from home");
    assert_eq!(fs::read(dir.join("link")).unwrap(), b"hello from home");
    assert_eq!(fs::read_link(dir.join("link")).unwrap(), Path::new("file"));
    let names: std::collections::BTreeSet<_> =
        fs::read_dir(dir.join("sub")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 10_000);
    let again = fs::read_dir(dir.join("sub")).unwrap().count();
    assert_eq!(again, 10_000);
    let big = fs::read(dir.join("big")).unwrap();
    assert!(big.len() == 3_000_000 && big.iter().enumerate().all(|(i, b)| *b == (i % 251) as u8));
    assert_eq!(fs::metadata(dir.join("none")).unwrap_err().kind(), std::io::ErrorKind::NotFound);
    let stat = fs::metadata(dir.join("file")).unwrap();
    assert_eq!((stat.uid(), stat.size(), stat.permissions().mode() & 0o777), (0, 15, 0o644));
    peer.tell("done");
}
