//! A terminal with somebody at it who types what the guest asks for.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::leads_session;
use crate::run::{Outcome, end, wait};

/// Lines and columns.
const SIZE: (u16, u16) = (40, 100);
/// A line that asks for keys begins so.
const ASK: &str = "TYPE:";

/// Runs a command as the leader of a session on a terminal of its own; its output is what the
/// terminal showed.
pub fn run_on_terminal(command: &mut Command) -> Outcome {
    let (keyboard, terminal) = open();
    let handle = || Stdio::from(terminal.try_clone().unwrap());
    command.stdin(handle()).stdout(handle()).stderr(handle());
    leads_session(command);
    let mut child = command.spawn().unwrap();
    // Only the child keeps the terminal open: with it ends the output.
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    drop(terminal);
    let (shown, person) = std::sync::mpsc::channel();
    std::thread::spawn(move || shown.send(sit_at(File::from(keyboard))));
    let status = wait(&mut child);
    // What hangs may hold the terminal open for ever.
    let shown = person.recv_timeout(Duration::from_secs(5)).unwrap_or_default();
    Outcome { stdout: shown, stderr: String::new(), end: end(status) }
}

fn open() -> (OwnedFd, OwnedFd) {
    let (mut keyboard, mut terminal) = (-1, -1);
    let size = libc::winsize { ws_row: SIZE.0, ws_col: SIZE.1, ws_xpixel: 0, ws_ypixel: 0 };
    let (name, modes) = (std::ptr::null_mut(), std::ptr::null());
    // SAFETY: two descriptors and no name are written; the size lives through the call.
    let opened = unsafe { libc::openpty(&raw mut keyboard, &raw mut terminal, name, modes, &raw const size) };
    assert_eq!(opened, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: the call above made both for us.
    let (keyboard, terminal) = unsafe { (OwnedFd::from_raw_fd(keyboard), OwnedFd::from_raw_fd(terminal)) };
    for end in [&keyboard, &terminal] {
        rustix::io::fcntl_setfd(end, rustix::io::FdFlags::CLOEXEC).unwrap();
    }
    (keyboard, terminal)
}

/// Reads what is shown to the end, and types what it asks for.
fn sit_at(mut keyboard: File) -> String {
    let (mut shown, mut looked, mut part) = (Vec::new(), 0, [0; 4096]);
    while let Some(got) = read_or_end(&mut keyboard, &mut part) {
        shown.extend_from_slice(&part[..got]);
        while let Some(length) = shown[looked..].iter().position(|byte| *byte == b'\n') {
            let line = String::from_utf8_lossy(&shown[looked..looked + length]).into_owned();
            looked += length + 1;
            if let Some(asked) = line.trim_end_matches('\r').strip_prefix(ASK) {
                keyboard.write_all(&keys(asked)).unwrap();
            }
        }
    }
    String::from_utf8_lossy(&shown).into_owned()
}

/// EIO: the last process has closed the terminal. What it wrote just before may only come after
/// that (n_tty_read in drivers/tty/n_tty.c looks for the close after it has waited for the data),
/// so it is read once more.
fn read_or_end(keyboard: &mut File, part: &mut [u8]) -> Option<usize> {
    (0..2).find_map(|_| keyboard.read(part).ok().filter(|got| *got > 0))
}

/// `^C` is one key, `$` the end of a line.
fn keys(asked: &str) -> Vec<u8> {
    let mut keys = Vec::new();
    let mut rest = asked.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'^' => keys.extend(rest.next().map(|key| key & 0x1f)),
            b'$' => keys.push(b'\n'),
            byte => keys.push(byte),
        }
    }
    keys
}
