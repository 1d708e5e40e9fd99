//! Who shares memory with whom in the room: they go home together, or not at all.

use crate::state::home_mounts::HomeFiles;
use crate::state::shared::Shared;
use crate::supervisor::held_files as held;
use checkpoint::BodyError;
use os::areas::{Area, Shown};
use os::ptrace::HostTid;
use std::collections::{BTreeSet, HashSet};
use std::os::unix::ffi::OsStrExt;

/// All with whom this body shares memory, or somebody does with whom it does. Of those that run it
/// need not be true.
pub fn of(room: &Shared, pid: i32) -> Result<BTreeSet<i32>, BodyError> {
    let (host, others) = {
        let guests = room.guests();
        let Some(host) = guests.host(pid) else { return Err(BodyError::Exited) };
        let others = guests.pids().into_iter().filter(|p| *p != pid);
        (host, others.filter_map(|p| Some((p, guests.host(p)?))).collect::<Vec<_>>())
    };
    if others.is_empty() {
        return Ok(BTreeSet::new());
    }
    let areas = os::areas::read(host.0)?;
    let home = HomeFiles::of(host)?;
    let open = opened(room, host, &home);
    if open.is_empty() && !areas.iter().any(|area| may_be_shared(area) || held::may_be_shown(area, &home)) {
        return Ok(BTreeSet::new());
    }
    // One that has ended has none.
    let all = others.into_iter().filter_map(|(p, host)| Some((p, host, os::areas::read(host.0).ok()?)));
    let all: Vec<(i32, HostTid, Vec<Area>)> = all.collect();
    // Processes that only read such a file have it in common with those that store in it.
    let mut held = held_for(host, &areas, &home);
    held.extend(all.iter().flat_map(|(_, host, areas)| held_for(*host, areas, &home)));
    let mapped = |host: HostTid, areas: &[Area]| {
        let mut shown = memories(host, areas, &home);
        shown.extend(areas.iter().filter(|area| area.shared).map(Area::shown).filter(|shown| held.contains(shown)));
        shown
    };
    let mut common = mapped(host, &areas);
    common.extend(open);
    let all = all.into_iter().map(|(p, host, areas)| (p, &mapped(host, &areas) | &opened(room, host, &home)));
    let mut rest: Vec<(i32, HashSet<Shown>)> = all.collect();
    let mut found = BTreeSet::new();
    loop {
        let (related, others): (Vec<_>, Vec<_>) = rest.into_iter().partition(|(_, theirs)| !common.is_disjoint(theirs));
        if related.is_empty() {
            return Ok(found);
        }
        for (p, theirs) in related {
            found.insert(p);
            common.extend(theirs);
        }
        rest = others;
    }
}

/// At first sight.
fn may_be_shared(area: &Area) -> bool {
    area.inode != 0
        && (checkpoint::memory_kind(&area.name).is_some() || area.shared && area.name.ends_with(b" (deleted)"))
}

/// The files that home holds for the room because this process has them mapped.
fn held_for(host: HostTid, areas: &[Area], home: &HomeFiles) -> HashSet<Shown> {
    areas.iter().filter(|area| held::shows(host, area, home)).map(Area::shown).collect()
}

fn memories(host: HostTid, areas: &[Area], home: &HomeFiles) -> HashSet<Shown> {
    let candidates = areas.iter().filter(|area| may_be_shared(area) && !home.show_in(area));
    let is_memory =
        |area: &&Area| checkpoint::memory_kind(&area.name).is_some() || checkpoint::removed_file(host.0, area);
    candidates.filter(is_memory).map(Area::shown).collect()
}

/// Files in memory that it has open.
fn opened(room: &Shared, host: HostTid, home: &HomeFiles) -> HashSet<Shown> {
    let shown = |fd: i32| {
        let link = format!("fd/{fd}");
        let name = os::process::link(host.0, &link).ok()?;
        let is_removed = || {
            // Who asks what home's files are waits for home.
            let info = os::process::fd_info(host.0, fd).ok()?;
            let is_ours =
                !home.mounts.contains(&info.mount_id) && room.standins.standin(info.mount_id, info.inode).is_none();
            Some(is_ours && checkpoint::is_removed_memory(host.0, fd, &name))
        };
        let is_memory = checkpoint::is_memory(&name)
            || name.as_os_str().as_bytes().ends_with(b" (deleted)") && is_removed().unwrap_or(false);
        is_memory.then(|| checkpoint::memory_shown(host.0, &link).ok()).flatten()
    };
    os::process::descriptors(host.0).unwrap_or_default().into_iter().filter_map(shown).collect()
}

/// Who has the very memory of this body (vfork): its child, until that has a program of its own, or
/// its parent, which waits for that and cannot be stopped meanwhile. A child that must go home
/// takes a copy, as one of fork(2) has, and leaves behind what it would close by execve(2), for
/// that is its parent's, too; its parent goes on.
pub fn begetter(room: &Shared, pid: i32) -> Option<i32> {
    let all: Vec<(i32, HostTid)> = {
        let guests = room.guests();
        guests.pids().into_iter().filter_map(|p| Some((p, guests.host(p)?))).collect()
    };
    let (_, host) = all.iter().find(|(p, _)| *p == pid).copied()?;
    all.into_iter().find(|(p, other)| *p != pid && os::process::one_memory(host.0, other.0)).map(|(p, _)| p)
}
