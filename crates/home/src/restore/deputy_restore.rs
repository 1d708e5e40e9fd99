//! A deputy that takes its program's state back. Until the commit point
//! ([`DeputyRestore::prepare`], [`DeputyRestore::write`], [`DeputyRestore::take_descriptors`])
//! everything is laid beside what the deputy has, so that it can be undone; after it
//! ([`DeputyRestore::finish`]) come only calls that do not fail for the program's sake.

use crate::restore::edges::Edges;
use crate::restore::error::RestoreError;
use crate::restore::locks::Locks;
use crate::restore::{kept_files, reopen, signals};
use crate::room::state::Room;
use checkpoint::{BodyError, Collected, Existing, Given, HugePageHints, Inside, Placement};
use image::Image;
use migration_plan::{Range, Ranges};
use os::areas::Area;
use os::pidfd::PidFd;
use os::process::{Limit, MoreDescriptors};
use os::ptrace::Stopped;
use os::userfault::Userfault;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

/// Above the standard ones.
const LOWEST_FD: i32 = 3;

/// The memory of a stopped deputy.
pub struct DeputyMemory {
    /// Areas that are the deputy's own.
    pub own: Vec<Area>,
    /// Areas of the program that were laid out before, with pages.
    pub ahead: Vec<image::Area>,
}

/// A deputy that is being filled.
pub struct DeputyRestore {
    pub(super) image: Image,
    pub(super) deputy: Collected,
    pub(super) given: Given,
    /// Memory of the deputy's own, which goes last.
    pub(super) own: Vec<Own>,
    /// Memory of the program's that was laid out in it before, with pages.
    pub(super) ahead: Vec<image::Area>,
    /// Files, by their places, that the deputy has had open all the time: under these numbers.
    pub(super) kept: BTreeMap<u32, i32>,
    /// Where it has the working directory open, if it is in another one.
    pub(super) cwd: Option<i32>,
    /// Pages that follow when it runs.
    pub(super) later: Ranges,
    pub(super) dense: HugePageHints,
    /// The files that will be at these numbers, and where they are now.
    pub(super) copies: Vec<(i32, i32)>,
    /// Locks that the process took while it was away.
    pub(super) locks: Locks,
    /// Events at the files that it watches.
    pub(super) edges: Edges,
    /// Its files are open beside the deputy's, until all are at their numbers.
    pub(super) more: Option<MoreDescriptors>,
    /// Its limit of descriptors, soft and hard, if it has raised that itself.
    pub(super) before: Option<Limit>,
}

/// An area of the deputy's.
#[derive(Clone, Copy)]
pub(super) struct Own {
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

impl DeputyRestore {
    /// Of a deputy that is stopped, and was collected; nothing is done to it yet.
    pub fn new(image: Image, deputy: Collected, memory: DeputyMemory, locks: Locks, edges: Edges) -> DeputyRestore {
        let DeputyMemory { own, ahead } = memory;
        let own = own.iter().map(|a| Own { start: a.start, bytes: a.end - a.start, before: None }).collect();
        let (given, later, copies) = (Given::default(), Ranges::default(), Vec::new());
        let kept = kept_files::kept(&image, &locks);
        DeputyRestore {
            image,
            deputy,
            given,
            own,
            ahead,
            kept,
            cwd: None,
            later,
            dense: HugePageHints::default(),
            copies,
            locks,
            edges,
            more: None,
            before: None,
        }
    }

    /// The image that it is filled from.
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// The first thread of the deputy, by which calls are made in it.
    pub(super) fn first(&mut self) -> Result<&mut Inside, BodyError> {
        self.deputy.first().ok_or(BodyError::Exited)
    }

    /// Opens the files with the deputy's own rights, and lays the memory out. `theirs`: memories,
    /// by their places, that another process here has already.
    pub fn prepare(&mut self, room: &Room, pid: i32, theirs: &[Option<&OwnedFd>]) -> Result<(), BodyError> {
        os::fault::at("fill")?;
        self.allow_more_descriptors(pid)?;
        kept_files::keeps_its_locks(room, pid, &self.image)?;
        self.suits_the_processor()?;
        checkpoint::check_guards(&self.image)?;
        let DeputyRestore { image, deputy, given, locks, kept, .. } = self;
        let inside = deputy.first().ok_or(BodyError::Exited)?;
        let anew: Vec<_> = (0..).zip(&image.files).filter(|(place, _)| !kept.contains_key(place)).collect();
        let files: Vec<image::File> = anew.iter().map(|(_, file)| (*file).clone()).collect();
        reopen::open(room, pid, inside, &files, &mut given.files)?;
        let mut opened = given.files.drain(..);
        let places = 0..image.files.len() as u32;
        let all: Vec<i32> = places.filter_map(|place| kept.get(&place).copied().or_else(|| opened.next())).collect();
        drop(opened);
        given.files = all;
        locks.put_open(pid, inside, &mut given.files)?;
        self.open_directory(pid)?;
        let image = self.image.clone();
        let inside = self.first()?;
        let files: Vec<_> = theirs.iter().copied().flatten().map(AsFd::as_fd).collect();
        let mut numbers = checkpoint::give(inside, &PidFd::open(pid)?, &files)?.into_iter();
        let theirs: Vec<Option<i32>> = theirs.iter().map(|file| file.and_then(|_| numbers.next())).collect();
        self.given.objects = checkpoint::make_objects(inside, &image, None, &theirs)?;
        checkpoint::make_timers(pid, self.first()?, &image)?;
        self.make_place()?;
        let DeputyRestore { image, deputy, own, given, ahead, .. } = self;
        let inside = deputy.first().ok_or(BodyError::Exited)?;
        checkpoint::map_memory(pid, inside, image, given, Existing { kept: &ranges(own), prelaid: ahead })?;
        let taken = os::areas::read(pid)?.into_iter().map(|a| (a.start, a.end));
        let taken = taken.chain(image.areas.iter().map(|a| (a.start, a.end))).collect();
        given.windows = checkpoint::make_memories(
            inside,
            image,
            given,
            Placement { taken, lowest_fd: LOWEST_FD, theirs: &theirs },
        )?;
        Ok(())
    }

    /// A program may use what only the processor has on which it was started.
    fn suits_the_processor(&self) -> Result<(), BodyError> {
        let own = self.deputy.threads.first().map(|thread| thread.extended.as_slice()).unwrap_or_default();
        match self.image.threads.iter().find_map(|thread| os::ptrace::lacks(&thread.extended, own)) {
            Some(what) => Err(BodyError::NotMigratable(format!("it uses {what} there, and home's processor has none"))),
            None => Ok(()),
        }
    }

    /// The memory at this place, if it is nobody's but its own yet.
    pub fn memory(&self, place: usize) -> Result<Option<OwnedFd>, BodyError> {
        self.given.windows.get(place).map_or(Ok(None), |window| window.file(self.image.process.pid))
    }

    /// Opens the working directory, if the deputy is in another one.
    fn open_directory(&mut self, pid: i32) -> Result<(), BodyError> {
        let (wanted, inode) = (self.image.process.cwd.clone(), self.image.process.cwd_inode);
        let is_it = |link: &str| {
            let found = std::fs::metadata(format!("/proc/{pid}/{link}")).map_or(0, |m| m.ino());
            inode == 0 || found == inode
        };
        let now = os::process::link(pid, "cwd")?;
        let now = now.as_os_str().as_bytes();
        if now.strip_suffix(b" (deleted)").unwrap_or(now) == wanted && is_it("cwd") {
            return Ok(());
        }
        let inside = self.first()?;
        let mut batch = inside.batch();
        let path = batch.put(&[wanted.as_slice(), &[0]].concat());
        let flags = (libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC) as u64;
        let place = batch.may(libc::SYS_open, [path, flags, 0, 0, 0, 0]);
        let opened = inside.run(&batch)?.get(place).copied().filter(|fd| *fd >= 0).map(|fd| fd as i32);
        self.cwd = opened;
        if opened.is_some_and(|fd| is_it(&format!("fd/{fd}"))) {
            return Ok(());
        }
        let name = String::from_utf8_lossy(&wanted);
        Err(BodyError::NotMigratable(format!("its working directory ({name}) cannot be entered by its name any more")))
    }

    /// These pages come, and are full.
    pub fn expect_dense(&mut self, runs: &[checkpoint::Run]) -> Result<(), RestoreError> {
        if !checkpoint::lie_within(runs, &self.image.areas) {
            return Err(RestoreError::Protocol("pages lie in no area of the image".into()));
        }
        self.dense.expect(runs);
        Ok(())
    }

    /// These pages come when it runs.
    pub fn expect_later(&mut self, runs: &[checkpoint::Run]) -> Result<(), RestoreError> {
        if !checkpoint::lie_within(runs, &self.image.areas) {
            return Err(RestoreError::Protocol("pages lie in no area of the image".into()));
        }
        runs.iter().for_each(|(at, bytes)| self.later.insert((*at, at + bytes)));
        Ok(())
    }

    /// These came ahead, and are not there any more.
    pub fn discard(&mut self, runs: &[checkpoint::Run]) -> Result<(), RestoreError> {
        if !checkpoint::lie_within(runs, &self.image.areas) {
            return Err(RestoreError::Protocol("pages lie in no area of the image".into()));
        }
        Ok(checkpoint::discard(self.first()?, runs)?)
    }

    /// All of these.
    pub fn take_later(&mut self) -> Ranges {
        std::mem::take(&mut self.later)
    }

    /// The ranges of these that become huge pages.
    pub fn wanted_huge(&self, later: &Ranges) -> Vec<Range> {
        checkpoint::wanted_huge(&self.image.areas, later)
    }

    /// Makes threads that touch these pages from now on wait for them.
    pub fn watch_missing(&mut self, pid: i32, later: &Ranges) -> Result<Userfault, BodyError> {
        if !self.ahead.is_empty() {
            // As they came ahead they are not any more.
            let stale: Vec<checkpoint::Run> = later.iter().map(|(start, end)| (start, end - start)).collect();
            checkpoint::discard(self.first()?, &stale)?;
        }
        let memory = checkpoint::watch_missing(self.first()?, pid)?;
        checkpoint::register(&memory, &self.image.areas, later)?;
        Ok(memory)
    }

    /// What of the deputy lies where the body's memory must be, goes elsewhere.
    fn make_place(&mut self) -> Result<(), BodyError> {
        let DeputyRestore { image, deputy, own, .. } = self;
        let inside = deputy.first().ok_or(BodyError::Exited)?;
        let region = inside.region().unwrap_or(0);
        let mut taken: Vec<(u64, u64)> = image.areas.iter().map(|a| (a.start, a.end)).collect();
        taken.extend(image.process.vdso.map(|v| (v.start, v.end)));
        let clash = |own: &Own| taken.iter().any(|(start, end)| *start < own.start + own.bytes && own.start < *end);
        let clashing: Vec<usize> = (0..own.len()).filter(|i| clash(&own[*i])).collect();
        taken.push((region, region + checkpoint::REGION_BYTES));
        taken.extend(ranges(own));
        for i in clashing {
            let place = checkpoint::free_place_for(own[i].bytes, taken.iter().copied())?;
            taken.push((place, place + own[i].bytes));
            remap(inside, own[i].start, own[i].bytes, place)?;
            own[i] = Own { start: place, before: Some(own[i].start), ..own[i] };
        }
        Ok(())
    }

    /// Pages that came.
    pub fn write(&mut self, runs: &[checkpoint::Run], pages: &[u8]) -> Result<(), RestoreError> {
        let DeputyRestore { image, deputy, given, dense, .. } = self;
        let memory = deputy.first().ok_or(BodyError::Exited)?.memory();
        checkpoint::put_pages(runs, pages, &image.areas, &given.windows, memory).map_err(|e| match e {
            BodyError::NotMigratable(why) => RestoreError::Protocol(why),
            e => e.into(),
        })?;
        dense.follow(memory, runs);
        Ok(())
    }

    /// The deputy as it was.
    pub fn undo(mut self) -> Result<(), BodyError> {
        let own = self.own.clone();
        let copies = self.copies.iter().map(|(_, copy)| *copy);
        let anew = self.given.files.iter().filter(|fd| !self.kept.values().any(|kept| kept == *fd));
        let made = anew.chain(&self.given.objects).copied();
        let made = made.chain(self.given.windows.iter().filter_map(checkpoint::Window::own_fd));
        let made: Vec<i32> = made.chain(copies).chain(self.cwd).collect();
        let pid = self.image.process.pid;
        let inside = self.first()?;
        checkpoint::unmap_all_but(inside, &ranges(&own))?;
        for moved in &own {
            if let Some(before) = moved.before {
                remap(inside, moved.start, moved.bytes, before)?;
            }
        }
        let mut batch = inside.batch();
        for fd in made {
            batch.may(libc::SYS_close, [fd as u64, 0, 0, 0, 0, 0]);
        }
        inside.run(&batch)?;
        self.allow_as_before()?;
        let inside = self.first()?;
        // Calls were made from the program's vDSO.
        let region = inside.region().unwrap_or(0);
        let areas: Vec<Area> = os::areas::read(pid)?.into_iter().filter(|a| a.start != region).collect();
        inside.set_gate(os::inject::gate(inside.memory(), &areas)?);
        self.deputy.give_back()?.into_iter().try_for_each(|t| Ok(t.detach(0)?))
    }

    /// The rest: it is the program again, and is to be let go.
    pub fn finish(
        mut self,
        room: &Room,
        pid: i32,
        signals: &[(Option<i32>, [u8; 128])],
    ) -> Result<Vec<Stopped>, BodyError> {
        let (own, given, image) = (self.own.clone(), self.given.clone(), self.image.clone());
        if let Some(fd) = self.cwd {
            self.first()?.must("entering the working directory", libc::SYS_fchdir, [fd as u64, 0, 0, 0, 0, 0])?;
        }
        self.place_descriptors(room, pid)?;
        // Edges of the watched descriptors that came meanwhile are known now.
        room.let_go(self.edges.standins());
        self.allow_as_before()?;
        let locks = std::mem::take(&mut self.locks);
        locks.take_along(self.first()?, &image)?;
        // It is 2 if the kernel has set it so when the process became another user: no program can,
        // and it means the same.
        let keeps = self.deputy.process.dumpable == 2 && image.process.dumpable != 1;
        let inside = self.first()?;
        let lost = signals::will_be_dropped(inside, &image)?;
        let signals: Vec<_> = signals.iter().map(|(tid, info)| (*tid, signals::understood(&image, *info))).collect();
        checkpoint::set_keys(inside, &image)?;
        let mut batch = inside.batch();
        checkpoint::set_process(&mut batch, &image, &given, true);
        inside.run(&batch)?;
        let mut timers = inside.batch();
        checkpoint::arm_timers(&mut timers, &image.process.timers);
        let mut done = Vec::new();
        // The first thread comes last: the region that all use goes with it.
        let mut insides: Vec<_> = self.deputy.into_insides().into_iter().collect();
        insides.reverse();
        for inside in insides {
            let tid = inside.tid().0;
            let Some(thread) = image.threads.iter().find(|t| t.tid == tid) else { return Err(BodyError::Exited) };
            let first = tid == pid;
            if thread.processors.is_none() && os::processor::chosen(tid).is_some() {
                os::processor::choose(tid, None);
            }
            let batch = if first { std::mem::replace(&mut timers, inside.batch()) } else { inside.batch() };
            done.push(checkpoint::finish(inside, batch, thread, first, |inside, mut batch| {
                if first && !keeps {
                    checkpoint::set_dumpable(&mut batch, &image.process);
                }
                for own in own.iter().filter(|_| first) {
                    batch.must("unmapping the deputy's memory", libc::SYS_munmap, [own.start, own.bytes, 0, 0, 0, 0]);
                }
                signals::drop_cancellations(inside, batch)?;
                checkpoint::requeue_own(inside, &image, thread, &signals)?;
                let for_all = signals.iter().chain(&lost).filter(|(tid, _)| tid.is_none() && first);
                let for_all: Vec<_> = for_all.map(|(_, info)| *info).collect();
                if first { checkpoint::requeue(inside, &image, &for_all) } else { Ok(()) }
            })?);
        }
        Ok(done)
    }
}

fn remap(inside: &mut Inside, start: u64, bytes: u64, to: u64) -> Result<(), BodyError> {
    let mut batch = inside.batch();
    let flags = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as u64;
    batch.must("making place for the program's memory", libc::SYS_mremap, [start, bytes, bytes, flags, to, 0]);
    inside.run(&batch)?;
    Ok(())
}
