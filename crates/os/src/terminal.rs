//! A terminal whose keys are read one by one (termios(3)).

use crate::Result;
use crate::error::check;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

/// A terminal that gives each key at once and shows none. As it was when this is dropped.
pub struct Keys {
    terminal: OwnedFd,
    before: libc::termios,
}

impl Keys {
    /// Takes over the terminal that is the standard input. Ctrl-C and Ctrl-Z act as before.
    ///
    /// # Errors
    /// Standard input is no terminal.
    pub fn take() -> Result<Keys> {
        let doing = || "preparing the terminal".to_owned();
        let terminal =
            std::io::stdin().as_fd().try_clone_to_owned().map_err(|source| crate::Error { doing: doing(), source })?;
        // SAFETY: all zero is a valid termios, which tcgetattr(3) fills.
        let before = unsafe {
            let mut before: libc::termios = std::mem::zeroed();
            check(libc::tcgetattr(terminal.as_raw_fd(), &mut before), doing)?;
            before
        };
        let mut changed = before;
        changed.c_lflag &= !(libc::ICANON | libc::ECHO);
        (changed.c_cc[libc::VMIN], changed.c_cc[libc::VTIME]) = (0, 0);
        // SAFETY: the modes live here.
        check(unsafe { libc::tcsetattr(terminal.as_raw_fd(), libc::TCSANOW, &changed) }, doing)?;
        Ok(Keys { terminal, before })
    }

    /// Gives the keys that were pressed since the last time; waits for none.
    pub fn pressed(&self) -> Vec<u8> {
        let mut keys = vec![0; 64];
        let count = rustix::io::read(&self.terminal, &mut keys).unwrap_or(0);
        keys.truncate(count);
        keys
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        // SAFETY: the modes live here. A terminal that is gone needs none.
        unsafe { libc::tcsetattr(self.terminal.as_raw_fd(), libc::TCSANOW, &self.before) };
    }
}

/// Gives the lines and columns of the terminal that is the standard output; `None`: it is none, or
/// has no size.
pub fn size() -> Option<Size> {
    // SAFETY: all zero is a valid winsize, which the kernel fills.
    let size = unsafe {
        let mut size: libc::winsize = std::mem::zeroed();
        let done = libc::ioctl(std::io::stdout().as_raw_fd(), libc::TIOCGWINSZ, &mut size);
        (done == 0).then_some(size)?
    };
    let size = Size { lines: usize::from(size.ws_row), columns: usize::from(size.ws_col) };
    (size.lines > 0 && size.columns > 0).then_some(size)
}

/// Lines and columns of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// The number of lines.
    pub lines: usize,
    /// Characters of a line.
    pub columns: usize,
}
