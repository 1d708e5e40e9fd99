//! Refuses processes that live in a sandbox, to place as to move: [`os::confinement`] says which,
//! and a look into another process tells of Landlock, of which no file of /proc does.

use crate::deputy::watchdog::Watchdog;
use checkpoint::BodyError;
use os::confinement::{self, Confinement};
use os::landlock_probe;

/// Checks that process `pid` lives in no sandbox that the kernel tells of. (Whether its threads are
/// under Landlock is asked of each when it is stopped to be moved: [`checkpoint::collect`].)
///
/// # Errors
/// The process stays where it is, and why; or it has ended.
pub fn refuse(pid: i32) -> Result<(), BodyError> {
    confinement::check(pid).map_err(|confinement| match confinement {
        Confinement::Ended => BodyError::Exited,
        other => BodyError::NotMigratable(other.to_string()),
    })
}

/// Checks that process `pid`, which is about to be placed, lives in no sandbox, Landlock included:
/// its deputy would do for its body what it may not do itself.
///
/// # Errors
/// The restriction, or why it cannot be told whether there is one, in words.
pub fn refuse_newcomer(watchdog: &Watchdog, pid: i32) -> Result<(), String> {
    confinement::check(pid).map_err(|confinement| confinement.to_string())?;
    if !landlock_probe::is_needed() {
        return Ok(());
    }
    let look = || {
        let witness = watchdog.witness(&os::process::status(pid)?)?;
        let (nr, args) = witness.looked_into();
        checkpoint::visit(pid, |inside| Ok(inside.call(nr, args)?))
    };
    match look() {
        Ok(result) if landlock_probe::tells_of_restrictions(result) => Err(checkpoint::RESTRICTED.to_owned()),
        Ok(_) => Ok(()),
        Err(e) => Err(format!("it cannot be told whether it is restricted (Landlock): {e}")),
    }
}
