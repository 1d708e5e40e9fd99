//! What a body holds, as its home can give it back: memory areas by home file, descriptors by
//! stand-in or home file.

use crate::state::files::proc::place::known_as;
use crate::state::files::standins::nodes;
use crate::state::foreign_vdso;
use crate::state::home_mounts::{HomeFiles, REMOVED, without_end};
use crate::state::shared::Shared;
use crate::supervisor::held_files as held;
use checkpoint::{BodyError, Files, Gathered, OpenDescriptor, OpenFiles};
use homefs::removed::is_made_up;
use image::{Descriptor, File, Image, Opened};
use os::areas::{Area, Shown};
use os::pidfd::PidFd;
use os::process::{self, FdInfo, ProcessFd};
use os::ptrace::HostTid;
use room_protocol::message::StandinId;
use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// What is seen of a body that runs, so that less need be looked at while it stands still.
#[derive(Debug)]
pub struct Looked {
    /// Its memory areas with flags, for which the kernel looks at every page.
    flagged: Vec<Area>,
    home: HomeFiles,
    /// It has sockets that were made in the room.
    pub has_sockets: bool,
}

/// Descriptors of such lead to this.
const SOCKET: &[u8] = b"socket:[";

/// Looks at a body that runs.
pub fn look(host: HostTid) -> Option<Looked> {
    let leads_to_socket = |fd| process::link(host.0, &format!("fd/{fd}")).is_ok_and(|name| is_socket(&name));
    let has_sockets = process::descriptors(host.0).ok()?.into_iter().any(leads_to_socket);
    Some(Looked { flagged: os::areas::read_with_flags(host.0).ok()?, home: HomeFiles::of(host).ok()?, has_sockets })
}

fn is_socket(name: &Path) -> bool {
    name.as_os_str().as_bytes().starts_with(SOCKET)
}

/// With flags: as they were before it was stopped, if no area has changed since (but for a hint
/// that was given to all of one, madvise(2), in between). And without.
fn areas_now(host: HostTid, looked: Option<&Looked>) -> Result<(Vec<Area>, Vec<Area>), BodyError> {
    if let Some(Looked { flagged, .. }) = looked {
        let areas = os::areas::read(host.0)?;
        if areas == os::areas::without_flags(flagged) {
            return Ok((flagged.clone(), areas));
        }
    }
    let flagged = os::areas::read_with_flags(host.0)?;
    let areas = os::areas::without_flags(&flagged);
    Ok((flagged, areas))
}

/// Areas as they would be at home.
pub fn as_at_home(room: &Shared, pid: i32, areas: &mut Vec<Area>) {
    if room.strange.get().is_some() {
        foreign_vdso::as_at_home(areas, room.guests().get(pid));
    }
    // No guest has a userfaultfd: whose writes are watched, we watch.
    areas.iter_mut().for_each(|area| area.flags.retain(|flag| flag != b"uw"));
}

/// What a body holds.
pub struct Described {
    /// Its image, but for what only collecting says.
    pub image: Image,
    /// What its memories are.
    pub memories: Vec<Shown>,
    /// Its memory areas as the kernel here lists them, without flags.
    pub areas: Vec<Area>,
    /// What the kernel here says of it.
    pub status: process::Status,
}

/// How a stopped body leaves.
#[derive(Clone, Copy, Debug)]
pub struct Leaving<'a> {
    /// They come along: it may have memory in common with them.
    pub family: &'a [i32],
    /// Home, and not to another room.
    pub goes_home: bool,
}

/// Of a stopped body.
pub fn describe(
    room: &Shared,
    pid: i32,
    host: HostTid,
    looked: Option<&Looked>,
    leaving: Leaving<'_>,
) -> Result<Described, BodyError> {
    gather(room, pid, host, looked, Some(leaving))
}

/// What a body that runs holds: enough to make an empty one like it. What it has in common with
/// others will be told apart when it stands still.
pub fn outline(room: &Shared, pid: i32, host: HostTid) -> Result<Image, BodyError> {
    let mut image = gather(room, pid, host, None, None)?.image;
    add_executable(&mut image, host);
    // They may have changed while the kernel listed them.
    if !image.areas.windows(2).all(|w| w[0].end <= w[1].start) {
        image.areas.clear();
    }
    image.objects.pipes.iter_mut().for_each(|pipe| pipe.content = Vec::new());
    // Which keys it has it is not asked while it runs: those of its memory, at least.
    image.process.keys = image.areas.iter().filter(|a| (1..16).contains(&a.key)).fold(0, |keys, a| keys | 1 << a.key);
    // No image makes sense without these.
    image.process.pid = pid;
    image.process.actions = vec![[0; 4]; 64];
    image.threads = vec![image::Thread { tid: pid, ..Default::default() }];
    Ok(image)
}

/// An empty body that was made for `outline` will do for a body that is this.
pub fn is_served(image: &Image, outline: &Image) -> bool {
    let opened = |image: &Image| {
        let without_offset = |opened| match opened {
            Opened::File { file, .. } => Opened::File { file, offset: 0 },
            other => other,
        };
        image.descriptors.iter().map(|d| (d.fd, without_offset(d.opened))).collect::<Vec<_>>()
    };
    let known = |image: &Image| (image.process.cwd.clone(), image.process.exe, image.objects.made.len());
    image.files == outline.files && opened(image) == opened(outline) && known(image) == known(outline)
}

/// The file that it executes, which home knows of its processes, and another room does not. It is
/// mapped, so its number is known without asking home.
pub fn add_executable(image: &mut Image, host: HostTid) {
    let Ok(path) = process::link(host.0, "exe") else { return };
    let path = without_end(path).into_os_string().into_vec();
    let is_it = |file: &File| file.path == path && file.flags == libc::O_RDONLY;
    image.process.exe = image.files.iter().position(is_it).map(|place| place as u32);
}

/// `leaving`: of a body that has nothing in common with others but its family; `None`: whatever it
/// has.
fn gather(
    room: &Shared,
    pid: i32,
    host: HostTid,
    looked: Option<&Looked>,
    leaving: Option<Leaving<'_>>,
) -> Result<Described, BodyError> {
    let (family, goes_home) = (leaving.map(|l| l.family), leaving.is_some_and(|l| l.goes_home));
    let found;
    let home = match looked {
        Some(looked) => &looked.home,
        None => {
            found = HomeFiles::of(host)?;
            &found
        }
    };
    let mut files = Files::default();
    let (mut areas, listed) = areas_now(host, looked)?;
    as_at_home(room, pid, &mut areas);
    for area in areas.iter_mut().filter(|a| home.show_in(a)) {
        area.name =
            area.name.strip_suffix(REMOVED).map(<[u8]>::to_vec).unwrap_or_else(|| std::mem::take(&mut area.name));
    }
    let mut objects = Gathered::in_room();
    if family.is_none() {
        objects = objects.running();
    }
    let memory = checkpoint::memory(host.0, &areas, &mut files, &mut objects, |area: &Area| {
        let name = String::from_utf8_lossy(&area.name);
        if let Some(fd) = kept_at_home(room, pid, area) {
            // Home's own link to the very file, whatever its name is now.
            let path = format!("/proc/self/fd/{fd}").into_bytes();
            return Ok(File { path, inode: 0, flags: libc::O_RDONLY, removed: false });
        }
        if home.show_in(area) {
            // Those who share it come home together; elsewhere it is another file.
            let opens =
                if goes_home && held::shows(host, area, home) { held::access(host, area) } else { libc::O_RDONLY };
            let (path, flags) = (area.name.clone(), opens);
            Ok(File { removed: is_made_up(&path), path, inode: area.inode, flags })
        } else {
            Err(format!("it has {name} mapped, which is the room's own"))
        }
    })?;
    let descriptors = DescribedBody { room, pid, host, home, family }.descriptors(&mut files, &mut objects)?;
    if let Some(family) = family {
        memories_alone(room, pid, objects.memories(), family)?;
    }
    let mut image = Image {
        areas: memory.areas,
        files: files.list().to_vec(),
        descriptors,
        objects: objects.list().clone(),
        ..Image::default()
    };
    // The copy has no data before it.
    if memory.guarded {
        image.process.guards = checkpoint::guards(host.0, &image.areas)?;
    }
    let (copy, is_terns) = room.guests().get(pid).map_or((None, false), |guest| (guest.vdso, guest.without_vdso));
    image.process.vdso = copy.or(memory.vdso).filter(|_| !is_terns);
    let status = process::status(host.0)?;
    image.process.umask = status.umask;
    image.process.cwd = without_end(process::link(host.0, "cwd")?).into_os_string().into_vec();
    Ok(Described { image, memories: objects.memories().to_vec(), areas: listed, status })
}

/// The deputy's descriptor of the file that stays home and that this area shows.
fn kept_at_home(room: &Shared, pid: i32, area: &Area) -> Option<i32> {
    let standin = room.devices.show_in(area).then(|| nodes::standin(area.inode)).flatten()?;
    room.guests().get(pid)?.numbers.get(&standin).copied()
}

/// Whether a file of home's is a FIFO: a file may have got the number of one that was removed.
/// FIFOs alone have no place in them (`requests/fifos.rs` of `homefs::server`).
fn is_fifo(room: &Shared, pidfd: &PidFd, fd: i32, info: &FdInfo) -> bool {
    let has_place = || pidfd.get_fd(fd).is_ok_and(|file| rustix::fs::tell(file).is_ok());
    room.fifos.may_be(info.inode) && !has_place()
}

/// A body whose descriptors are described.
struct DescribedBody<'a> {
    room: &'a Shared,
    /// PID of the process, at home.
    pid: i32,
    /// Its first thread here.
    host: HostTid,
    home: &'a HomeFiles,
    /// Processes that leave with it, with which alone it may have files in common; `None`: it runs,
    /// and may have any.
    family: Option<&'a [i32]>,
}

impl DescribedBody<'_> {
    /// Describes all descriptors; adds what they are open on to `files` and `objects`.
    fn descriptors(&self, files: &mut Files, objects: &mut Gathered) -> Result<Vec<Descriptor>, BodyError> {
        let pidfd = PidFd::open(self.host.0)?;
        let mut found: Vec<Descriptor> = Vec::new();
        let mut open_files = OpenFiles::of(self.host.0);
        let mut others = None;
        for fd in process::descriptors(self.host.0)? {
            let info = process::fd_info(self.host.0, fd)?;
            let standin = self.room.standins.standin(info.mount_id, info.inode);
            // A body that leaves has none of these any more ([`crate::supervisor::sharers`]).
            let stream = || self.room.stream(info.mount_id, info.inode).filter(|_| self.family.is_none());
            let opened = match standin.or_else(stream) {
                Some(standin) => Opened::Home(self.number_at_home(standin, fd)?),
                // Which process it signals, and by which signal, is not carried.
                None if info.flags & libc::O_ASYNC != 0 => {
                    let why = format!("descriptor {fd} signals when it is ready (O_ASYNC), and was made there");
                    return Err(BodyError::NotMigratable(why));
                }
                None => open_files.opened(fd, &info, || {
                    let link = process::link(self.host.0, &format!("fd/{fd}"))?;
                    let open = OpenDescriptor { fd, info: &info, link: &link };
                    // Nobody at home is asked of what is not home's.
                    let is_removed = !self.is_homes(&info) && checkpoint::is_removed_memory(self.host.0, fd, &link);
                    if let Some(family) = self.family {
                        let is_memory = is_removed || checkpoint::is_memory(&link);
                        let others = others.get_or_insert_with(|| Others::of(self.room, self.pid));
                        others.have_not(self.host, open, is_memory.then_some(family))?;
                    }
                    match objects.describe(self.host.0, &pidfd, open)? {
                        Some(object) => Ok(Opened::Made(object)),
                        None if !is_removed => self.not_made_here(&pidfd, open, files),
                        None => Ok(Opened::Made(objects.describe_removed(self.host.0, open)?)),
                    }
                })?,
            };
            found.push(Descriptor { fd, close_on_exec: info.flags & libc::O_CLOEXEC != 0, opened });
        }
        Ok(found)
    }

    /// Returns the number of the deputy's descriptor for which this stand-in is.
    fn number_at_home(&self, standin: StandinId, fd: i32) -> Result<i32, BodyError> {
        let guests = self.room.guests();
        let number = guests.get(self.pid).and_then(|guest| guest.numbers.get(&standin).copied());
        number.ok_or_else(|| BodyError::NotMigratable(format!("home does not know the file of descriptor {fd}")))
    }

    /// Returns whether a descriptor is open on a file of home's.
    fn is_homes(&self, info: &FdInfo) -> bool {
        self.home.mounts.contains(&info.mount_id)
    }

    /// Describes a descriptor that no image can make anew, but home may open by its name.
    fn not_made_here(&self, pidfd: &PidFd, open: OpenDescriptor<'_>, files: &mut Files) -> Result<Opened, BodyError> {
        let OpenDescriptor { fd, info, link } = open;
        // To open it anew waits for the other end, and loses what is in it if there is none.
        if self.is_homes(info) && is_fifo(self.room, pidfd, fd, info) {
            let why = format!("descriptor {fd} ({}) is a FIFO that was opened there", link.display());
            return Err(BodyError::NotMigratable(why));
        }
        // Home has taken those over that it had when it was looked at
        // ([`crate::supervisor::sharers`]).
        if is_socket(link) {
            let why = format!("descriptor {fd} is a socket that was made there, which becomes home's first");
            return Err(BodyError::Retryable(why));
        }
        self.home_file(open, files)
    }

    /// Describes a descriptor by the name that its file has at home.
    fn home_file(&self, open: OpenDescriptor<'_>, files: &mut Files) -> Result<Opened, BodyError> {
        let OpenDescriptor { fd, info, link } = open;
        let offset = info.offset;
        if link.starts_with("/proc") {
            // The room says of its processes the same as home says of their deputies.
            let known = PathBuf::from(OsString::from_vec(known_as(link.as_os_str().as_bytes())));
            return Ok(Opened::File { file: files.own(checkpoint::nameable(&known, info)), offset });
        }
        let is_homes = self.is_homes(info);
        if !is_homes && !checkpoint::is_everywhere(self.host.0, fd) {
            return Err(BodyError::NotMigratable(format!("descriptor {fd} ({}) lives in the room", link.display())));
        }
        Ok(Opened::File { file: files.own(named(open, !is_homes)?), offset })
    }
}

/// Names the file of home's that this descriptor is open on, or one that is there everywhere.
pub fn named(open: OpenDescriptor<'_>, everywhere: bool) -> Result<File, BodyError> {
    let path = without_end(open.link.to_owned());
    let file = checkpoint::open_file(open.fd, open.info, &path, everywhere)?;
    Ok(File { removed: is_made_up(&file.path), ..file })
}

fn others_of(room: &Shared, pid: i32) -> Vec<(i32, HostTid)> {
    let guests = room.guests();
    guests.pids().into_iter().filter(|p| *p != pid).filter_map(|p| Some((p, guests.host(p)?))).collect()
}

/// No other process of the room has these memories mapped, but its family.
fn memories_alone(room: &Shared, pid: i32, memories: &[Shown], family: &[i32]) -> Result<(), BodyError> {
    if memories.is_empty() {
        return Ok(());
    }
    let maps = |host: HostTid| !checkpoint::mappers([host.0], memories).is_empty();
    let strangers = others_of(room, pid).into_iter().filter(|(pid, _)| !family.contains(pid));
    let sharers = strangers.filter(|(_, host)| maps(*host));
    let sharers: Vec<String> = sharers.map(|(pid, _)| pid.to_string()).collect();
    if sharers.is_empty() {
        return Ok(());
    }
    Err(BodyError::NotMigratable(format!("it shares memory with other processes ({})", sharers.join(", "))))
}

/// A process, its first thread here, and a descriptor of its.
type Elsewhere = (i32, HostTid, i32);

/// What other processes of the room have open, by mount and inode.
struct Others(HashMap<(u64, u64), Vec<Elsewhere>>);

impl Others {
    fn of(room: &Shared, pid: i32) -> Others {
        let mut found: HashMap<_, Vec<_>> = HashMap::new();
        for (pid, host) in others_of(room, pid) {
            for fd in process::descriptors(host.0).unwrap_or_default() {
                if let Ok(info) = process::fd_info(host.0, fd) {
                    found.entry((info.mount_id, info.inode)).or_default().push((pid, host, fd));
                }
            }
        }
        Others(found)
    }

    /// Checks that none of them has this open file of process `host`, or an end of this pipe.
    /// `family`, of open memory: processes that may have the very same open file.
    fn have_not(&self, host: HostTid, open: OpenDescriptor<'_>, family: Option<&[i32]>) -> Result<(), BodyError> {
        let OpenDescriptor { fd, info, link } = open;
        let may_share = |other: &i32| family.is_some_and(|family| family.contains(other));
        // Any end of a pipe counts, and any way to have memory open.
        let is_any = link.to_string_lossy().starts_with("pipe:") || family.is_some();
        let mut candidates = self.0.get(&(info.mount_id, info.inode)).into_iter().flatten();
        let found = candidates.find(|(other, theirs, number)| {
            let is_one = || process::one_file(ProcessFd { pid: host.0, fd }, ProcessFd { pid: theirs.0, fd: *number });
            if may_share(other) { !is_one() } else { is_any || is_one() }
        });
        let Some((other, ..)) = found else {
            return Ok(());
        };
        // To share /dev/null is to share nothing.
        if checkpoint::is_everywhere(host.0, fd) || checkpoint::is_place(host.0, fd, info) {
            return Ok(());
        }
        let words = format!("descriptor {fd} ({}) is one open file with process {other}'s", link.display());
        // What can be home's was looked for when it had stopped ([`crate::supervisor::sharers`]):
        // somebody has got it, or closed something, since.
        match family.is_some() {
            true if may_share(other) => {
                let words = format!(
                    "descriptor {fd} and one of process {other}'s are a file in memory that was opened once more"
                );
                Err(BodyError::NotMigratable(words))
            }
            true => Err(BodyError::NotMigratable(words)),
            false => Err(BodyError::Retryable(words)),
        }
    }
}
