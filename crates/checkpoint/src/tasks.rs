//! What the threads of a process must have in common, and what it must share with no other process,
//! to be moved: memory, the table of descriptors, working directory, rights. A body gets one of
//! each, and its deputy gives up all of its memory.

use crate::error::BodyError;
use os::kcmp::Common;
use os::process::{self, Status};

/// Checks that all threads of process `pid` have one table of descriptors, one working directory
/// and the same rights.
pub fn check_threads(pid: i32) -> Result<(), BodyError> {
    let first = process::status(pid)?;
    for tid in process::threads(pid)?.into_iter().filter(|tid| *tid != pid) {
        let has_own = |common: Common| common.is_of_both(pid, tid) == Some(false);
        let apart = [
            (Common::Descriptors, "a table of descriptors of its own (CLONE_FILES was left out, or unshare(2) called)"),
            (Common::Directory, "a working directory of its own (CLONE_FS was left out, or unshare(2) called)"),
        ];
        let apart = apart.into_iter().find(|(common, _)| has_own(*common)).map(|(_, what)| what);
        let other = || process::status(tid).is_ok_and(|status| rights(&status) != rights(&first));
        let apart = apart.or_else(|| other().then_some("other users, groups or capabilities than its first thread"));
        if let Some(what) = apart {
            return Err(BodyError::NotMigratable(format!("thread {tid} has {what}")));
        }
    }
    Ok(())
}

/// Checks that none of the `others` shares the memory or the table of descriptors of process `pid`.
/// A child of vfork(2) shares its parent's memory only until it executes a program.
pub fn check_others(pid: i32, others: &[i32]) -> Result<(), BodyError> {
    let with = |common: Common| others.iter().find(|other| common.is_of_both(pid, **other) == Some(true));
    if let Some(other) = with(Common::Memory) {
        let why = |how: &str| format!("process {other} has the same memory ({how})");
        return Err(match (is_child(*other, pid), is_child(pid, *other)) {
            (true, _) => BodyError::Retryable(why("it is a vfork child, which executes a program soon")),
            (_, true) => BodyError::Retryable(why("this one is its vfork child, and has not executed a program yet")),
            (false, false) => BodyError::NotMigratable(why("clone(2) with CLONE_VM")),
        });
    }
    match with(Common::Descriptors) {
        Some(other) => {
            let why = format!("process {other} has the same table of descriptors (clone(2) with CLONE_FILES)");
            Err(BodyError::NotMigratable(why))
        }
        None => Ok(()),
    }
}

fn is_child(child: i32, parent: i32) -> bool {
    process::status(child).is_ok_and(|status| status.ppid == parent)
}

type Rights<'a> = ([u32; 4], [u32; 4], &'a [u32], [u64; 4]);

fn rights(status: &Status) -> Rights<'_> {
    let Status { uid, gid, groups, capabilities, permitted, inheritable, ambient, .. } = status;
    (*uid, *gid, groups, [*capabilities, *permitted, *inheritable, *ambient])
}
