//! Descriptors of a deputy that becomes its program again: held beside the deputy's own until the
//! commit point, and placed at their numbers after it.

use crate::restore::deputy_restore::DeputyRestore;
use crate::restore::kept_files::is_same;
use crate::room::state::Room;
use checkpoint::BodyError;
use image::Opened;
use os::process::{Limit, MoreDescriptors};
use std::collections::{BTreeMap, BTreeSet};

impl DeputyRestore {
    /// As many as all that is open twice takes.
    pub(super) fn allow_more_descriptors(&mut self, pid: i32) -> Result<(), BodyError> {
        const SPARE: usize = 64;
        let needed = 2 * self.image.descriptors.len() + os::process::descriptors(pid)?.len() + SPARE;
        let limits = os::process::limits(pid)?;
        let Some((soft, hard)) = limits.get(libc::RLIMIT_NOFILE as usize).copied() else { return Ok(()) };
        if soft >= needed as u64 {
            return Ok(());
        }
        self.more = MoreDescriptors::give(pid);
        if self.more.is_none() && soft < hard {
            // Of another user's process only some superusers may set it; itself it may, as far as
            // the hard limit goes.
            self.limit_descriptors(Limit { soft: hard, hard })?;
            self.before = Some(Limit { soft, hard });
        }
        Ok(())
    }

    fn limit_descriptors(&mut self, limits: Limit) -> Result<(), BodyError> {
        let inside = self.first()?;
        let mut batch = inside.batch();
        let limit = batch.put(&[limits.soft.to_le_bytes(), limits.hard.to_le_bytes()].concat());
        let which = u64::from(libc::RLIMIT_NOFILE);
        batch.must("limiting descriptors", libc::SYS_prlimit64, [0, which, limit, 0, 0, 0]);
        inside.run(&batch)?;
        Ok(())
    }

    /// Sets the limit back.
    pub(super) fn allow_as_before(&mut self) -> Result<(), BodyError> {
        self.more = None;
        self.before.take().map_or(Ok(()), |before| self.limit_descriptors(before))
    }

    /// Holds what every descriptor will be, at numbers that nobody wants, and no higher than need
    /// be. What the deputy has open already is used.
    pub fn take_descriptors(&mut self, pid: i32) -> Result<(), BodyError> {
        os::fault::at("take descriptors")?;
        let DeputyRestore { image, deputy, given, .. } = self;
        checkpoint::settle_memories(deputy.first().ok_or(BodyError::Exited)?, image, &given.windows)?;
        let given = self.given.clone();
        let present: BTreeSet<i32> = os::process::descriptors(pid)?.into_iter().collect();
        let mut shown: BTreeMap<u32, i32> = BTreeMap::new();
        let mut moved: Vec<(i32, i32)> = Vec::new();
        for descriptor in &self.image.descriptors {
            let fd = descriptor.fd;
            let source = match descriptor.opened {
                Opened::Home(home) if present.contains(&home) => home,
                Opened::Home(home) => {
                    return Err(BodyError::NotMigratable(format!("descriptor {home} is not open at home")));
                }
                Opened::Made(object) => given.object(object),
                // The deputy still has what the program took along: the same open file, with its
                // locks.
                Opened::File { file, .. } => *shown.entry(file).or_insert_with(|| {
                    let opened = given.file(file);
                    let is_anew = !self.kept.contains_key(&file) && !self.locks.is_open(file);
                    if is_anew && is_same(pid, fd, opened) { fd } else { opened }
                }),
            };
            // Those that are not at their number already.
            if source != fd {
                moved.push((fd, source));
            }
        }
        let wanted = self.image.descriptors.iter().map(|d| d.fd);
        let aside = checkpoint::free_numbers(present.iter().copied().chain(wanted), self.image.descriptors.len());
        let inside = self.first()?;
        let mut batch = inside.batch();
        for (_, from) in &moved {
            let args = [*from as u64, libc::F_DUPFD_CLOEXEC as u64, aside as u64, 0, 0, 0];
            batch.must("duplicating a descriptor", libc::SYS_fcntl, args);
        }
        let copies = inside.run(&batch)?;
        self.copies = moved.into_iter().map(|(fd, _)| fd).zip(copies.into_iter().map(|copy| copy as i32)).collect();
        Ok(())
    }

    /// Every descriptor at its number; all else of the deputy is closed.
    pub(super) fn place_descriptors(&mut self, room: &Room, pid: i32) -> Result<(), BodyError> {
        let wanted: BTreeMap<i32, (Opened, bool)> =
            self.image.descriptors.iter().map(|d| (d.fd, (d.opened, d.close_on_exec))).collect();
        let last = os::process::descriptors(pid)?.into_iter().max().unwrap_or(0);
        let copies = std::mem::take(&mut self.copies);
        let inside = self.first()?;
        let mut batch = inside.batch();
        for (fd, copy) in copies {
            let args = [copy as u64, fd as u64, libc::O_CLOEXEC as u64, 0, 0, 0];
            batch.must("placing a descriptor", libc::SYS_dup3, args);
            // Signals name the number by which they were asked for (F_SETSIG in fcntl(2)), which
            // was the deputy's.
            let flags = os::process::fd_info(pid, copy)?.flags;
            for flags in [flags & !libc::O_ASYNC, flags].into_iter().filter(|_| flags & libc::O_ASYNC != 0) {
                batch.may(libc::SYS_fcntl, [fd as u64, libc::F_SETFL as u64, flags as u64, 0, 0, 0]);
            }
        }
        let mut from = 0;
        for fd in wanted.keys().copied().chain([last + 1]) {
            if from < fd {
                batch.must(
                    "closing what is the deputy's",
                    libc::SYS_close_range,
                    [from as u64, fd as u64 - 1, 0, 0, 0, 0],
                );
            }
            from = fd + 1;
        }
        for (fd, (opened, close_on_exec)) in &wanted {
            let flags = if *close_on_exec { libc::FD_CLOEXEC as u64 } else { 0 };
            batch.must("placing a descriptor", libc::SYS_fcntl, [*fd as u64, libc::F_SETFD as u64, flags, 0, 0, 0]);
            if let Opened::File { offset, .. } = opened {
                batch.may(libc::SYS_lseek, [*fd as u64, *offset, libc::SEEK_SET as u64, 0, 0, 0]);
            }
        }
        inside.run(&batch)?;
        let DeputyRestore { image, deputy, edges, .. } = self;
        let inside = deputy.first().ok_or(BodyError::Exited)?;
        let quiet = checkpoint::watch_again(inside, image)?;
        checkpoint::watch_anew(inside, &edges.missed(room, image, quiet))
    }
}
