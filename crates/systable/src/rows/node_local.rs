//! The table for processes in node-local mode: calls about processes are home's, as ever, and all
//! others are the hosting kernel's.

use super::Row;
use crate::class::{Class, Special};
use crate::filter::MARK;
use crate::when::{Cmp, When};

/// Requests about terminals (asm-generic/ioctls.h, 0x5400 to 0x543f; those with a size in their
/// upper half, too) on descriptors that home gave the program.
const TERMINALS: When = When::If(&[&[Cmp::Below(0, 3), Cmp::Bits(1, 0xffc0, 0x5400)]]);
/// `F_GETFL`, `F_SETFL`, and the sizes of pipes, of descriptors that home gave the program.
const FLAGS: When = When::If(&[
    &[Cmp::Is(1, 3), Cmp::Below(0, 3), Cmp::Marked(0, 0)],
    &[Cmp::Is(1, 3), Cmp::Marked(0, MARK)],
    &[Cmp::Is(1, 4), Cmp::Below(0, 3)],
    &[Cmp::Is(1, 1031), Cmp::Below(0, 3)],
    &[Cmp::Is(1, 1032), Cmp::Below(0, 3)],
]);

impl Row {
    /// Gives the row as it is for a process in node-local mode.
    pub fn node_local(&self) -> Row {
        match self.class {
            Class::Local | Class::Unused => *self,
            Class::Home | Class::GoHome(_) | Class::Refused(_) => {
                if is_about_processes(self.name) {
                    *self
                } else {
                    self.local()
                }
            }
            Class::Special(special) => self.special_node_local(special),
        }
    }

    fn special_node_local(&self, special: Special) -> Row {
        match special {
            Special::Clone
            | Special::TakeSignal
            | Special::SignalFd
            | Special::Nice
            | Special::Usage
            | Special::Inspecting
            | Special::Schedule
            | Special::Compare
            | Special::Signal
            | Special::Disposition
            | Special::Wait
            | Special::Credentials
            | Special::Prctl
            | Special::Limits => *self,
            Special::Ioctl => self.when(TERMINALS),
            Special::Fcntl => self.when(FLAGS),
            // Those of descriptors that home gave the program are conditional.
            Special::Stat | Special::Seek | Special::Splice if self.when != When::Always => *self,
            Special::Stat
            | Special::Seek
            | Special::Splice
            | Special::Owner
            | Special::Watch
            | Special::SharedMapping
            | Special::Semaphore
            | Special::Socket
            | Special::Ipc => self.local(),
        }
    }

    fn local(&self) -> Row {
        Row { class: Class::Local, when: When::Always, ..*self }
    }
}

/// Calls without code of their own that are about processes, or that would take a process out of
/// its room or its filter.
fn is_about_processes(name: &str) -> bool {
    matches!(
        name,
        "setpgid"
            | "getppid"
            | "getpgrp"
            | "setsid"
            | "getpgid"
            | "getsid"
            | "getpriority"
            | "chroot"
            | "unshare"
            | "setns"
            | "pidfd_getfd"
            | "seccomp"
            | "bpf"
            | "perf_event_open"
            | "userfaultfd"
            | "io_uring_setup"
            | "io_uring_enter"
            | "io_uring_register"
    )
}
