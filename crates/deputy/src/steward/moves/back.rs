//! From the room to home: the body is stopped there, and what it is fills the deputy, which goes on as the program, without us.

use super::{Heard, Move, MoveError};
use crate::steward::deputies::Phase;
use crate::steward::privileged::Order;
use crate::steward::shared::Shared;
use body::{BodyError, Collected, Given, Inside, Pager};
use ctl::moves::{How, Leg, Wish};
use image::{Image, Opened};
use os::ptrace::Stopped;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use strategy::Ranges;
use wire::ToRoom;

/// How long deputy threads may take to do what they were told last.
const IDLE_WITHIN: Duration = Duration::from_secs(2);

/// Brings process `pid` home.
pub fn run(room: &Arc<Shared>, pid: i32, wish: Wish) -> Result<Leg, MoveError> {
    if room.table().deputies.get(&pid).is_none_or(|d| d.phase != Phase::Away) {
        return Err(MoveError::NotAway);
    }
    let this = Move::begin(room, pid, true)?;
    this.course.borrow_mut().freeze();
    let follow_bytes = match wish.how {
        How::Post => 0,
        How::Auto => strategy::stop_bytes_max(wish.max_freeze_us, strategy::RATE_AT_FIRST),
        How::Stop | How::Pre | How::Flush => u64::MAX,
    };
    room.tell(&ToRoom::Recall { pid, follow_bytes });
    match this.receive() {
        Ok(rest) => {
            let how = if rest.is_some() { "post" } else { "stop" };
            let received = rest.map_or(Ok(()), |(pager, bytes)| this.receive_rest(&pager, bytes));
            room.tell(&ToRoom::Release { pid });
            // Its number is free there when this is told; until then it could not go there again.
            let _ = this.expect(|heard| matches!(heard, Heard::Left).then_some(Ok(())));
            this.done("leave");
            received?;
            Ok(this.course.borrow().leg("home", how))
        }
        Err(e) => {
            room.tell(&ToRoom::Resume { pid });
            for (tid, info) in this.take_signals() {
                room.tell(&ToRoom::Signal { pid, tid, info: info.to_vec() });
            }
            Err(e)
        }
    }
}

/// A deputy that is being filled.
struct Filling {
    image: Image,
    deputy: Collected,
    given: Given,
    /// Memory of the deputy's own, which goes last.
    own: Vec<Own>,
    /// Pages that follow when it runs.
    later: Ranges,
}

/// Who brings the pages that follow, and their bytes.
type Rest = Option<(Arc<Pager>, u64)>;

/// An area of the deputy's.
#[derive(Clone, Copy)]
struct Own {
    start: u64,
    bytes: u64,
    /// Where it was, if it had to make place.
    before: Option<u64>,
}

impl Own {
    fn range(&self) -> (u64, u64) {
        (self.start, self.start + self.bytes)
    }
}

fn ranges(own: &[Own]) -> Vec<(u64, u64)> {
    let mut all: Vec<_> = own.iter().map(Own::range).collect();
    all.sort_unstable();
    all
}

impl Move {
    fn receive(&self) -> Result<Rest, MoveError> {
        let mut bytes = Vec::new();
        let mut filling: Option<Filling> = None;
        let outcome = loop {
            match self.hear() {
                Ok(Heard::Part(part)) if bytes.len() + part.len() <= image::IMAGE_BYTES_MAX => bytes.extend(part),
                Ok(Heard::Later(runs)) => {
                    if let Err(e) = self.filled(&mut filling, &bytes).and_then(|f| f.expect_later(&runs)) {
                        break Err(e);
                    }
                }
                Ok(Heard::Pages(runs, pages)) => {
                    let ready = self.filled(&mut filling, &bytes);
                    let bytes = pages.len() as u64;
                    self.course.borrow_mut().count(bytes);
                    if let Err(e) = ready.and_then(|f| f.write(&runs, &pages)) {
                        break Err(e);
                    }
                    self.room.tell(&ToRoom::Taken { pid: self.pid, bytes });
                }
                Ok(Heard::Whole(Ok(()))) => break Ok(()),
                Ok(Heard::Whole(Err(why))) => break Err(MoveError::Room(why)),
                Ok(_) => {}
                Err(e) => break Err(e),
            }
        };
        self.done("pages");
        match (outcome, filling) {
            (Ok(()), Some(mut filling)) => match self.rest(&mut filling) {
                Ok(rest) => self.go(filling, rest.as_ref()).map(|()| rest),
                Err(e) => {
                    filling.undo()?;
                    Err(e.into())
                }
            },
            (Ok(()), None) => Err(MoveError::Room("it sent no pages".into())),
            (Err(e), Some(filling)) => {
                filling.undo()?;
                Err(e)
            }
            (Err(e), None) => Err(e),
        }
    }

    /// The deputy that is filled: the image is whole when anything else comes.
    fn filled<'a>(&self, filling: &'a mut Option<Filling>, bytes: &[u8]) -> Result<&'a mut Filling, MoveError> {
        match filling {
            Some(filling) => Ok(filling),
            None => {
                self.done("image");
                let begun = self.begin_filling(bytes)?;
                self.done("lay out");
                Ok(filling.insert(begun))
            }
        }
    }

    /// Has the pages brought that follow.
    fn rest(&self, filling: &mut Filling) -> Result<Rest, BodyError> {
        let later = std::mem::take(&mut filling.later);
        if later.is_empty() {
            return Ok(None);
        }
        let (areas, bytes) = (filling.image.areas.clone(), later.bytes());
        let pager = self.page_later(filling.first()?, &areas, later)?;
        self.done("watch");
        Ok(Some((pager, bytes)))
    }

    /// Stops the deputy and lays the body's memory out in it, beside its own.
    fn begin_filling(&self, bytes: &[u8]) -> Result<Filling, MoveError> {
        let image = Image::decode(bytes).map_err(|e| MoveError::Room(e.to_string()))?;
        let mut wanted: Vec<i32> = image.threads.iter().map(|t| t.tid).collect();
        wanted.sort_unstable();
        if image.process.pid != self.pid {
            return Err(MoveError::Room("the image is another process'".into()));
        }
        if self.room.files.get().is_some_and(|files| files.holds_locks(self.pid)) {
            let why = "it has locked a file while it was away, and a lock cannot change its owner unseen";
            return Err(BodyError::Stays(why.into()).into());
        }
        self.wait_idle(&wanted)?;
        let frozen = body::freeze(self.pid)?;
        let areas = os::areas::read(self.pid);
        let areas = match areas {
            Ok(areas) => areas,
            Err(e) => {
                frozen.thaw();
                return Err(e.into());
            }
        };
        let movable = areas.iter().filter(|a| a.name != b"[vsyscall]");
        let own = movable.map(|a| Own { start: a.start, bytes: a.end - a.start, before: None }).collect();
        // The place must be free of both memories: those of the image count as taken too.
        let mut taken = areas.clone();
        taken.extend(image.areas.iter().map(|a| os::areas::Area { start: a.start, end: a.end, ..Default::default() }));
        let deputy =
            body::collect(self.pid, frozen.threads, &taken, 0, &body::Slept::new(), Ok).map_err(|(e, threads)| {
                threads.into_iter().for_each(|t| drop(t.detach(0)));
                e
            })?;
        let mut filling = Filling { image, deputy, given: Given::default(), own, later: Ranges::default() };
        match filling.prepare(self.pid) {
            Ok(()) => Ok(filling),
            Err(e) => {
                filling.undo()?;
                Err(e.into())
            }
        }
    }

    /// Until the deputy has done what it was told, and has exactly these threads: those of ended ones end too.
    fn wait_idle(&self, tids: &[i32]) -> Result<(), MoveError> {
        let begun = Instant::now();
        loop {
            let idle = self.room.table().deputies.get(&self.pid).is_none_or(|d| d.is_idle());
            match idle && os::process::threads(self.pid)? == tids {
                true => return Ok(()),
                false if begun.elapsed() > IDLE_WITHIN => {
                    return Err(BodyError::Stays("its deputy is busy".into()).into());
                }
                false => std::thread::sleep(Duration::from_micros(100)),
            }
        }
    }

    /// The commit point: what the room holds is not needed any more.
    fn go(&self, mut filling: Filling, rest: Option<&(Arc<Pager>, u64)>) -> Result<(), MoveError> {
        let (done, is_done) = mpsc::channel();
        let memory = rest.and_then(|(pager, _)| pager.duplicate());
        self.room.poller.order(Order::Dismiss { pid: self.pid, memory, done });
        is_done.recv().map_err(|_| MoveError::Silent("the steward ends".into()))?;
        let signals = self.take_signals();
        self.done("dismiss");
        let finished = filling.descriptors(self.pid).and_then(|()| filling.finish(self.pid, &signals));
        match finished {
            Ok(threads) => {
                threads.into_iter().try_for_each(|t| t.detach(0)).map_err(BodyError::from)?;
                self.done("finish");
                self.course.borrow_mut().thaw(Instant::now());
                Ok(())
            }
            Err(e) => {
                // Neither body nor deputy any more: it ends, as everybody can see, rather than go on wrongly.
                tracing::error!("process {} could not be put together at home: {e}: it is killed", self.pid);
                // SAFETY: our tracee, not waited for.
                unsafe { libc::kill(self.pid, libc::SIGKILL) };
                Ok(())
            }
        }
    }
}

impl Filling {
    fn first(&mut self) -> Result<&mut Inside, BodyError> {
        self.deputy.first().ok_or(BodyError::Gone)
    }

    /// Opens the files with the deputy's own rights, and lays the memory out.
    fn prepare(&mut self, pid: i32) -> Result<(), BodyError> {
        let files = self.image.files.clone();
        for part in files.chunks(FILES_AT_ONCE) {
            let opened = open_files(self.first()?, part)?;
            self.given.files.extend(opened);
        }
        for (fd, file) in self.given.files.iter().zip(&files) {
            let found = std::fs::metadata(format!("/proc/{pid}/fd/{fd}")).map_or(0, |m| m.ino());
            if file.inode != 0 && found != file.inode {
                let name = String::from_utf8_lossy(&file.path);
                let words = format!("the file {name} is another now (inode {found}, not {})", file.inode);
                return Err(BodyError::Stays(words));
            }
        }
        let image = self.image.clone();
        self.given.objects = body::make_objects(self.first()?, &image, None)?;
        body::make_timers(pid, self.first()?, &image)?;
        self.make_place()?;
        let Filling { image, deputy, own, given, .. } = self;
        let inside = deputy.first().ok_or(BodyError::Gone)?;
        body::map_memory(pid, inside, image, given, &ranges(own))
    }

    /// What of the deputy lies where the body's memory must be, goes elsewhere.
    fn make_place(&mut self) -> Result<(), BodyError> {
        let Filling { image, deputy, own, .. } = self;
        let inside = deputy.first().ok_or(BodyError::Gone)?;
        let region = inside.region().unwrap_or(0);
        let mut taken: Vec<(u64, u64)> = image.areas.iter().map(|a| (a.start, a.end)).collect();
        taken.extend(image.process.vdso.map(|v| (v.start, v.end)));
        let clash = |own: &Own| taken.iter().any(|(start, end)| *start < own.start + own.bytes && own.start < *end);
        let clashing: Vec<usize> = (0..own.len()).filter(|i| clash(&own[*i])).collect();
        taken.push((region, region + body::REGION_BYTES));
        taken.extend(ranges(own));
        for i in clashing {
            let place = body::free_place_for(own[i].bytes, taken.iter().copied())?;
            taken.push((place, place + own[i].bytes));
            remap(inside, own[i].range(), place)?;
            own[i] = Own { start: place, before: Some(own[i].start), ..own[i] };
        }
        Ok(())
    }

    fn write(&mut self, runs: &[body::Run], pages: &[u8]) -> Result<(), MoveError> {
        if !body::lie_within(runs, &self.image.areas) {
            return Err(MoveError::Room("pages lie in no area of the image".into()));
        }
        Ok(self.first()?.memory().write_runs(runs, pages)?)
    }

    /// These pages come when it runs.
    fn expect_later(&mut self, runs: &[body::Run]) -> Result<(), MoveError> {
        if !body::lie_within(runs, &self.image.areas) {
            return Err(MoveError::Room("pages lie in no area of the image".into()));
        }
        runs.iter().for_each(|(at, bytes)| self.later.insert((*at, at + bytes)));
        Ok(())
    }

    /// The deputy as it was.
    fn undo(mut self) -> Result<(), BodyError> {
        let own = self.own.clone();
        let made: Vec<i32> = self.given.files.iter().chain(&self.given.objects).copied().collect();
        let inside = self.first()?;
        body::unmap_all_but(inside, &ranges(&own))?;
        for moved in &own {
            if let Some(before) = moved.before {
                remap(inside, moved.range(), before)?;
            }
        }
        let mut batch = inside.batch();
        for fd in made {
            batch.may(libc::SYS_close, [fd as u64, 0, 0, 0, 0, 0]);
        }
        inside.run(&batch)?;
        self.deputy.give_back()?.into_iter().try_for_each(|t| Ok(t.detach(0)?))
    }

    /// Every descriptor at its number: what the deputy has open already is used; all else of it is closed.
    fn descriptors(&mut self, pid: i32) -> Result<(), BodyError> {
        let given = self.given.clone();
        let wanted: BTreeMap<i32, (Opened, bool)> =
            self.image.descriptors.iter().map(|d| (d.fd, (d.opened, d.close_on_exec))).collect();
        let present: BTreeSet<i32> = os::process::descriptors(pid)?.into_iter().collect();
        let mut sources: BTreeMap<i32, i32> = BTreeMap::new();
        let mut shown: BTreeMap<u32, i32> = BTreeMap::new();
        for (fd, (opened, _)) in &wanted {
            let source = match opened {
                Opened::Home(home) if present.contains(home) => *home,
                Opened::Home(home) => return Err(BodyError::Stays(format!("descriptor {home} is not open at home"))),
                Opened::Made(object) => given.object(*object),
                // The deputy still has what the program took along: the same open file, with its locks.
                Opened::File { file, .. } => *shown.entry(*file).or_insert_with(|| {
                    let opened_anew = given.file(*file);
                    if is_same(pid, *fd, opened_anew) { *fd } else { opened_anew }
                }),
            };
            sources.insert(*fd, source);
        }
        let numbers = present.iter().chain(wanted.keys()).copied();
        let aside = body::free_numbers(numbers, wanted.len());
        let inside = self.first()?;
        // Those that are not at their number already first go out of the way: to numbers that nobody wants, and no higher than need be.
        let moved: Vec<(i32, i32)> =
            sources.iter().filter(|(fd, from)| fd != from).map(|(fd, from)| (*fd, *from)).collect();
        let mut batch = inside.batch();
        for (_, from) in &moved {
            batch.must(
                "duplicating a descriptor",
                libc::SYS_fcntl,
                [*from as u64, libc::F_DUPFD_CLOEXEC as u64, aside as u64, 0, 0, 0],
            );
        }
        let copies = inside.run(&batch)?;
        let mut batch = inside.batch();
        for ((fd, _), copy) in moved.iter().zip(&copies) {
            batch.must(
                "placing a descriptor",
                libc::SYS_dup3,
                [*copy as u64, *fd as u64, libc::O_CLOEXEC as u64, 0, 0, 0],
            );
        }
        let last = present.iter().copied().chain(copies.iter().map(|c| *c as i32)).max().unwrap_or(0);
        for fd in (0..=last).filter(|fd| !wanted.contains_key(fd)) {
            batch.may(libc::SYS_close, [fd as u64, 0, 0, 0, 0, 0]);
        }
        for (fd, (opened, close_on_exec)) in &wanted {
            let flags = if *close_on_exec { libc::FD_CLOEXEC as u64 } else { 0 };
            batch.must("placing a descriptor", libc::SYS_fcntl, [*fd as u64, libc::F_SETFD as u64, flags, 0, 0, 0]);
            if let Opened::File { offset, .. } = opened {
                batch.may(libc::SYS_lseek, [*fd as u64, *offset, libc::SEEK_SET as u64, 0, 0, 0]);
            }
        }
        inside.run(&batch)?;
        let Filling { image, deputy, .. } = self;
        body::watch_again(deputy.first().ok_or(BodyError::Gone)?, image)
    }

    fn finish(mut self, pid: i32, signals: &[(Option<i32>, [u8; 128])]) -> Result<Vec<Stopped>, BodyError> {
        let (own, given, image) = (self.own.clone(), self.given.clone(), self.image.clone());
        let cwd = os::process::link(pid, "cwd")?;
        let inside = self.first()?;
        if cwd.as_os_str().as_bytes() != image.process.cwd {
            let mut batch = inside.batch();
            let path = batch.put(&[image.process.cwd.as_slice(), &[0]].concat());
            batch.must("entering the working directory", libc::SYS_chdir, [path, 0, 0, 0, 0, 0]);
            inside.run(&batch)?;
        }
        body::set_process(inside, &image, &given)?;
        body::requeue(inside, &image, signals)?;
        let mut batch = inside.batch();
        body::arm_timers(&mut batch, &image.process.timers);
        inside.run(&batch)?;
        let mut done = Vec::new();
        // The first thread comes last: the region that all use goes with it.
        let mut insides: Vec<_> = self.deputy.into_insides().into_iter().collect();
        insides.reverse();
        for inside in insides {
            let tid = inside.tid().0;
            let Some(thread) = image.threads.iter().find(|t| t.tid == tid) else { return Err(BodyError::Gone) };
            let first = tid == pid;
            done.push(body::finish(inside, thread, first, |inside| {
                let mut batch = inside.batch();
                for own in own.iter().filter(|_| first) {
                    batch.must("unmapping the deputy's memory", libc::SYS_munmap, [own.start, own.bytes, 0, 0, 0, 0]);
                }
                inside.run(&batch).map(drop).map_err(BodyError::from)
            })?);
        }
        Ok(done)
    }
}

fn remap(inside: &mut Inside, (start, end): (u64, u64), to: u64) -> Result<(), BodyError> {
    let mut batch = inside.batch();
    let (bytes, flags) = (end - start, (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as u64);
    batch.must("making place for the program's memory", libc::SYS_mremap, [start, bytes, bytes, flags, to, 0]);
    inside.run(&batch)?;
    Ok(())
}

/// Files opened by one batch: their paths fit its memory.
const FILES_AT_ONCE: usize = 32;

/// Opens files; their descriptors.
fn open_files(inside: &mut Inside, files: &[image::File]) -> Result<Vec<i32>, BodyError> {
    let mut batch = inside.batch();
    for file in files {
        let path = batch.put(&[file.path.as_slice(), &[0]].concat());
        let flags = (file.flags | libc::O_CLOEXEC | libc::O_NOCTTY | libc::O_NONBLOCK) as u64;
        batch.must("opening a file of the program's at home", libc::SYS_open, [path, flags, 0, 0, 0, 0]);
    }
    let opened = inside.run(&batch)?;
    let mut batch = inside.batch();
    // What only names a file has no flags to set.
    for (fd, file) in opened.iter().zip(files).filter(|(_, file)| file.flags & libc::O_PATH == 0) {
        batch.must(
            "setting a file's flags",
            libc::SYS_fcntl,
            [*fd as u64, libc::F_SETFL as u64, file.flags as u64, 0, 0, 0],
        );
    }
    inside.run(&batch)?;
    Ok(opened.into_iter().map(|fd| fd as i32).collect())
}

/// Two descriptors of the process are open on the same file in the same way.
fn is_same(pid: i32, a: i32, b: i32) -> bool {
    let file = |fd: i32| {
        let metadata = std::fs::metadata(format!("/proc/{pid}/fd/{fd}")).ok()?;
        let flags = os::process::fd_info(pid, fd).ok()?.flags & !libc::O_CLOEXEC;
        Some((metadata.dev(), metadata.ino(), flags))
    };
    file(a).is_some_and(|found| file(b) == Some(found))
}
