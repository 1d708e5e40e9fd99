//! Epoll instances: what they watch, and what of it they have told. What is watched for edges (EPOLLET) is told of once each time it becomes ready, and an instance that watches anew takes whatever is ready
//! for an edge. What an instance would tell next the kernel says by telling it alone: so it is asked in the stopped process, which is given that back should it go on.

use crate::collect::Collected;
use crate::error::{BodyError, stays};
use image::{Image, Object, Opened, Watched};
use os::inject::{Batch, Inside};
use os::process;

/// `struct epoll_event`, which is packed here.
const EVENT_BYTES: usize = 12;
/// Events that are asked for, and descriptors that are named, at once.
const AT_ONCE: usize = 4096;
/// Files that are asked about in one poll(2), which takes no more than the process may have open.
const POLLED_AT_ONCE: usize = 16;
const EDGES: u32 = libc::EPOLLET as u32;
const ONCE: u32 = libc::EPOLLONESHOT as u32;
/// What is left when one that is told of once (EPOLLONESHOT) was told: how it is watched, and not for what (EP_PRIVATE_BITS in fs/eventpoll.c).
const MANNER: u32 = EDGES | ONCE | (libc::EPOLLWAKEUP | libc::EPOLLEXCLUSIVE) as u32;
/// Whatever a descriptor may be ready for.
const ANYTHING: u32 = (libc::EPOLLIN | libc::EPOLLPRI | libc::EPOLLOUT | libc::EPOLLRDHUP) as u32;

/// What this epoll instance of process `pid` watches.
pub fn watched(pid: i32, epoll: i32) -> Result<Vec<Watched>, BodyError> {
    let text = process::fd_text(pid, epoll)?;
    let mut watched = Vec::new();
    for line in text.lines().filter(|l| l.starts_with("tfd:")) {
        let Some(one) = watched_line(line) else {
            return stays(format!("descriptor {epoll} is an epoll instance of which the kernel says {line:?}"));
        };
        if !os::objects::watches_open_file(pid, epoll, one.fd) {
            return stays(format!("epoll instance {epoll} watches a file that was descriptor {}, and is not", one.fd));
        }
        watched.push(one);
    }
    // The kernel lists them in no order; what is ready already will be told in that of the descriptors.
    watched.sort_by_key(|w| w.fd);
    Ok(watched)
}

/// `tfd:        5 events:       19 data:                5  pos:0 ino:61af sdev:7` (proc_pid_fdinfo(5))
fn watched_line(line: &str) -> Option<Watched> {
    let mut words = line.split_whitespace();
    let mut next = |name: &str| (words.next()? == name).then(|| words.next())?;
    let fd = next("tfd:")?.parse().ok()?;
    let events = u32::from_str_radix(next("events:")?, 16).ok()?;
    Some(Watched { fd, events, data: u64::from_str_radix(next("data:")?, 16).ok()?, told: false })
}

/// As the kernel takes it.
pub fn epoll_event(watched: &Watched) -> Vec<u8> {
    [&watched.events.to_le_bytes()[..], &watched.data.to_le_bytes()].concat()
}

/// It was told of once, and is not again before the program says so.
fn is_spent(watched: &Watched) -> bool {
    watched.events & ONCE != 0 && watched.events & !MANNER == 0
}

/// The epoll instances of an image: their places, their descriptors, and what they watch.
fn instances(image: &Image) -> impl Iterator<Item = (usize, i32, &Vec<Watched>)> {
    image.objects.made.iter().enumerate().filter_map(|(place, made)| {
        let Object::Watch(watched) = &made.object else { return None };
        let shows = image.descriptors.iter().find(|d| d.opened == Opened::Made(place as u32));
        shows.map(|descriptor| (place, descriptor.fd, watched))
    })
}

/// Whether what it is ready for may have been told. Not of what becomes ready by itself where it comes: an edge that came meanwhile would not be known from those that were told.
fn is_quiet(image: &Image, watched: &Watched) -> bool {
    let becomes_ready = |place: u32| match image.objects.made.get(place as usize).map(|made| &made.object) {
        Some(Object::Timer { setting, .. }) => setting[2..] != [0, 0],
        Some(Object::Watch(_)) | None => true,
        Some(_) => false,
    };
    let shows = image.descriptors.iter().find(|d| d.fd == watched.fd);
    let alone = match shows.map(|d| d.opened) {
        Some(Opened::Home(_)) => true,
        Some(Opened::Made(place)) => !becomes_ready(place),
        Some(Opened::File { .. }) | None => false,
    };
    watched.events & EDGES != 0 && watched.events & ONCE == 0 && alone
}

/// What epoll instances watch so that it may have been told already.
pub fn may_be_told(image: &Image) -> impl Iterator<Item = &Watched> {
    instances(image).flat_map(|(_, _, all)| all).filter(|watched| is_quiet(image, watched))
}

impl Collected {
    /// Notes in the image of the process what its epoll instances have told already. It goes on as it was by [`Collected::give_back`] alone.
    pub fn find_told(&mut self, image: &mut Image) -> Result<(), BodyError> {
        let quiet = |(place, epoll, watched): (usize, i32, &Vec<Watched>)| {
            let quiet: Vec<bool> = watched.iter().map(|watched| is_quiet(image, watched)).collect();
            quiet.contains(&true).then_some((place, epoll, quiet))
        };
        let asked: Vec<_> = instances(image).filter_map(quiet).collect();
        for (place, epoll, quiet) in asked {
            let Some(Object::Watch(watched)) = image.objects.made.get_mut(place).map(|made| &mut made.object) else {
                continue;
            };
            let next = take(self.first().ok_or(BodyError::Gone)?, epoll, watched.len())?;
            for (watched, is_quiet) in watched.iter_mut().zip(quiet) {
                // By that alone they are known: who gives the same to several is told once more of all of them.
                let is_next = next.contains(&watched.data);
                if is_next && watched.events & (EDGES | ONCE) != 0 && !is_spent(watched) {
                    self.untold.push((epoll, *watched));
                }
                watched.told = is_quiet && !is_next;
            }
        }
        Ok(())
    }
}

/// Has an epoll instance that watches so many tell all that is ready; what the program has given with it.
fn take(inside: &mut Inside, epoll: i32, many: usize) -> Result<Vec<u64>, BodyError> {
    let mut told = Vec::new();
    // What is told as long as it is ready goes behind all others each time.
    for _ in 0..many.div_ceil(AT_ONCE) {
        let mut batch = inside.batch();
        let most = many.min(AT_ONCE);
        let events = batch.space(most * EVENT_BYTES);
        batch.must("asking an epoll instance", libc::SYS_epoll_wait, [epoll as u64, events, most as u64, 0, 0, 0]);
        // Another process may write to its memory meanwhile: the answer is no more to be believed than that.
        let count = inside.run(&batch)?.first().map_or(0, |count| *count as usize).min(most);
        let mut bytes = vec![0; count * EVENT_BYTES];
        inside.memory().read(events, &mut bytes)?;
        let data = |event: &[u8]| event[4..].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        told.extend(bytes.chunks_exact(EVENT_BYTES).map(data));
    }
    Ok(told)
}

/// Has epoll instances do this with what they watch (epoll_ctl(2)).
fn control(inside: &mut Inside, calls: &[(i32, i32, Watched)]) -> Result<(), BodyError> {
    for calls in calls.chunks(AT_ONCE) {
        let mut batch = inside.batch();
        ask_before(&mut batch, calls);
        for (epoll, what, watched) in calls {
            let event = batch.put(&epoll_event(watched));
            // Files of a room can be watched, others cannot: what is watched in vain makes no difference.
            batch.may(libc::SYS_epoll_ctl, [*epoll as u64, *what as u64, watched.fd as u64, event, 0, 0]);
        }
        inside.run(&batch)?;
    }
    Ok(())
}

/// `struct pollfd`: what is asked of this descriptor.
pub fn poll_of(fd: i32) -> [u8; 8] {
    (u64::from(fd as u32) | u64::from(ANYTHING) << 32).to_le_bytes()
}

/// Asks by poll(2) what the files are ready for that will be watched. Where their state is elsewhere, epoll_ctl(2) is only told what is known here (`room/warden/standins.rs`): so it
/// is known by then, and nothing is told as news afterwards.
fn ask_before(batch: &mut Batch, calls: &[(i32, i32, Watched)]) {
    let added = calls.iter().filter(|(_, what, _)| *what == libc::EPOLL_CTL_ADD);
    let asked: Vec<[u8; 8]> = added.map(|(_, _, watched)| poll_of(watched.fd)).collect();
    for some in asked.chunks(POLLED_AT_ONCE) {
        let at = batch.put(some.as_flattened());
        batch.may(libc::SYS_poll, [at, some.len() as u64, 0, 0, 0, 0]);
    }
}

/// Has the epoll instances, by their descriptors, watch these as if they had not yet: what is ready will be told.
pub fn watch_anew(inside: &mut Inside, watches: &[(i32, Watched)]) -> Result<(), BodyError> {
    let anew = |(epoll, watched): &(i32, Watched)| {
        [(*epoll, libc::EPOLL_CTL_DEL, *watched), (*epoll, libc::EPOLL_CTL_ADD, *watched)]
    };
    control(inside, &watches.iter().flat_map(anew).collect::<Vec<_>>())
}

/// Has the epoll instances watch what they watched, when all descriptors are at their numbers. What was told is not told again: these are given, for if one of them has become ready since it was told,
/// that is not told either.
pub fn watch_again(inside: &mut Inside, image: &Image) -> Result<Vec<(i32, Watched)>, BodyError> {
    let (mut quiet, mut others) = (Vec::new(), Vec::new());
    for (_, epoll, watched) in instances(image) {
        let (told, untold): (Vec<Watched>, Vec<Watched>) = watched.iter().partition(|w| w.told || is_spent(w));
        others.extend(untold.into_iter().map(|watched| (epoll, libc::EPOLL_CTL_ADD, watched)));
        if told.is_empty() {
            continue;
        }
        // Errors and hang-ups are told in any case: so what was told of once is watched for whatever it may be ready for, and told of here.
        let events = |watched: &Watched| watched.events | if is_spent(watched) { ANYTHING } else { 0 };
        let add = |w: &Watched| (epoll, libc::EPOLL_CTL_ADD, Watched { events: events(w), ..*w });
        control(inside, &told.iter().map(add).collect::<Vec<_>>())?;
        take(inside, epoll, told.len())?;
        disarm(inside, epoll, &told)?;
        quiet.extend(told.into_iter().filter(|watched| watched.told).map(|watched| (epoll, watched)));
    }
    control(inside, &others)?;
    Ok(quiet)
}

/// Those of these that are to be told of no more, and are not ready for anything. Should an error or a hang-up come, that is told: nothing else is left to be done.
fn disarm(inside: &mut Inside, epoll: i32, told: &[Watched]) -> Result<(), BodyError> {
    let mut spent = told.iter().filter(|watched| is_spent(watched)).peekable();
    if spent.peek().is_none() {
        return Ok(());
    }
    let text = process::fd_text(inside.tid().0, epoll)?;
    let now: Vec<Watched> = text.lines().filter_map(watched_line).collect();
    let is_armed = |watched: &&Watched| now.iter().any(|now| now.fd == watched.fd && !is_spent(now));
    let calls: Vec<_> = spent.filter(is_armed).map(|watched| (epoll, libc::EPOLL_CTL_MOD, *watched)).collect();
    control(inside, &calls)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says() {
        let line = "tfd:        5 events: 80000019 data: ffffffff00000007  pos:0 ino:61af sdev:7";
        let watched = Watched { fd: 5, events: 0x8000_0019, data: 0xffff_ffff_0000_0007, told: false };
        assert_eq!(watched_line(line), Some(watched));
        assert_eq!(watched_line("tfd: x"), None);
        assert!(!is_spent(&watched));
        assert!(is_spent(&Watched { events: 0x4000_0000, ..watched }));
        assert!(!is_spent(&Watched { events: 0x4000_0018, ..watched }));
    }
}
