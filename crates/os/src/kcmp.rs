//! Kernel objects that two tasks have in common (kcmp(2)), other than single open files.

use crate::{Error, Result};

/// Open files (`KCMP_FILE` of linux/kcmp.h).
pub const FILE: i32 = 0;
/// What a process has of memory (`KCMP_VM`).
pub const MEMORY: i32 = 1;
/// A descriptor and what an epoll instance watches (`KCMP_EPOLL_TFD`): the only kind with a
/// pointer.
pub const EPOLL_TARGET: i32 = 7;

/// Compares something of two tasks: 0 if it is one, else in which order the kernel has them (1 or
/// 2; 3 if it does not say).
pub fn compare(tasks: [i32; 2], what: i32, numbers: [u64; 2]) -> Result<i64> {
    let ([a, b], [first, second]) = (tasks, numbers);
    if what == EPOLL_TARGET {
        return Err(Error::new("comparing tasks", std::io::Error::from_raw_os_error(libc::EOPNOTSUPP)));
    }
    // SAFETY: numbers only: the kind that takes a pointer has gone.
    let done = unsafe { libc::syscall(libc::SYS_kcmp, a, b, what, first, second) };
    crate::error::check(done, || format!("comparing tasks {a} and {b}"))
}

/// What tasks may have in common, as clone(2) names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Common {
    /// The memory of a process (CLONE_VM).
    Memory,
    /// The table of descriptors (CLONE_FILES).
    Descriptors,
    /// Working directory, root and umask (CLONE_FS).
    Directory,
    /// The list of System V semaphore operations to be undone (CLONE_SYSVSEM).
    Undo,
}

impl Common {
    /// Its number in linux/kcmp.h.
    fn number(self) -> i32 {
        match self {
            Common::Memory => 1,
            Common::Descriptors => 2,
            Common::Directory => 3,
            Common::Undo => 6,
        }
    }

    /// Tells whether tasks `a` and `b` have one; `None` if the kernel does not say (one has ended,
    /// most likely).
    pub fn is_of_both(self, a: i32, b: i32) -> Option<bool> {
        // SAFETY: numbers only.
        match unsafe { libc::syscall(libc::SYS_kcmp, a, b, self.number(), 0, 0) } {
            0 => Some(true),
            1.. => Some(false),
            _ => None,
        }
    }
}

/// Tells whether a task may have System V semaphore operations to undo at its end. A task has no
/// list of them before its first such operation, or its first thread; a task that has never had one
/// shows what that looks like.
pub fn may_undo(task: i32, without: i32) -> bool {
    Common::Undo.is_of_both(task, without) == Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_has_its_own_of_everything_and_a_thread_has_its_makers() {
        let me = std::process::id() as i32;
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let (all, other) = ([Common::Memory, Common::Descriptors, Common::Directory], child.id() as i32);
        assert_eq!(all.map(|common| common.is_of_both(me, other)), [Some(false); 3]);
        // SAFETY: a number.
        let own = unsafe { libc::gettid() };
        assert_eq!(all.map(|common| common.is_of_both(me, own)), [Some(true); 3]);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(Common::Memory.is_of_both(me, other), None);
    }
}
