//! Contexts of asynchronous I/O (io_setup(2)). The kernel keeps a ring of completions in memory of
//! the process; the address of the ring is the number by which the program calls the context.
//!
//! A context moves when no request of it is under way. The kernel tells nobody how many are, so
//! they are counted by what is left: each request takes a slot until the program has read its
//! completion. Requests that end at once are made until the kernel has no slot; the completions in
//! the ring are then all slots but those of requests under way. How many slots there are, another
//! context of the same size tells. The kernel keeps some free slots for each processor
//! (`get_reqs_available` in fs/aio.c), so the thread makes the requests on all of them. Afterwards
//! the ring holds what it held before, at another position.
//!
//! The destination makes a context of the same size, has as many requests end as there are
//! completions to be read, replaces those by the program's, and moves the ring to its address
//! (`aio_ring_mremap` gives the context that number).

use crate::error::{BodyError, stays};
use crate::memories;
use image::{Area, Content, Image, RING_BYTES_MAX, Ring};
use os::areas;
use os::inject::{Inside, REGION_BYTES};
use std::time::{Duration, Instant};

/// The name of such an area in /proc/PID/maps.
const NAME: &[u8] = b"/[aio]";
/// Bytes of `struct aio_ring`, which begins the ring, and of each `struct io_event` behind it.
const HEAD_BYTES: u64 = 32;
const EVENT_BYTES: u64 = 32;
/// Places of the number of events, and of the first unread and the next free one, in the ring.
const EVENTS_AT: u64 = 4;
const FIRST_AT: u64 = 8;
/// How many requests one call makes.
const REQUESTS: usize = 256;
/// The longest that a stopped process waits for its requests.
const WAIT_MAX: Duration = Duration::from_millis(200);
const WAIT_STEP: Duration = Duration::from_millis(1);

/// Tells whether an area is the ring of a context.
pub fn is_ring(area: &areas::Area) -> bool {
    area.name.starts_with(NAME)
}

/// Tells whether process `pid` has contexts.
pub fn has_rings(pid: i32) -> Result<bool, BodyError> {
    Ok(areas::read(pid)?.iter().any(is_ring))
}

/// Checks that a ring can move.
pub fn check(area: &areas::Area) -> Result<(), BodyError> {
    match area.end - area.start {
        bytes if bytes > RING_BYTES_MAX => {
            stays(format!("it has asynchronous I/O (io_setup) with room for too many requests ({bytes} bytes)"))
        }
        _ => Ok(()),
    }
}

/// Waits until no request of the stopped process is under way, and reads what its rings hold.
///
/// # Errors
/// Requests do not end in time.
pub fn collect(inside: &mut Inside, found: &[areas::Area]) -> Result<Vec<Ring>, BodyError> {
    let found = found.iter().filter(|area| is_ring(area));
    found.map(|area| idle(inside, area.start, area.end - area.start)).collect()
}

fn idle(inside: &mut Inside, start: u64, bytes: u64) -> Result<Ring, BodyError> {
    let begun = Instant::now();
    let slots = slots(inside, bytes)?;
    let mut waited = false;
    loop {
        let counted = count(inside, start, bytes)?;
        let under_way = slots.saturating_sub(counted.taken);
        if under_way == 0 {
            return match waited && has_counters(inside) {
                // The counter that such a request raises at its end may have been read before.
                true => Err(BodyError::Retryable("a request of its asynchronous I/O ended just now".into())),
                false => Ok(Ring { start, events: counted.events }),
            };
        }
        if begun.elapsed() >= WAIT_MAX {
            let why = format!("it waits for {under_way} requests of asynchronous I/O (io_submit)");
            return Err(BodyError::Retryable(why));
        }
        waited = true;
        std::thread::sleep(WAIT_STEP);
    }
}

/// Tells whether the process has counters that requests may raise (IOCB_FLAG_RESFD).
fn has_counters(inside: &Inside) -> bool {
    let pid = inside.tid().0;
    let numbers = os::process::descriptors(pid).unwrap_or_default();
    let is_counter = |fd: &i32| {
        let link = os::process::link(pid, &format!("fd/{fd}"));
        link.is_ok_and(|link| link.to_string_lossy().contains("[eventfd]"))
    };
    numbers.iter().any(is_counter)
}

/// Counts the requests that a context with a ring of this size takes.
fn slots(inside: &mut Inside, bytes: u64) -> Result<u64, BodyError> {
    let made = create(inside, bytes)?;
    let file = make_empty_file(inside)?;
    let taken = fill(inside, made, file, u64::MAX);
    close(inside, file)?;
    inside.must("ending a context of asynchronous I/O", libc::SYS_io_destroy, [made, 0, 0, 0, 0, 0])?;
    taken
}

/// The content of a ring.
struct Counted {
    /// Completions that the program has not read, the oldest first.
    events: Vec<[u64; 4]>,
    /// The number of slots that hold completions, when no slot is free.
    taken: u64,
}

/// Positions in a ring.
#[derive(Clone, Copy)]
struct Positions {
    events: u64,
    first: u64,
    next: u64,
}

impl Positions {
    fn unread(self) -> u64 {
        (self.next + self.events - self.first) % self.events
    }
}

fn positions(inside: &Inside, start: u64, bytes: u64) -> Result<Positions, BodyError> {
    let events = u64::from(half(inside, start + EVENTS_AT)?);
    let both = inside.memory().word(start + FIRST_AT)?;
    let found = Positions { events, first: both & u64::from(u32::MAX), next: both >> 32 };
    match events == events_of(bytes) && found.first < events && found.next < events {
        true => Ok(found),
        false => stays("it has asynchronous I/O (io_setup) with a ring that it has overwritten"),
    }
}

fn half(inside: &Inside, at: u64) -> Result<u32, BodyError> {
    let mut bytes = [0; 4];
    inside.memory().read(at, &mut bytes)?;
    Ok(u32::from_le_bytes(bytes))
}

/// Gives the number of events for which a ring has room (`aio_setup_ring` in fs/aio.c).
fn events_of(bytes: u64) -> u64 {
    (bytes - HEAD_BYTES) / EVENT_BYTES
}

/// Counts the requests under way, and leaves the ring as it was.
fn count(inside: &mut Inside, start: u64, bytes: u64) -> Result<Counted, BodyError> {
    let region = inside.region().unwrap_or_default();
    let file = make_empty_file(inside)?;
    let filled = fill_on_all(inside, start, file);
    close(inside, file)?;
    let taken = filled?;
    let found = positions(inside, start, bytes)?;
    let (mut events, mut own) = (Vec::new(), 0);
    for n in 0..found.unread() {
        let event = read_event(inside, event_at(start, (found.first + n) % found.events))?;
        match (region..region + REGION_BYTES).contains(&event[1]) {
            true => own += 1,
            false => events.push(event),
        }
    }
    let first = (found.next + found.events - events.len() as u64) % found.events;
    for (n, event) in (0..).zip(&events) {
        write_event(inside, event_at(start, (first + n) % found.events), event)?;
    }
    inside.memory().write(start + FIRST_AT, &(first as u32).to_le_bytes())?;
    if own != taken {
        return stays("it has asynchronous I/O (io_setup) whose ring does not tell what it holds");
    }
    Ok(Counted { events, taken: found.unread() })
}

fn event_at(start: u64, n: u64) -> u64 {
    start + HEAD_BYTES + n * EVENT_BYTES
}

fn read_event(inside: &Inside, at: u64) -> Result<[u64; 4], BodyError> {
    let mut event = [0; 4];
    for (n, word) in (0..).zip(&mut event) {
        *word = inside.memory().word(at + 8 * n)?;
    }
    Ok(event)
}

fn write_event(inside: &Inside, at: u64, event: &[u64; 4]) -> Result<(), BodyError> {
    let bytes: Vec<u8> = event.iter().flat_map(|word| word.to_le_bytes()).collect();
    Ok(inside.memory().write(at, &bytes)?)
}

fn make_empty_file(inside: &mut Inside) -> Result<u64, BodyError> {
    let mut batch = inside.batch();
    memories::creating(&mut batch, b"tern");
    Ok(inside.run(&batch)?.first().copied().unwrap_or(-1) as u64)
}

fn close(inside: &mut Inside, fd: u64) -> Result<(), BodyError> {
    inside.must("closing a file in memory", libc::SYS_close, [fd, 0, 0, 0, 0, 0])?;
    Ok(())
}

/// Makes requests until the kernel has no slot for another one. Returns how many it took.
fn fill_on_all(inside: &mut Inside, context: u64, file: u64) -> Result<u64, BodyError> {
    let tid = inside.tid().0;
    let mut taken = 0;
    for processor in 0..os::processor::configured() {
        let there = os::processor::keep_on(tid, processor, || fill(inside, context, file, u64::MAX));
        taken += there.unwrap_or(Ok(0))?;
    }
    Ok(taken)
}

/// Makes at most `most` requests that end at once: each reads from an empty file.
fn fill(inside: &mut Inside, context: u64, file: u64, most: u64) -> Result<u64, BodyError> {
    let mut taken = 0;
    while taken < most {
        let wanted = (most - taken).min(REQUESTS as u64);
        let mut batch = inside.batch();
        let request = batch.put(&request(file));
        let list = batch.put(&request.to_le_bytes().repeat(wanted as usize));
        batch.may(libc::SYS_io_submit, [context, wanted, list, 0, 0, 0]);
        match inside.run(&batch)?.first().copied().unwrap_or(0) {
            // There is no slot.
            n if n == -i64::from(libc::EAGAIN) => break,
            n if n <= 0 => return stays("it has a ring of another process' asynchronous I/O (io_setup)"),
            n => {
                taken += n as u64;
                if (n as u64) < wanted {
                    break;
                }
            }
        }
    }
    Ok(taken)
}

/// Encodes a `struct iocb` (linux/aio_abi.h) that reads nothing from `file`.
fn request(file: u64) -> Vec<u8> {
    let words = [0, 0, file << 32, 0, 0, 0, 0, 0];
    words.iter().flat_map(|word: &u64| word.to_le_bytes()).collect()
}

/// Makes the image's contexts anew, with what their rings hold.
pub fn make(inside: &mut Inside, image: &Image) -> Result<(), BodyError> {
    let rings = || image.areas.iter().filter(|area| area.content == Content::Ring);
    // The kernel must not put a new ring where one belongs.
    let mut batch = inside.batch();
    for area in rings() {
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE) as u64;
        let args = [area.start, area.end - area.start, 0, flags, u64::MAX, 0];
        batch.must("keeping a place for a ring", libc::SYS_mmap, args);
    }
    if !batch.is_empty() {
        inside.run(&batch)?;
    }
    for area in rings() {
        let events = image.process.rings.iter().find(|ring| ring.start == area.start).map(|ring| &ring.events);
        make_one(inside, area, events.map_or(&[], Vec::as_slice))?;
    }
    Ok(())
}

/// Makes a context whose ring has this size. Returns its number.
fn create(inside: &mut Inside, bytes: u64) -> Result<u64, BodyError> {
    // The kernel makes room for two events for each request, and for two more.
    let requests = (events_of(bytes) - 2) / 2;
    let mut batch = inside.batch();
    let context = batch.space(8);
    batch.must("making a context of asynchronous I/O", libc::SYS_io_setup, [requests, context, 0, 0, 0, 0]);
    inside.run(&batch)?;
    let made = inside.memory().word(context)?;
    if u64::from(half(inside, made + EVENTS_AT)?) != events_of(bytes) {
        return stays("this kernel makes larger rings for asynchronous I/O (io_setup), because it has more processors");
    }
    Ok(made)
}

fn make_one(inside: &mut Inside, area: &Area, events: &[[u64; 4]]) -> Result<(), BodyError> {
    let bytes = area.end - area.start;
    let made = create(inside, bytes)?;
    let file = make_empty_file(inside)?;
    let filled = fill(inside, made, file, events.len() as u64);
    close(inside, file)?;
    let next = positions(inside, made, bytes)?.next;
    if filled? != events.len() as u64 || next != events.len() as u64 {
        return stays("this kernel does not take the completions of its asynchronous I/O (io_setup)");
    }
    for (n, event) in (0..).zip(events) {
        write_event(inside, event_at(made, n), event)?;
    }
    let mut batch = inside.batch();
    let flags = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as u64;
    batch.must("moving a ring", libc::SYS_mremap, [made, bytes, bytes, flags, area.start, 0]);
    let protection = u64::from(area.protection);
    batch.must("protecting a ring", libc::SYS_mprotect, [area.start, bytes, protection, 0, 0, 0]);
    inside.run(&batch)?;
    Ok(())
}

/// Adds the calls that end contexts, so that they do not count against fs.aio-max-nr any more.
pub fn ending(batch: &mut os::inject::Batch, rings: &[Ring]) {
    for ring in rings {
        batch.may(libc::SYS_io_destroy, [ring.start, 0, 0, 0, 0, 0]);
    }
}
