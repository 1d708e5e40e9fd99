//! The memory of a body that will go home goes there while it runs; what it has written since goes
//! when it stands still ([`crate::supervisor::tracer`]). Only what is the body's alone and comes
//! from no file: what that needs is laid out in its deputy before the deputy is stopped, too.

use crate::state::shared::Shared;
use crate::supervisor::describe_guest;
use crate::supervisor::transfer::precopy::{Watch, await_uffd};
use crate::supervisor::transfer::sending::HomewardBody;
use checkpoint::{Ahead, BodyError, Copied, Files, Gathered, PagesToSend, preliminary};
use image::{Area, Image};
use link::Bulk;
use migration_plan::{COPIED_BYTES_MAX, Costs, Rounds};
use os::inject::Memory;
use os::ptrace::HostTid;
use os::track::Tracker;
use room_protocol::ToHome;
use room_protocol::message::onward::{self, Said, Ticket, Went};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Instant;

/// Sends the memory of a body in a thread of its own, and tells home.
pub fn start(room: &Arc<Shared>, pid: i32, host: HostTid, wish: onward::Homeward, watch: Watch) {
    let (task, ticket) = (room.clone(), wish.ahead.ticket);
    let send = move || {
        let result = send(&task, pid, host, &wish, watch).map(|ahead| {
            let course = ahead.course().unwrap_or_default();
            task.homeward.keep(pid, &ticket, ahead);
            Went { rounds: course.rounds, outrun: course.outrun }
        });
        tell(&task, pid, ticket, result.map_err(|e| e.to_string()));
    };
    if let Err(e) = std::thread::Builder::new().name("homeward".into()).spawn(send) {
        tell(room, pid, ticket, Err(format!("no thread to send it: {e}")));
    }
}

/// Tells home the result that it waits for.
pub fn tell(room: &Shared, pid: i32, ticket: Ticket, result: Result<Went, String>) {
    room.tell(&ToHome::Onward { pid, said: Said::Ahead { ticket, result } });
}

/// Sends the memory of a body that runs, and gives what is known of it when it stops.
fn send(room: &Shared, pid: i32, host: HostTid, wish: &onward::Homeward, watch: Watch) -> Result<Ahead, BodyError> {
    os::fault::at("homeward there")?;
    let own_bytes = os::process::anonymous_bytes(host.0)?;
    if !wish.ahead.watched && own_bytes > COPIED_BYTES_MAX {
        return Err(BodyError::NotMigratable("it is too large to be compared".into()));
    }
    room.tell(&ToHome::Onward { pid, said: Said::Sends { own_bytes } });
    let areas = areas(room, pid, host, &wish.taken)?;
    let process = image::Process { cwd: b"/".to_vec(), ..image::Process::default() };
    let image = preliminary(pid, Image { areas, process, ..Image::default() });
    let body = HomewardBody { room, pid, host, bulk: RefCell::new(Bulk::new(wish.ahead.pace)) };
    body.send_image(&image.encode().map_err(|e| BodyError::NotMigratable(e.to_string()))?)?;
    let batch_bytes = || body.bulk.borrow().batch_bytes();
    let sent = Cell::new(0);
    let send_pages = |runs: &[checkpoint::Run], bytes: &[u8]| {
        sent.set(sent.get() + bytes.len() as u64);
        body.pages_within(runs, bytes)
    };
    let costs = Costs::of(wish.ahead.fixed_us, wish.ahead.bytes_per_s);
    let mut rounds = Rounds::new(own_bytes, wish.ahead.max_freeze_us, costs);
    let uffd = match watch {
        Watch::Copy => {
            let copied = Copied::of(host.0, &image.areas)?;
            let begun = Instant::now();
            copied.each(&image.areas, batch_bytes, send_pages)?;
            in_place(room, pid)?;
            rounds.sent(copied.bytes(), begun.elapsed().as_micros() as u64);
            return Ok(Ahead::copied(copied, image.areas, rounds.rest_bytes_max()));
        }
        Watch::Kernel(uffd) => await_uffd(&uffd)?,
    };
    let mut ahead = Ahead::new(Tracker::new(uffd, host.0)?, image.areas);
    let memory = Memory::of(host.0)?;
    ahead.send(rounds, |round| {
        let before = sent.get();
        if round.fresh {
            body.send_dense(round.runs, round.areas)?;
        }
        let pages = PagesToSend {
            runs: round.runs,
            memory: &memory,
            areas: round.areas,
            fresh: round.fresh,
            unreadable: Some(&mut round.unreadable),
        };
        checkpoint::each_batch(pages, batch_bytes, send_pages)?;
        in_place(room, pid)?;
        os::fault::at("round homeward there")?;
        Ok::<_, BodyError>(sent.get() - before)
    })?;
    Ok(ahead)
}

/// Waits until home has taken all that was sent.
fn in_place(room: &Shared, pid: i32) -> Result<(), BodyError> {
    match room.windows.await_clear(pid) {
        true => Ok(()),
        false => Err(BodyError::NotMigratable("home takes no more of its pages".into())),
    }
}

/// Lists the areas that can be laid out beside what the deputy has: anonymous, private, not locked,
/// without protection keys.
fn areas(room: &Shared, pid: i32, host: HostTid, taken: &[(u64, u64)]) -> Result<Vec<Area>, BodyError> {
    let mut areas = os::areas::read_with_flags(host.0)?;
    describe_guest::as_at_home(room, pid, &mut areas);
    areas.retain(|a| a.inode == 0 && !a.shared && !a.name.starts_with(b"/"));
    let no_file = |_: &os::areas::Area| Err("it shows a file".to_owned());
    let mut found = checkpoint::memory(host.0, &areas, &mut Files::default(), &mut Gathered::in_room(), no_file)?.areas;
    let is_free = |a: &Area| taken.iter().all(|(start, end)| *end <= a.start || a.end <= *start);
    found.retain(|a| is_free(a) && !a.locked && !a.droppable && a.key == 0);
    // They may have changed while the kernel listed them.
    let in_order = found.windows(2).all(|w| w[0].end <= w[1].start);
    if in_order { Ok(found) } else { Err(BodyError::NotMigratable("its memory changes all the time".into())) }
}
