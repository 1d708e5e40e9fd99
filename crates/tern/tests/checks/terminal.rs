//! A placed program on a terminal of home.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Stdio};

use lab::Lab;

use crate::{PYTHON, put, shared};

/// Tells what it sees of its terminal, takes keys as they come, then waits to be interrupted.
const PROGRAM: &str = r#"
import os, sys, termios, tty, time
print([os.isatty(fd) for fd in (0, 1, 2)], os.get_terminal_size(0), flush=True)
print("line", repr(sys.stdin.readline()), flush=True)
before = termios.tcgetattr(0)
tty.setraw(0)
os.write(1, b"RAW\r\n")
keys = b""
while len(keys) < 3: keys += os.read(0, 3)
termios.tcsetattr(0, termios.TCSANOW, before)
print("keys", keys, os.tcgetpgrp(0) == os.getpgrp(), flush=True)
print("WAITING", flush=True)
# A signal that comes when Python has just looked for one does not end a sleep that begins then.
while True: time.sleep(0.02)
"#;

/// Starts a command of home as the leader of a session on a terminal; the keyboard and screen.
fn on_terminal(lab: &Lab, argv: &[&str]) -> (Child, File) {
    let (mut keyboard, mut terminal) = (-1, -1);
    let size = libc::winsize { ws_row: 33, ws_col: 77, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: two descriptors are written; the size lives through the call; no name and no modes
    // are given.
    let (keyboard, terminal) = unsafe {
        let done = libc::openpty(
            &raw mut keyboard,
            &raw mut terminal,
            std::ptr::null_mut(),
            std::ptr::null(),
            &raw const size,
        );
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
        (OwnedFd::from_raw_fd(keyboard), OwnedFd::from_raw_fd(terminal))
    };
    for end in [&keyboard, &terminal] {
        rustix::io::fcntl_setfd(end, rustix::io::FdFlags::CLOEXEC).unwrap();
    }
    let handle = || Stdio::from(terminal.try_clone().unwrap());
    let mut command = lab.in_node("n1", argv);
    command.stdin(handle()).stdout(handle()).stderr(handle());
    crate::common::leads_session(&mut command);
    (command.spawn().unwrap(), File::from(keyboard))
}

/// Reads until the screen shows `wanted`, or its end.
fn shows(screen: &mut File, shown: &mut String, wanted: &str) {
    let mut part = [0; 4096];
    while !shown.contains(wanted) {
        // EIO: nobody has the terminal open any more; what was written just before may come after
        // that.
        match (0..2).find_map(|_| screen.read(&mut part).ok().filter(|got| *got > 0)) {
            Some(got) => shown.push_str(&String::from_utf8_lossy(&part[..got])),
            None => panic!("the terminal closed without {wanted:?}: {shown}"),
        }
    }
}

#[test]
fn a_terminal_is_one() {
    let lab = shared();
    let program = put(&lab, "n1", "terminal.py", PROGRAM.as_bytes());
    // The alarm ends a test that waits for what never comes; timeout(1) would send every Ctrl-C a
    // second time.
    let argv = ["perl", "-e", "alarm 60; exec @ARGV", "tern", "run", "--on", "n2", "--", PYTHON, &program];
    let (mut child, mut terminal) = on_terminal(&lab, &argv);
    let mut shown = String::new();
    shows(&mut terminal, &mut shown, "\n");
    terminal.write_all(b"a lone\x7f\x7fne\n").unwrap();
    shows(&mut terminal, &mut shown, "RAW\r\n");
    terminal.write_all(b"\x03\x1ax").unwrap();
    shows(&mut terminal, &mut shown, "WAITING");
    assert!(shown.contains("[True, True, True] os.terminal_size(columns=77, lines=33)"), "{shown}");
    assert!(shown.contains(r"line 'a lone\n'"), "{shown}");
    assert!(shown.contains(r"keys b'\x03\x1ax' True"), "{shown}");
    terminal.write_all(b"\x03").unwrap();
    shows(&mut terminal, &mut shown, "KeyboardInterrupt");
    // The tool of the lab is interrupted too, or passes the death on; the terminal closes either
    // way.
    let status = child.wait().unwrap();
    assert!(status.signal() == Some(libc::SIGINT) || status.code() == Some(130), "{status}");
}
