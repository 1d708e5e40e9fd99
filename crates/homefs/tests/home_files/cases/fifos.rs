//! A FIFO of home, between home and room and between guests.

use crate::agent::{Background, Peer};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

fn make(path: &Path) {
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, 0o666.into(), 0).unwrap();
}

pub fn home(dir: &Path, peer: &mut Peer) {
    make(&dir.join("fifo"));
    peer.tell("made");
    // Opening waits for the other side.
    OpenOptions::new().write(true).open(dir.join("fifo")).unwrap().write_all(b"from home").unwrap();
    let mut text = String::new();
    File::open(dir.join("fifo")).unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text.len(), 300_000);
    peer.expect("done");
}

pub fn room(dir: &Path, peer: &mut Peer) {
    peer.expect("made");
    let path = dir.join("fifo");
    assert!(fs::metadata(&path).unwrap().file_type().is_fifo());
    let nobody = OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(&path);
    assert!(nobody.is_ok() || nobody.is_err_and(|e| e.raw_os_error() == Some(libc::ENXIO)));
    assert_eq!(fs::read(&path).unwrap(), b"from home");
    fs::write(&path, vec![b'x'; 300_000]).unwrap();
    // A FIFO between two guests.
    let own = dir.join("own");
    make(&own);
    let writer = Background::start(|| {
        let mut fifo = OpenOptions::new().write(true).open(&own).unwrap();
        (0..100).for_each(|i| writeln!(fifo, "line {i}").unwrap());
    });
    let text = fs::read_to_string(&own).unwrap();
    assert_eq!((text.lines().count(), text.lines().last()), (100, Some("line 99")));
    assert_eq!(writer.wait(), 0);
    // A reader that waits for a writer that does not come can be killed.
    let waits = Background::start(|| drop(File::open(&own)));
    waits.falls_asleep();
    waits.signal(libc::SIGKILL);
    waits.wait();
    assert!(fs::metadata(&own).unwrap().file_type().is_fifo());
    peer.tell("done");
}
