//! A pseudo-terminal with a program on it, and somebody who types and reads.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Nothing takes that long, on however busy a machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Lines and columns.
pub const SIZE: (u16, u16) = (24, 80);

/// A program on a terminal of its own.
pub struct Session {
    child: Child,
    keyboard: File,
    shown: String,
    /// Up to here it was looked at.
    looked: usize,
}

impl Session {
    /// Starts it as the leader of a session.
    pub fn start(mut command: Command) -> Session {
        let (keyboard, terminal) = open();
        let handle = || Stdio::from(terminal.try_clone().unwrap());
        command.stdin(handle()).stdout(handle()).stderr(handle());
        crate::common::leads_session(&mut command);
        let child = command.spawn().unwrap();
        Session { child, keyboard: File::from(keyboard), shown: String::new(), looked: 0 }
    }

    /// Types on the terminal.
    pub fn keys(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until this is shown; everything that was, since the last time, up to it.
    pub fn shows(&mut self, wanted: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.shown[self.looked..].find(wanted) {
                let end = self.looked + at + wanted.len();
                let seen = self.shown[self.looked..end].to_owned();
                self.looked = end;
                return seen;
            }
            assert!(
                Instant::now() < deadline && self.read(),
                "not shown: {wanted:?}, but {:?}",
                &self.shown[self.looked..]
            );
        }
    }

    /// Waits until the terminal's foreground group is another than `group`, and gives it.
    pub fn foreground_other_than(&mut self, group: i32) -> i32 {
        let deadline = Instant::now() + PATIENCE;
        loop {
            // SAFETY: a number only.
            let now = unsafe { libc::tcgetpgrp(self.keyboard.as_raw_fd()) };
            if now != group {
                return now;
            }
            assert!(Instant::now() < deadline, "the foreground is {group} still");
            self.read();
        }
    }

    /// The terminal's foreground group.
    pub fn foreground(&self) -> i32 {
        // SAFETY: a number only.
        unsafe { libc::tcgetpgrp(self.keyboard.as_raw_fd()) }
    }

    /// Changes the size of the window.
    pub fn resize(&self, lines: u16, columns: u16) {
        let size = libc::winsize { ws_row: lines, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: the size lives through the call.
        assert_eq!(unsafe { libc::ioctl(self.keyboard.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) }, 0);
    }

    /// The terminal goes away, as when its window is closed.
    pub fn hang_up(self) -> Child {
        self.child
    }

    /// Reads to the end of the output, and waits for the program.
    pub fn ends(mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            if Instant::now() > deadline {
                let _ = self.child.kill();
            }
            self.read();
        }
    }

    /// Takes what is there, or waits a moment; false at the end.
    fn read(&mut self) -> bool {
        let mut polled = libc::pollfd { fd: self.keyboard.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one live pollfd.
        if unsafe { libc::poll(&mut polled, 1, 20) } <= 0 {
            return true;
        }
        let mut part = [0; 4096];
        // EIO: the last process has closed the terminal; what it wrote just before may come after
        // that.
        let got = (0..2).find_map(|_| self.keyboard.read(&mut part).ok().filter(|got| *got > 0));
        got.inspect(|got| self.shown.push_str(&String::from_utf8_lossy(&part[..*got]))).is_some()
    }
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
