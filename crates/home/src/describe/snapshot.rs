//! What a process of this home holds, as a room can give it: memory areas and descriptors by file,
//! or by stand-in. Done before it is stopped, and again then.

use crate::describe::descriptor_kind::LISTED_MAX;
use crate::describe::held_descriptors::{Described, Holding, descriptors};
use crate::describe::memory_sharing::MemorySharing;
use crate::describe::others::{self, Company, Others};
use crate::describe::room_names::RoomNames;
use crate::describe::{barred, confinement, place};
use crate::proxy::mounts;
use checkpoint::{BodyError, Files, Gathered, Memory};
use control_protocol::moves::Parts;
use image::{Descriptor, File, Image, Object, Objects, Opened};
use os::areas::{Area, Shown};
use os::process::{self, FdInfo};
use room_protocol::message::{Arrival, Place, Program, StandinId};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Below it lie what the room's porter has open.
const ABOVE_PORTERS: i32 = 64;

/// How a process is looked at.
#[derive(Clone, Copy)]
struct Circumstances<'a> {
    /// A userfaultfd that the process has is the steward's.
    watched: bool,
    /// The process runs meanwhile.
    runs: bool,
    sharing: &'a MemorySharing,
}

/// What was observed of a process.
#[derive(Clone, Debug)]
pub struct ProcessSnapshot {
    /// Areas as the kernel lists them, without flags.
    raw: Vec<Area>,
    /// What the kernel said of each descriptor.
    seen: Vec<(i32, FdInfo)>,
    /// Whom else there was.
    others: Others,
    memory: Memory,
    /// All open files of the process.
    pub files: Vec<File>,
    descriptors: Vec<Descriptor>,
    objects: Objects,
    /// Its memories, as areas show them.
    memories: Vec<Shown>,
    exe: Option<u32>,
    cwd: Vec<u8>,
    umask: u32,
}

impl ProcessSnapshot {
    /// Looks at process `pid`, which runs: what it closes meanwhile, or opens under the same
    /// number, is looked for again.
    pub fn of_running(pid: i32, watched: bool, sharing: &MemorySharing) -> Result<ProcessSnapshot, BodyError> {
        let look = || ProcessSnapshot::look(pid, None, Circumstances { watched, runs: true, sharing });
        let mut seen = look();
        for _ in 1..LISTED_MAX {
            match &seen {
                Err(e) if e.is_retryable() => seen = look(),
                _ => break,
            }
        }
        seen
    }

    /// What of it takes time whatever its memory; threads are those of now.
    pub fn parts(&self, pid: i32) -> Parts {
        let threads = process::threads(pid).map_or(1, |threads| threads.len());
        Parts { areas: self.raw.len() as u32, threads: threads as u32, descriptors: self.seen.len() as u32 }
    }

    /// Looks at process `pid`, which stands still. `before`: what it was; its areas are understood
    /// anew only if they have changed.
    ///
    /// `watched`: a userfaultfd that it has is ours.
    pub fn of(
        pid: i32,
        before: Option<&ProcessSnapshot>,
        watched: bool,
        sharing: &MemorySharing,
    ) -> Result<ProcessSnapshot, BodyError> {
        ProcessSnapshot::look(pid, before, Circumstances { watched, runs: false, sharing })
    }

    fn look(pid: i32, before: Option<&ProcessSnapshot>, now: Circumstances<'_>) -> Result<ProcessSnapshot, BodyError> {
        let Circumstances { watched, runs, sharing } = now;
        if before.is_some() {
            os::fault::at("observe")?;
        }
        let raw = os::areas::read(pid)?;
        if let Some(before) = before.filter(|b| b.raw == raw)
            && let Some(same) = before.with_offsets(pid)?
        {
            return Ok(same);
        }
        refuse_early(pid)?;
        let others = Others::beside(pid)?;
        checkpoint::check_others(pid, others.processes())?;
        others::check_messages(pid)?;
        if raw.is_empty() {
            return Err(BodyError::NotMigratable("it has no memory: it is a kernel thread, or has ended".into()));
        }
        let mut files = Files::default();
        if let Some(before) = before.filter(|b| b.raw == raw && b.memories.is_empty()) {
            return before.again(pid, others, sharing);
        }
        let (raw, mut flagged) = areas(pid)?;
        if watched {
            flagged.iter_mut().for_each(|a| a.flags.retain(|flag| flag != b"uw"));
        }
        let mut gathered = if runs { Gathered::default().running() } else { Gathered::default() };
        let memory = checkpoint::memory(pid, &flagged, &mut files, &mut gathered, named)?;
        let exe = executable(pid, &mut files);
        let Described { seen, descriptors, objects } = {
            let company = Company::new(&others, before.map(|b| (&b.others, b.seen.as_slice())));
            let holding = Holding { pid, runs, sharing, company: &company };
            descriptors(&holding, &mut files, &mut gathered)?
        };
        let memories = gathered.memories().to_vec();
        if sharing.is_refused() {
            // Of who was there before it is known that they have not.
            let new = before.filter(|b| b.memories == memories).map(|b| others.since(&b.others));
            alone_with(&memories, new.as_ref().unwrap_or(&others))?;
            unopened(pid, &gathered.removed(), others.processes())?;
        }
        sharing.check_files(files.list())?;
        let cwd = working_directory(pid)?;
        let umask = process::status(pid)?.umask;
        let files = barred::checked(pid, files.list().to_vec(), &cwd)?;
        ProcessSnapshot { memories, raw, seen, others, memory, files, descriptors, objects, exe, cwd, umask }
            .without_kept(pid)
    }

    /// This, with the offsets of now, if nothing else of the descriptors has changed.
    fn with_offsets(&self, pid: i32) -> Result<Option<ProcessSnapshot>, BodyError> {
        // What objects hold is read anew.
        if self.objects != Objects::default() {
            return Ok(None);
        }
        let mut now = self.clone();
        let numbers = process::descriptors(pid)?;
        if !numbers.iter().eq(self.seen.iter().map(|(fd, _)| fd)) {
            return Ok(None);
        }
        for ((fd, before), descriptor) in now.seen.iter_mut().zip(&mut now.descriptors) {
            let info = process::fd_info(pid, *fd)?;
            if (FdInfo { offset: before.offset, ..info }) != *before {
                return Ok(None);
            }
            if let Opened::File { offset, .. } = &mut descriptor.opened {
                *offset = info.offset;
            }
            *before = info;
        }
        now.cwd = process::link(pid, "cwd")?.into_os_string().into_vec();
        now.umask = process::status(pid)?.umask;
        Ok(Some(now))
    }

    /// Looks for what may have changed since the first look and takes long to see: done while the
    /// room works. False: prepare anew.
    ///
    /// Who was made since then may share an open file. (Who was there and was sent one in these
    /// milliseconds is not seen.)
    pub fn still_holds(&self, pid: i32, sharing: &MemorySharing) -> Result<bool, BodyError> {
        refuse_early(pid)?;
        let new = Others::beside(pid)?.since(&self.others);
        checkpoint::check_others(pid, new.processes())?;
        if sharing.is_refused()
            && !self.memories.is_empty()
            && !checkpoint::mappers(new.processes().iter().copied(), &self.memories).is_empty()
        {
            return Ok(false);
        }
        let moved = self.descriptors.iter().zip(&self.seen);
        let files = moved.filter(|(d, _)| !matches!(d.opened, Opened::Home(_)));
        for (fd, info) in files.map(|(_, seen)| seen) {
            // Who has it no more may have written to it after its offset was seen: a child that has
            // ended since.
            let is_shared = new.have(*fd) && !checkpoint::is_place(pid, *fd, info);
            if is_shared || process::fd_info(pid, *fd)?.offset != info.offset {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn again(&self, pid: i32, others: Others, sharing: &MemorySharing) -> Result<ProcessSnapshot, BodyError> {
        let mut files = Files::default();
        let mapped = self.memory.areas.iter().filter_map(|a| match a.content {
            image::Content::File { file, .. } => Some(file + 1),
            image::Content::Anonymous | image::Content::Memory { .. } | image::Content::Ring => None,
        });
        let kept = mapped.chain(self.exe.map(|e| e + 1)).max().unwrap_or(0) as usize;
        for file in self.files.iter().take(kept) {
            files.own(file.clone());
        }
        let mut gathered = Gathered::default();
        let Described { seen, descriptors, objects } = {
            let company = Company::new(&others, Some((&self.others, &self.seen)));
            let holding = Holding { pid, runs: false, sharing, company: &company };
            descriptors(&holding, &mut files, &mut gathered)?
        };
        let memories = gathered.memories().to_vec();
        if sharing.is_refused() {
            alone_with(&memories, &others)?;
        }
        let cwd = process::link(pid, "cwd")?.into_os_string().into_vec();
        let umask = process::status(pid)?.umask;
        let files = files.list().to_vec();
        ProcessSnapshot { memories, seen, others, files, descriptors, objects, cwd, umask, ..self.clone() }
            .without_kept(pid)
    }

    /// The identities of the memories, in the order of the image.
    pub fn memories(&self) -> &[Shown] {
        &self.memories
    }

    /// The areas as the kernel lists them.
    pub fn areas(&self) -> &[Area] {
        &self.raw
    }

    /// The areas as an image has them.
    pub fn image_areas(&self) -> &[image::Area] {
        &self.memory.areas
    }

    /// It may have guard regions.
    pub fn is_guarded(&self) -> bool {
        self.memory.guarded
    }

    /// A body made ready for `other` will do for this one too.
    pub fn is_served_by(&self, other: &ProcessSnapshot) -> bool {
        let opened =
            |o: &ProcessSnapshot| o.descriptors.iter().map(|d| (d.fd, without_offset(d.opened))).collect::<Vec<_>>();
        self.files == other.files && opened(self) == opened(other) && self.cwd == other.cwd
    }

    /// The files that it has mapped shared and writable.
    pub fn stored_in(&self) -> impl Iterator<Item = &File> {
        let is_shown = |place: usize| {
            let shows =
                |a: &image::Area| matches!(a.content, image::Content::File { file, .. } if file as usize == place);
            self.memory.areas.iter().any(|a| a.shared && shows(a))
        };
        let all =
            self.files.iter().enumerate().filter(move |(place, file)| checkpoint::is_written(file) && is_shown(*place));
        all.map(|(_, file)| file)
    }

    /// Refuses a process that keeps a descriptor at home of a file in which it would store away.
    fn without_kept(self, pid: i32) -> Result<ProcessSnapshot, BodyError> {
        let is_it = |fd: i32, inode: u64| {
            let found = std::fs::metadata(format!("/proc/{pid}/fd/{fd}"));
            found.is_ok_and(|found| found.is_file() && found.ino() == inode)
        };
        let kept: Vec<i32> =
            self.descriptors.iter().filter(|d| matches!(d.opened, Opened::Home(_))).map(|d| d.fd).collect();
        for file in self.stored_in() {
            if let Some(fd) = kept.iter().find(|fd| is_it(**fd, file.inode)) {
                let name = String::from_utf8_lossy(&file.path);
                return Err(BodyError::NotMigratable(format!(
                    "it has {name} mapped shared and writable, and its descriptor {fd} of that file stays at home"
                )));
            }
        }
        Ok(self)
    }

    /// The processes that were made since `before`.
    pub fn new_since(&self, before: &ProcessSnapshot) -> Vec<i32> {
        self.others.since(&before.others).processes().to_vec()
    }

    /// Descriptors that stay at home, each with the number of its open file among them.
    pub fn at_home(&self, pid: i32) -> Vec<(i32, usize)> {
        let mut found: Vec<(i32, usize)> = Vec::new();
        for fd in self.descriptors.iter().filter(|d| matches!(d.opened, Opened::Home(_))).map(|d| d.fd) {
            let same = found.iter().find(|(other, _)| process::same_file(pid, *other, fd)).map(|(_, n)| *n);
            let next = found.iter().map(|(_, n)| n + 1).max().unwrap_or(0);
            found.push((fd, same.unwrap_or(next)));
        }
        found
    }

    /// An epoll instance of it watches this descriptor.
    pub fn watches(&self, fd: i32) -> bool {
        self.objects.made.iter().any(|made| match &made.object {
            Object::Watch(watched) => watched.iter().any(|w| w.fd == fd),
            _ => false,
        })
    }

    /// What the room needs to make an empty body for it. `standins`: descriptors that stay, with
    /// their stand-ins. `names`: by which the room opens files that have none.
    pub fn place(&self, pid: i32, standins: &[(i32, StandinId)], names: &RoomNames) -> Result<Place, BodyError> {
        let argv = process::arguments(pid)?.split(|b| *b == 0).filter(|a| !a.is_empty()).map(<[u8]>::to_vec).collect();
        let path = process::link(pid, "exe").map(|p| p.into_os_string().into_vec()).unwrap_or_default();
        let mut placed = place::identity(pid, Program { path, argv, envp: Vec::new() })?;
        for (fd, standin) in standins {
            let FdInfo { flags, offset, .. } = process::fd_info(pid, *fd)?;
            let (terminal, timed) = (place::may_be_terminal(pid, *fd), place::is_timed(pid, *fd));
            let (fd, standin) = (*fd, *standin);
            let (at_home, end) = (fd, place::end_of(pid, fd, flags, standin));
            let descriptor =
                room_protocol::message::Descriptor { fd, at_home, standin, flags, terminal, timed, offset, end };
            placed.descriptors.push(descriptor);
        }
        let taken = self.descriptors.iter().map(|d| d.fd);
        let files_at = checkpoint::free_numbers_from(ABOVE_PORTERS, taken, self.files.len() + self.objects.made.len());
        let files = (0..).zip(&self.files).map(|(place, f)| place::to_open(f, names.of(place, f))).collect();
        let descriptors_max =
            placed.limits.get(libc::RLIMIT_NOFILE as usize).map_or((u64::MAX, u64::MAX), |limits| *limits);
        let capabilities = placed.credentials.capabilities;
        placed.arrival = Some(Arrival { files, files_at, descriptors_max, child_flags: 0, capabilities });
        Ok(placed)
    }

    /// Files without a name: their places, and the links of /proc/PID that lead to them.
    pub fn removed(&self) -> Vec<(u32, String)> {
        let link = |place: u32| {
            let open = self.descriptors.iter().find(|d| matches!(d.opened, Opened::File { file, .. } if file == place));
            let shows = |a: &&image::Area| matches!(a.content, image::Content::File { file, .. } if file == place);
            let mapped =
                || self.memory.areas.iter().find(shows).map(|a| format!("map_files/{:x}-{:x}", a.start, a.end));
            open.map(|d| format!("fd/{}", d.fd)).or_else(mapped).unwrap_or_else(|| "exe".to_owned())
        };
        let removed = (0..).zip(&self.files).filter(|(_, file)| file.removed);
        removed.map(|(place, _)| (place, link(place))).collect()
    }

    /// Descriptors by which it writes to files that have a name; but for those by which its deputy
    /// tells of its end.
    pub fn written(&self) -> Vec<i32> {
        let file = |d: &Descriptor| match d.opened {
            Opened::File { file, .. } => self.files.get(file as usize),
            _ => None,
        };
        let written = |d: &&Descriptor| {
            file(d).is_some_and(|file| checkpoint::is_written(file) && !file.removed && d.fd > libc::STDERR_FILENO)
        };
        self.descriptors.iter().filter(written).map(|d| d.fd).collect()
    }

    /// The image as far as it is known without collecting.
    pub fn image(&self) -> Image {
        let mut image = Image {
            areas: self.memory.areas.clone(),
            files: self.files.clone(),
            descriptors: self.descriptors.clone(),
            objects: self.objects.clone(),
            ..Image::default()
        };
        self.complete(&mut image.process);
        image
    }

    /// Adds to what was collected what only this knows.
    pub fn complete(&self, process: &mut image::Process) {
        process.cwd.clone_from(&self.cwd);
        (process.umask, process.exe, process.vdso) = (self.umask, self.exe, self.memory.vdso);
    }
}

fn without_offset(opened: Opened) -> Opened {
    match opened {
        Opened::File { file, .. } => Opened::File { file, offset: 0 },
        home => home,
    }
}

/// Its working directory, which the room must have too.
fn working_directory(pid: i32) -> Result<Vec<u8>, BodyError> {
    let cwd = process::link(pid, "cwd")?;
    if mounts::is_hidden(&cwd) {
        let shown = cwd.display();
        let words = format!("its working directory is {shown}, and each node has a place of its own there");
        return Err(BodyError::NotMigratable(words));
    }
    let (here, named) = (std::fs::metadata(format!("/proc/{pid}/cwd")), std::fs::metadata(&cwd));
    let is_named =
        here.is_ok_and(|here| named.is_ok_and(|named| (named.dev(), named.ino()) == (here.dev(), here.ino())));
    if !is_named {
        let words = format!("its working directory has no name any more, or another one (it was {})", cwd.display());
        return Err(BodyError::NotMigratable(words));
    }
    Ok(cwd.into_os_string().into_vec())
}

/// None of these processes has one of these memories mapped.
fn alone_with(memories: &[Shown], others: &Others) -> Result<(), BodyError> {
    if memories.is_empty() {
        return Ok(());
    }
    let sharers: Vec<String> =
        checkpoint::mappers(others.processes().iter().copied(), memories).iter().map(ToString::to_string).collect();
    if sharers.is_empty() {
        return Ok(());
    }
    Err(BodyError::SharesMemory(format!("it shares memory with other processes ({})", sharers.join(", "))))
}

/// None of these processes has such a file open: reading and writing it away would be another's
/// than what is mapped.
fn unopened(pid: i32, removed: &[u64], others: &[i32]) -> Result<(), BodyError> {
    let is_such = |pid: i32, fd: &i32| {
        let found = std::fs::metadata(format!("/proc/{pid}/fd/{fd}"));
        found.is_ok_and(|m| m.is_file() && m.nlink() == 0 && removed.contains(&m.ino()))
    };
    let has = |pid: &&i32| process::descriptors(**pid).is_ok_and(|all| all.iter().any(|fd| is_such(**pid, fd)));
    match [pid].iter().chain(others).filter(|_| !removed.is_empty()).find(has) {
        Some(who) => Err(BodyError::SharesMemory(format!(
            "it has a removed file mapped shared and writable that process {who} has open"
        ))),
        None => Ok(()),
    }
}

/// State of the whole process that a room cannot hold.
fn refuse_early(pid: i32) -> Result<(), BodyError> {
    let stays = |why: &str| Err(BodyError::NotMigratable(why.to_owned()));
    let status = process::status(pid)?;
    if status.state == 'Z' || status.state == 'X' {
        return stays("it has ended, or its first thread has");
    }
    if std::fs::File::open(format!("/proc/{pid}/exe")).is_ok_and(homefs::programs::is_of_32_bits) {
        return stays(checkpoint::OTHER_CODE);
    }
    confinement::refuse(pid)?;
    checkpoint::check_threads(pid)?;
    // Of those that have ended since they were listed there is nothing to know.
    let is_real_time = |tid: &i32| os::scheduling::policy(*tid).is_ok_and(os::scheduling::is_real_time);
    if let Some(thread) = process::threads(pid)?.into_iter().find(is_real_time) {
        checkpoint::scheduled(thread)?;
    }
    Ok(())
}

/// The areas without and with flags. Of one list: two that were made one after the other need not
/// be of one moment, even if a third is like the first.
fn areas(pid: i32) -> Result<(Vec<Area>, Vec<Area>), BodyError> {
    for _ in 0..LISTED_MAX {
        let flagged = os::areas::read_with_flags(pid)?;
        if flagged.windows(2).all(|w| w[0].end <= w[1].start) {
            return Ok((os::areas::without_flags(&flagged), flagged));
        }
    }
    Err(BodyError::NotMigratable("its memory changes faster than it can be listed".into()))
}

/// The file that an area shows: still the one of that name, or one that has none any more.
fn named(area: &Area) -> Result<File, String> {
    let path = Path::new(std::ffi::OsStr::from_bytes(&area.name));
    if mounts::is_hidden(path) {
        return Err(format!("it has {} mapped, and each node has a place of its own there", path.display()));
    }
    let stores = area.shared && (area.writable || area.has(b"mw"));
    if area.shared && !stores && path.starts_with(mounts::SHARED_MEMORY) {
        return Err(format!("it has {} mapped shared: what others store there it must see at once", path.display()));
    }
    if let Some(file) = without_name(path, area.inode) {
        return Ok(file);
    }
    let metadata = std::fs::metadata(path).map_err(|e| format!("it has {} mapped: {e}", path.display()))?;
    if metadata.ino() == area.inode && metadata.is_file() {
        // Home holds it for the room.
        let (path, flags) = (area.name.clone(), if stores { libc::O_RDWR } else { libc::O_RDONLY });
        return Ok(File { path, inode: area.inode, flags, removed: false });
    }
    Err(format!("it has {} mapped, and another file has that name now", path.display()))
}

fn without_name(path: &Path, inode: u64) -> Option<File> {
    let path = checkpoint::removed(path, inode)?.into_os_string().into_vec();
    Some(File { path, inode, flags: libc::O_RDONLY, removed: true })
}

fn executable(pid: i32, files: &mut Files) -> Option<u32> {
    let path = process::link(pid, "exe").ok()?;
    let inode = std::fs::metadata(format!("/proc/{pid}/exe")).ok()?.ino();
    let file = match without_name(&path, inode) {
        Some(file) => file,
        None if std::fs::metadata(&path).ok()?.ino() == inode => {
            File { path: path.into_os_string().into_vec(), inode, flags: libc::O_RDONLY, removed: false }
        }
        None => return None,
    };
    Some(files.shared(file))
}
