//! Epoll instances: what they watch, and what they have reported. An edge-triggered (EPOLLET)
//! descriptor is reported once each time it becomes ready, and a new instance takes any readiness
//! for an edge. The kernel tells what an instance would report next only by reporting it. So the
//! instance is asked in the stopped process, and the events are given back if the process continues
//! here.

use crate::collect::Collected;
use crate::error::{BodyError, stays};
use image::{Image, Object, Opened, Watched};
use os::inject::{Batch, Inside};
use os::process;

/// Bytes of `struct epoll_event`, which is packed on x86-64.
const EVENT_BYTES: usize = 12;
/// The most events and descriptors in one call.
const AT_ONCE: usize = 4096;
/// The most files in one poll(2), which takes no more than the process may have open.
const POLLED_AT_ONCE: usize = 16;
const EDGES: u32 = libc::EPOLLET as u32;
const ONCE: u32 = libc::EPOLLONESHOT as u32;
/// The bits that remain when a one-shot (EPOLLONESHOT) descriptor was reported: how it is watched,
/// but not for which events (EP_PRIVATE_BITS in fs/eventpoll.c).
const MANNER: u32 = EDGES | ONCE | (libc::EPOLLWAKEUP | libc::EPOLLEXCLUSIVE) as u32;
/// All events for which a descriptor may be watched.
const ANYTHING: u32 = (libc::EPOLLIN | libc::EPOLLPRI | libc::EPOLLOUT | libc::EPOLLRDHUP) as u32;

/// Lists what this epoll instance of process `pid` watches.
pub fn watched(pid: i32, epoll: i32) -> Result<Vec<Watched>, BodyError> {
    let text = process::fd_text(pid, epoll)?;
    let mut watched = Vec::new();
    for line in text.lines().filter(|l| l.starts_with("tfd:")) {
        let Some(one) = watched_line(line) else {
            return stays(format!(
                "descriptor {epoll} is an epoll instance with an unknown line in its fdinfo: {line:?}"
            ));
        };
        if !os::objects::watches_open_file(pid, epoll, one.fd) {
            return stays(format!("epoll instance {epoll} watches a file that is no longer descriptor {}", one.fd));
        }
        watched.push(one);
    }
    // The kernel lists descriptors in no order. What is ready already will be reported in the order
    // of the descriptors.
    watched.sort_by_key(|w| w.fd);
    Ok(watched)
}

/// Parses `tfd:        5 events:       19 data:                5  pos:0 ino:61af sdev:7`
/// (proc_pid_fdinfo(5)).
fn watched_line(line: &str) -> Option<Watched> {
    let mut words = line.split_whitespace();
    let mut next = |name: &str| (words.next()? == name).then(|| words.next())?;
    let fd = next("tfd:")?.parse().ok()?;
    let events = u32::from_str_radix(next("events:")?, 16).ok()?;
    Some(Watched { fd, events, data: u64::from_str_radix(next("data:")?, 16).ok()?, told: false })
}

/// Encodes a `struct epoll_event`.
pub fn epoll_event(watched: &Watched) -> Vec<u8> {
    [&watched.events.to_le_bytes()[..], &watched.data.to_le_bytes()].concat()
}

/// Tells whether a one-shot descriptor was reported, and is not watched before the program asks
/// again.
fn is_spent(watched: &Watched) -> bool {
    watched.events & ONCE != 0 && watched.events & !MANNER == 0
}

/// Lists the epoll instances of an image: index, descriptor, and what they watch.
fn instances(image: &Image) -> impl Iterator<Item = (usize, i32, &Vec<Watched>)> {
    image.objects.made.iter().enumerate().filter_map(|(place, made)| {
        let Object::Watch(watched) = &made.object else { return None };
        let shows = image.descriptors.iter().find(|d| d.opened == Opened::Made(place as u32));
        shows.map(|descriptor| (place, descriptor.fd, watched))
    })
}

/// Tells whether the readiness of the descriptor may have been reported. This excludes descriptors
/// that become ready by themselves at the destination: a new edge there could not be told from a
/// reported one.
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

/// Lists the watched descriptors whose readiness may have been reported already.
pub fn may_be_told(image: &Image) -> impl Iterator<Item = &Watched> {
    instances(image).flat_map(|(_, _, all)| all).filter(|watched| is_quiet(image, watched))
}

impl Collected {
    /// Notes in the image what the epoll instances have reported already. Only
    /// [`Collected::give_back`] restores the instances.
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
            let next = take(self.first().ok_or(BodyError::Exited)?, epoll, watched.len())?;
            for (watched, is_quiet) in watched.iter_mut().zip(quiet) {
                // Events are only known by the program's data. If a program gives several
                // descriptors the same data, all of them are reported once more.
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

/// Lets an epoll instance that watches `many` descriptors report everything that is ready. Gives
/// the program's data of each.
fn take(inside: &mut Inside, epoll: i32, many: usize) -> Result<Vec<u64>, BodyError> {
    let mut told = Vec::new();
    // A level-triggered descriptor goes to the end of the queue each time it is reported.
    for _ in 0..many.div_ceil(AT_ONCE) {
        let mut batch = inside.batch();
        let most = many.min(AT_ONCE);
        let events = batch.space(most * EVENT_BYTES);
        batch.must("asking an epoll instance", libc::SYS_epoll_wait, [epoll as u64, events, most as u64, 0, 0, 0]);
        // Another process may write to this memory meanwhile, so the result is bounded.
        let count = inside.run(&batch)?.first().map_or(0, |count| *count as usize).min(most);
        let mut bytes = vec![0; count * EVENT_BYTES];
        inside.memory().read(events, &mut bytes)?;
        let data = |event: &[u8]| event[4..].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        told.extend(bytes.chunks_exact(EVENT_BYTES).map(data));
    }
    Ok(told)
}

/// Makes calls of epoll_ctl(2): instance, operation, and watched descriptor.
fn control(inside: &mut Inside, calls: &[(i32, i32, Watched)]) -> Result<(), BodyError> {
    for calls in calls.chunks(AT_ONCE) {
        let mut batch = inside.batch();
        ask_before(&mut batch, calls);
        for (epoll, what, watched) in calls {
            let event = batch.put(&epoll_event(watched));
            // Some files of a room cannot be watched. Such a watch would have no effect, so its
            // failure has none.
            batch.may(libc::SYS_epoll_ctl, [*epoll as u64, *what as u64, watched.fd as u64, event, 0, 0]);
        }
        inside.run(&batch)?;
    }
    Ok(())
}

/// Encodes a `struct pollfd` that asks for nothing.
pub fn poll_of(fd: i32) -> [u8; 8] {
    (u64::from(fd as u32) | u64::from(ANYTHING) << 32).to_le_bytes()
}

/// Polls the files that will be watched. Where the state of a file is on another node, epoll_ctl(2)
/// only learns what is known here (`room/warden/standins.rs`). After the poll it is known, so it is
/// not reported as a new event later.
fn ask_before(batch: &mut Batch, calls: &[(i32, i32, Watched)]) {
    let added = calls.iter().filter(|(_, what, _)| *what == libc::EPOLL_CTL_ADD);
    let asked: Vec<[u8; 8]> = added.map(|(_, _, watched)| poll_of(watched.fd)).collect();
    for some in asked.chunks(POLLED_AT_ONCE) {
        let at = batch.put(some.as_flattened());
        batch.may(libc::SYS_poll, [at, some.len() as u64, 0, 0, 0, 0]);
    }
}

/// Lets epoll instances, by their descriptors, watch these descriptors as if they were new:
/// whatever is ready will be reported.
pub fn watch_anew(inside: &mut Inside, watches: &[(i32, Watched)]) -> Result<(), BodyError> {
    let anew = |(epoll, watched): &(i32, Watched)| {
        [(*epoll, libc::EPOLL_CTL_DEL, *watched), (*epoll, libc::EPOLL_CTL_ADD, *watched)]
    };
    control(inside, &watches.iter().flat_map(anew).collect::<Vec<_>>())
}

/// Lets the epoll instances watch what they watched, when all descriptors have their numbers.
/// Reported readiness is not reported again. Gives the descriptors of which it was taken back: one
/// that became ready again since its report is not reported either.
pub fn watch_again(inside: &mut Inside, image: &Image) -> Result<Vec<(i32, Watched)>, BodyError> {
    let (mut quiet, mut others) = (Vec::new(), Vec::new());
    for (_, epoll, watched) in instances(image) {
        let (told, untold): (Vec<Watched>, Vec<Watched>) = watched.iter().partition(|w| w.told || is_spent(w));
        others.extend(untold.into_iter().map(|watched| (epoll, libc::EPOLL_CTL_ADD, watched)));
        if told.is_empty() {
            continue;
        }
        // Errors and hang-ups are reported in any case. So a reported descriptor is watched for all
        // events, and its report is taken here.
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

/// Disarms reported one-shot descriptors that are not ready for anything. A later error or hang-up
/// is then still reported, which cannot be avoided.
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
    fn lines_of_the_kernel_are_parsed() {
        let line = "tfd:        5 events: 80000019 data: ffffffff00000007  pos:0 ino:61af sdev:7";
        let watched = Watched { fd: 5, events: 0x8000_0019, data: 0xffff_ffff_0000_0007, told: false };
        assert_eq!(watched_line(line), Some(watched));
        assert_eq!(watched_line("tfd: x"), None);
        assert!(!is_spent(&watched));
        assert!(is_spent(&Watched { events: 0x4000_0000, ..watched }));
        assert!(!is_spent(&Watched { events: 0x4000_0018, ..watched }));
    }
}
