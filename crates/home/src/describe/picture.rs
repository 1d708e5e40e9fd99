//! What a process of this machine is, without its pages: as it would be sent; or why it would not
//! be.

use crate::describe::memory_group::MemoryGroup;
use crate::describe::memory_sharing::MemorySharing;
use crate::describe::room_names::{self, RoomNames};
use crate::describe::snapshot::ProcessSnapshot;
use checkpoint::BodyError;
use image::Image;
use std::sync::Arc;

/// Gives the processes with which process `pid`, which runs at home, would leave now, because they
/// share memory; or why it cannot. Does what a move does before anything is sent, and lets the
/// process go on. The process stands still for a moment.
pub fn leaves_with(pid: i32) -> Result<Vec<i32>, String> {
    match look(pid, &MemorySharing::Refused) {
        Ok(()) => Ok(Vec::new()),
        Err(BodyError::SharesMemory(_)) => {
            let group = MemoryGroup::of(pid).map_err(|e| e.to_string())?;
            let sharing = MemorySharing::Group(Arc::new(group.memories));
            let others: Vec<i32> = group.members.into_iter().filter(|other| *other != pid).collect();
            look(pid, &sharing).map_err(|e| e.to_string())?;
            for other in &others {
                look(*other, &sharing).map_err(|e| stays_with(*other, &e))?;
            }
            Ok(others)
        }
        Err(e) => Err(e.to_string()),
    }
}

/// Says that a process keeps those at home with which it shares memory.
pub fn stays_with(pid: i32, why: &impl std::fmt::Display) -> String {
    format!("process {pid}, with which it shares memory, stays: {why}")
}

fn look(pid: i32, sharing: &MemorySharing) -> Result<(), BodyError> {
    let observed = ProcessSnapshot::of_running(pid, false, sharing)?;
    room_names::check_removed(pid, &observed.files, &observed.removed())?;
    observed.place(pid, &[], &RoomNames::default())?;
    picture_of(pid, sharing).map(drop)
}

/// Looks at process `pid`, which stands still for a moment. The caller's own processes, or the
/// superuser.
pub fn picture(pid: i32) -> Result<Image, BodyError> {
    picture_of(pid, &MemorySharing::Refused)
}

fn picture_of(pid: i32, sharing: &MemorySharing) -> Result<Image, BodyError> {
    let before = ProcessSnapshot::of_running(pid, false, sharing)?;
    let frozen = checkpoint::freeze(pid)?;
    let now = match ProcessSnapshot::of(pid, Some(&before), false, sharing) {
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
