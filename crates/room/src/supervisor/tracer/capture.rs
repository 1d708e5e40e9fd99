//! Collects a stopped body, thread by thread, into the image that its home can make it from.

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
use os::areas::{Area, Shown};
use os::ptrace::{HostTid, Stopped};
use room_protocol::ToHome;
use std::collections::HashMap;

/// The reason why a body is not taken apart, and its threads, which stand still.
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
    let Described { mut image, memories, mut areas, status } = match described {
        Ok(described) => described,
        Err(e) => return Err((e, threads)),
    };
    align_offsets(room, host, &image);
    if let Err(e) = can_leave(room, pid).and_then(|()| births::are_all(&status, &threads)) {
        return Err((e, threads));
    }
    // Each call that the guests' filter has stopped takes as long as all others together. A thread
    // that has ended is noticed next.
    for thread in &mut threads {
        let _ = thread.suspend_filters();
    }
    if let Err(e) = leave_vdso_copy(room, pid, host, &mut threads, &mut areas) {
        return Err((e, threads));
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
    if going.onward.is_some() {
        describe_guest::add_executable(&mut image, host);
    }
    match complete(room, pid, host, &mut image, &mut collected) {
        Ok(()) => Ok((image, memories, collected)),
        Err(e) => Err((e, collected.give_back().unwrap_or_default())),
    }
}

/// Has home's files have the offsets that their stand-ins have here.
fn align_offsets(room: &Shared, host: HostTid, image: &Image) {
    for descriptor in image.descriptors.iter().filter(|d| matches!(d.opened, image::Opened::Home(_))) {
        if let Some(standin) = room.standin_of(host, descriptor.fd) {
            seeks::align(room, host, descriptor.fd, standin);
        }
    }
}

/// Refuses a body of which this room knows something that nobody elsewhere would know.
fn can_leave(room: &Shared, pid: i32) -> Result<(), BodyError> {
    os::fault::at("collect there")?;
    let guests = room.guests();
    let Some(guest) = guests.get(pid) else { return Ok(()) };
    if guest.unclaimed.values().any(|kept| !kept.is_empty()) {
        let why = "a connection that it has accepted, and was interrupted in taking, waits for it there: try again";
        return Err(BodyError::NotMigratable(why.into()));
    }
    if guest.traced != ToBeTraced::No {
        return Err(BodyError::Retryable("it is about to be traced by its parent".into()));
    }
    Ok(())
}

/// Takes stopped threads out of the copy of home's vDSO, if guests have one because they may not
/// use this kernel's; and makes the areas those of home.
fn leave_vdso_copy(
    room: &Shared,
    pid: i32,
    host: HostTid,
    threads: &mut [Stopped],
    areas: &mut Vec<Area>,
) -> Result<(), BodyError> {
    let copy = room.guests().get(pid).and_then(|guest| guest.vdso);
    let Some((copy, foreign)) = copy.zip(room.strange.get()) else { return Ok(()) };
    foreign_vdso::as_at_home(areas, room.guests().get(pid));
    foreign.leave(threads, host, copy)
}

/// Puts what was collected into the image, which says what the descriptors and areas are.
fn complete(
    room: &Shared,
    pid: i32,
    host: HostTid,
    image: &mut Image,
    collected: &mut Collected,
) -> Result<(), BodyError> {
    let named = std::mem::replace(&mut image.process, collected.process.clone());
    (image.process.umask, image.process.cwd, image.process.exe) = (named.umask, named.cwd, named.exe);
    image.process.vdso = named.vdso;
    if !named.guards.is_empty() {
        image.process.guards = checkpoint::guards(host.0, &image.areas)?;
    }
    image.threads.clone_from(&collected.threads);
    // A thread that may run on all processors of this node has chosen none.
    let own = os::processor::own();
    image.threads.iter_mut().filter(|t| t.processors == own).for_each(|t| t.processors = None);
    let before = room.guests().get(pid).and_then(|guest| guest.before.clone()).unwrap_or_default();
    cpu_times::complete(&before, image);
    checkpoint::fire_again(image);
    collected.find_told(image)
}
