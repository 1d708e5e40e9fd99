//! Open files that a body has in common with others of its room: files of home's, whose offset is
//! one, and pipes. And what no image can carry: pairs of sockets ([`pairs`]), others' or its own.

pub mod common_files;
pub mod epoll_watches;
pub mod pairs;
pub mod streams;
pub mod watched;

use crate::state::home_mounts::HomeFiles;
use crate::state::shared::Shared;
use crate::supervisor::describe_guest;
use crate::supervisor::sharers::common_files::{
    CommonFileKind, CommonOpenFile, Commons, DescriptorPlace, Found, Key, Sought,
};
use checkpoint::{BodyError, OpenDescriptor};
use os::pidfd::PidFd;
use os::process::{self, FdInfo, ProcessFd};
use os::ptrace::HostTid;
use room_protocol::message::CommonPipe;
use std::collections::HashMap;
use std::os::fd::AsFd;

/// The open files that are sought of this body, which stands still.
pub fn find(room: &Shared, pid: i32, sought: &Sought) -> Result<Commons, BodyError> {
    let mut found = Commons::default();
    let (host, others) = {
        let guests = room.guests();
        let Some(host) = guests.host(pid) else { return Err(BodyError::Exited) };
        let others = guests.pids().into_iter().filter(|p| *p != pid);
        (host, others.filter_map(|p| Some((p, guests.host(p)?))).collect::<Vec<_>>())
    };
    match sought {
        Sought::Common if others.is_empty() => return Ok(found),
        Sought::Standin(standin) => {
            let holders = others.into_iter().chain([(pid, host)]);
            streams::add_standin(room, &mut found, *standin, holders);
        }
        _ => find_common(room, &mut found, SoughtOf { pid, host, others, sought })?,
    }
    found.others.remove(&pid);
    let watched = epoll_watches::find(&mut found, pid);
    found.note(watched);
    Ok(found)
}

/// The open files that are sought of a body, and all other bodies of the room.
struct SoughtOf<'a> {
    pid: i32,
    host: HostTid,
    others: Vec<(i32, HostTid)>,
    sought: &'a Sought,
}

/// Adds the files, pipes, pairs of sockets and streams of a body that are sought.
fn find_common(room: &Shared, found: &mut Commons, of: SoughtOf<'_>) -> Result<(), BodyError> {
    let SoughtOf { pid, host, others, sought } = of;
    let own = places(room, pid, host)?;
    let mut all: HashMap<Key, Found> = HashMap::new();
    for (other, host) in others {
        // One that has ended has nothing.
        for (key, place, info) in places(room, other, host).unwrap_or_default() {
            all.entry(key).or_default().push((place, info));
        }
    }
    let mut home = None;
    for (key, place, info) in &own {
        let theirs = all.get(key).map(Vec::as_slice).unwrap_or_default();
        let known = found.files.iter().flat_map(|f| &f.places).any(|p| p == place);
        if room.pairs.is_socket(key.0) && !known && sought.has_pair(place.fd) {
            add_socket(room, found, key, SocketHolders { own: &own, all: &all });
            continue;
        }
        let shares_nothing =
            || checkpoint::is_everywhere(host.0, place.fd) || checkpoint::is_place(host.0, place.fd, info);
        let is_stream = room.stream(key.0, key.1).is_some();
        if is_stream || !sought.has(place.fd, theirs.is_empty()) || known || shares_nothing() {
            continue;
        }
        let mine = own.iter().filter(|(k, ..)| k == key).map(|(_, place, info)| (*place, *info));
        let name = process::link(host.0, &format!("fd/{}", place.fd))?;
        if name.to_string_lossy().starts_with("pipe:") {
            found.others.extend(theirs.iter().map(|(place, _)| place.pid));
            let added = pipe(found, mine.chain(theirs.iter().copied()).collect());
            found.note(added);
            continue;
        }
        let all: Vec<DescriptorPlace> =
            mine.chain(theirs.iter().copied()).map(|(p, _)| p).filter(|p| is_one(place, p)).collect();
        if home.is_none() {
            home = Some(HomeFiles::of(host)?);
        }
        // What else is shared has its own reason to stay.
        let is_homes = home.as_ref().is_some_and(|h| h.mounts.contains(&info.mount_id));
        if sought.has(place.fd, all.iter().all(|p| p.pid == pid)) && is_homes {
            found.others.extend(all.iter().map(|place| place.pid).filter(|other| *other != pid));
            let open = OpenDescriptor { fd: place.fd, info, link: &name };
            let named = describe_guest::named(open, false).map(|file| {
                found.files.push(CommonOpenFile {
                    places: all,
                    flags: info.flags,
                    what: CommonFileKind::Named(file, info.offset),
                });
            });
            found.note(named);
        }
    }
    Ok(())
}

/// The descriptors of a body, and those of all others.
struct SocketHolders<'a> {
    own: &'a [(Key, DescriptorPlace, FdInfo)],
    all: &'a HashMap<Key, Found>,
}

/// Adds a socket of the room: a stream, or an end of a pair that was made in the room.
fn add_socket(room: &Shared, found: &mut Commons, key: &Key, of: SocketHolders<'_>) {
    let holders = |key: &Key| {
        let own = of.own.iter().filter(|(k, ..)| k == key).map(|(_, place, info)| (*place, *info));
        own.chain(of.all.get(key).into_iter().flatten().copied()).collect::<Found>()
    };
    if let Some(standin) = room.stream(key.0, key.1) {
        streams::add(found, standin, holders(key));
        // Both become stand-ins: what is under way between them goes home.
        let streams = &room.home.streams;
        if let Some((partner, inode)) = streams.partner(standin).and_then(|other| Some((other, streams.inode(other)?)))
        {
            streams::add(found, partner, holders(&(key.0, inode)));
        }
        return;
    }
    let added = pairs::add(room, found, key, holders);
    found.note(added);
}

fn is_one(a: &DescriptorPlace, b: &DescriptorPlace) -> bool {
    a == b || process::one_file(ProcessFd { pid: a.host.0, fd: a.fd }, ProcessFd { pid: b.host.0, fd: b.fd })
}

/// How often the descriptors of a body that runs are listed that closes some meanwhile.
const LISTED_MAX: usize = 16;

type Listed = Vec<(Key, DescriptorPlace, FdInfo)>;

/// A body's descriptors that are no stand-ins. One that runs may close some while they are listed,
/// and what it had under that number it may have under another by then.
fn places(room: &Shared, pid: i32, host: HostTid) -> Result<Listed, BodyError> {
    let (mut found, mut closes) = list(room, pid, host)?;
    for _ in 1..LISTED_MAX {
        if closes {
            (found, closes) = list(room, pid, host)?;
        }
    }
    Ok(found)
}

/// The same, and whether it has closed any meanwhile.
fn list(room: &Shared, pid: i32, host: HostTid) -> Result<(Listed, bool), BodyError> {
    let (mut found, mut closes) = (Vec::new(), false);
    for fd in process::descriptors(host.0)? {
        let info = match process::fd_info(host.0, fd) {
            Ok(info) => info,
            Err(e) if e.errno() == libc::ENOENT => {
                closes = true;
                continue;
            }
            Err(e) => return Err(e.into()),
        };
        if room.standins.standin(info.mount_id, info.inode).is_none() {
            let close_on_exec = info.flags & libc::O_CLOEXEC != 0;
            found.push(((info.mount_id, info.inode), DescriptorPlace { pid, host, fd, close_on_exec }, info));
        }
    }
    Ok((found, closes))
}

fn pipe(found: &mut Commons, all: Vec<(DescriptorPlace, FdInfo)>) -> Result<(), BodyError> {
    let mut ends: [Vec<(DescriptorPlace, FdInfo)>; 2] = Default::default();
    for (place, info) in all {
        let odd = |what: &str| {
            let DescriptorPlace { pid, fd, .. } = place;
            Err(BodyError::NotMigratable(format!("descriptor {fd} of process {pid} is a pipe {what}")))
        };
        if info.flags & libc::O_DIRECT != 0 {
            return odd("of packets (O_DIRECT), which others have too");
        }
        if info.flags & libc::O_ASYNC != 0 {
            return odd("that signals when it is ready (O_ASYNC), which others have too");
        }
        let end = match info.flags & libc::O_ACCMODE {
            libc::O_RDONLY => &mut ends[0],
            libc::O_WRONLY => &mut ends[1],
            _ => return odd("that is read and written through one descriptor, which others have too"),
        };
        if end.first().is_some_and(|(first, _)| !is_one(first, &place)) {
            return odd("that was opened once more by its name in /proc");
        }
        end.push((place, info));
    }
    let Some((any, _)) = ends.iter().flatten().next() else { return Ok(()) };
    let file = |place: &DescriptorPlace| PidFd::open(place.host.0)?.get_fd(place.fd);
    let (capacity, content) = match ends[0].first() {
        Some((reader, _)) => os::objects::pipe_content(file(reader)?.as_fd())?,
        // What nobody can read any more is nothing.
        None => (os::objects::pipe_capacity(file(any)?.as_fd())?, Vec::new()),
    };
    if content.len() > found.bytes_left() {
        return Err(BodyError::NotMigratable("its pipes hold too much that others are to read".into()));
    }
    found.pipes.push(CommonPipe { capacity, content });
    for (end, writes) in ends.into_iter().zip([false, true]) {
        let Some((_, info)) = end.first() else { continue };
        let (flags, what) = (info.flags, CommonFileKind::PipeEnd(found.pipes.len() - 1, writes));
        found.files.push(CommonOpenFile { places: end.into_iter().map(|(place, _)| place).collect(), flags, what });
    }
    Ok(())
}
