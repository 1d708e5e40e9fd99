//! What a stopped body is, as home is to make it: taken apart thread by thread.

use crate::state::guests::ToBeTraced;
use crate::state::shared::Shared;
use crate::state::{cpu_times, foreign_vdso};
use crate::supervisor::describe_guest;
use crate::supervisor::describe_guest::{Described, Leaving};
use crate::supervisor::seeks;
use crate::supervisor::tracer::births;
use crate::supervisor::tracer::state::departing::Departure;
use crate::supervisor::tracer::written_back::write_back;
use checkpoint::{BodyError, Collected, Known};
use image::Image;
use os::areas::Shown;
use os::ptrace::{HostTid, Stopped};
use room_protocol::ToHome;
use std::collections::HashMap;

/// Why a body is not taken apart, and its threads, which stand still.
pub type Failed = (BodyError, Vec<Stopped>);

/// Takes a body apart that stands still: its image, the memories that are shown elsewhere, and its
/// threads.
pub fn take_apart(
    room: &Shared,
    pid: i32,
    host: HostTid,
    mut threads: Vec<Stopped>,
    going: &Departure,
) -> Result<(Image, Vec<Shown>, Collected), Failed> {
    let leaving = Leaving { family: &going.relatives, goes_home: going.onward.is_none() };
    let described = write_back(host, &mut threads, &going.slept)
        .and_then(|()| describe_guest::describe(room, pid, host, going.looked.as_ref(), leaving));
    let described = match described {
        Ok(described) => described,
        Err(e) => return Err((e, threads)),
    };
    let Described { image, memories, mut areas, status } = described;
    for descriptor in image.descriptors.iter().filter(|d| matches!(d.opened, image::Opened::Home(_))) {
        if let Some(standin) = room.standin_of(host, descriptor.fd) {
            seeks::align(room, host, descriptor.fd, standin);
        }
    }
    let can_leave = || {
        os::fault::at("collect there")?;
        let unclaimed = room.guests().get(pid).is_some_and(|g| g.unclaimed.values().any(|kept| !kept.is_empty()));
        if unclaimed {
            let why = "a connection that it has accepted, and was interrupted in taking, waits for it there: try again";
            return Err(BodyError::NotMigratable(why.into()));
        }
        // Nobody elsewhere would know.
        if room.guests().get(pid).is_some_and(|guest| guest.traced != ToBeTraced::No) {
            return Err(BodyError::Retryable("it is about to be traced by its parent".into()));
        }
        births::are_all(&status, &threads)
    };
    if let Err(e) = can_leave() {
        return Err((e, threads));
    }
    // Each call that the guests' filter has stopped takes as long as all others together. Who is
    // gone shows next.
    for thread in &mut threads {
        let _ = thread.suspend_filters();
    }
    let copy = room.guests().get(pid).and_then(|guest| guest.vdso);
    if let (Some(copy), Some(strange)) = (copy, room.strange.get()) {
        foreign_vdso::as_at_home(&mut areas, room.guests().get(pid));
        if let Err(e) = strange.leave(&mut threads, host, copy) {
            return Err((e, threads));
        }
    }
    let tids: HashMap<i32, i32> =
        room.guests().threads_of(pid).into_iter().map(|(host, who)| (host.0, who.tid)).collect();
    // Home can get ready meanwhile.
    let noticed = room.standins.noticed();
    room.tell(&ToHome::Standing { pid, tids: tids.values().copied().collect(), noticed });
    let at_home = |host| tids.get(&host).copied().map_or_else(|| Ok(os::process::inner_tid(host)?), Ok);
    let ahead = going.onward.as_ref().map_or(&going.ahead, |onward| &onward.ahead);
    let known = Known { areas: &areas, ignored: status.ignored, slept: &going.slept, witness: None };
    let mut collected = checkpoint::collect(host.0, threads, known, at_home, || ahead.begin(&image.areas))?;
    let mut image = image;
    if going.onward.is_some() {
        describe_guest::add_executable(&mut image, host);
    }
    let named = std::mem::replace(&mut image.process, collected.process.clone());
    (image.process.umask, image.process.cwd, image.process.exe) = (named.umask, named.cwd, named.exe);
    image.process.vdso = named.vdso;
    if !named.guards.is_empty() {
        match checkpoint::guards(host.0, &image.areas) {
            Ok(guards) => image.process.guards = guards,
            Err(e) => return Err((e, collected.give_back().unwrap_or_default())),
        }
    }
    image.threads.clone_from(&collected.threads);
    // Who may run wherever this node lets its guests has chosen nothing.
    let own = os::processor::own();
    image.threads.iter_mut().filter(|t| t.processors == own).for_each(|t| t.processors = None);
    let before = room.guests().get(pid).and_then(|guest| guest.before.clone()).unwrap_or_default();
    cpu_times::complete(&before, &mut image);
    checkpoint::fire_again(&mut image);
    match collected.find_told(&mut image) {
        Ok(()) => Ok((image, memories, collected)),
        Err(e) => Err((e, collected.give_back().unwrap_or_default())),
    }
}
