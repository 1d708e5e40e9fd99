//! What a process of this machine is, without its pages: as it would be sent; or why it would not
//! be.

use crate::describe::room_names::{self, RoomNames};
use crate::describe::snapshot::ProcessSnapshot;
use checkpoint::BodyError;
use image::Image;

/// Why process `pid`, which runs at home, cannot be moved now: does what a move does before
/// anything is sent, and lets the process go on. It stands still for a moment.
pub fn stays(pid: i32) -> Option<String> {
    let looked = || {
        let observed = ProcessSnapshot::of_running(pid, false)?;
        room_names::check_removed(pid, &observed.files, &observed.removed())?;
        observed.place(pid, &[], &RoomNames::default())?;
        picture(pid)
    };
    looked().err().map(|e: BodyError| e.to_string())
}

/// Looks at process `pid`, which stands still for a moment. The caller's own processes, or the
/// superuser.
pub fn picture(pid: i32) -> Result<Image, BodyError> {
    let before = ProcessSnapshot::of_running(pid, false)?;
    let frozen = checkpoint::freeze(pid)?;
    let now = match ProcessSnapshot::of(pid, Some(&before), false) {
        Ok(now) => now,
        Err(e) => {
            frozen.thaw();
            return Err(e);
        }
    };
    let ignored = os::process::status(pid).map_or(0, |s| s.ignored);
    let known = checkpoint::Known { areas: now.areas(), ignored, slept: &frozen.slept, witness: None };
    let collected = checkpoint::collect(pid, frozen.threads, known, Ok, || {});
    let mut collected = collected.map_err(|(e, threads)| {
        threads.into_iter().for_each(|t| drop(t.detach(0)));
        e
    })?;
    now.complete(&mut collected.process);
    let image = Image { process: collected.process.clone(), threads: collected.threads.clone(), ..now.image() };
    collected.give_back()?.into_iter().for_each(|t| drop(t.detach(0)));
    Ok(image)
}
