//! A process comes to this room from another one of this home: the steward of that one drives
//! ([`crate::migration::peer::hand_over`]), and gives the deputy when the body stands here.

use crate::deputy::job::{Job, Purpose};
use crate::deputy::proof::DeputyProof;
use crate::deputy::record::{Deputy, Phase};
use crate::deputy::{channel, rights};
use crate::describe::place;
use crate::migration::error::MoveError;
use crate::migration::peer::steward_link::StewardLink;
use crate::migration::session::{CALLED_OFF, MigrationSession};
use crate::room::event::RoomEvent;
use crate::room::peer::{Given, Handover, StewardMessage};
use crate::room::state::Room;
use checkpoint::{BodyError, preliminary};
use image::{File, Image, Object, Opened};
use migration_plan::Pace;
use migration_plan::protocol::{HomeCommand, Side};
use os::pidfd::PidFd;
use os::process::{self, FdInfo};
use room_protocol::ToRoom;
use room_protocol::message::onward::{self, Outline, Ticket};
use room_protocol::message::{Arrival, Call, Descriptor, Place, Program, StandinId};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Below it lie what the room's porter has open.
const ABOVE_PORTERS: i32 = 64;
/// Each try has a talk of its own, with a number: that an earlier one has ended may be told when
/// the next has begun.
static TALKS: AtomicU32 = AtomicU32::new(0);

/// The room that brings a process.
pub struct Bringer {
    /// The ticket that the room shows to be let in.
    pub ticket: Ticket,
    /// The node that hosts that room.
    pub from: String,
}

/// Has process `pid` come, which the bringer hosts and holds what `outline` says; speaks over
/// `socket` until that is over.
pub fn receive(room: &Arc<Room>, socket: &OwnedFd, pid: i32, bringer: Bringer, outline: &[u8]) {
    let Ok(socket) = socket.try_clone() else { return };
    let talk = StewardLink::over(socket);
    let refuse = |e: &MoveError| {
        tracing::info!("process {pid} does not come from another node: {e}");
        // Who has gone does not hear it.
        let why = e.to_string();
        let _ = talk.say(&if e.is_retryable() {
            StewardMessage::Retryable { why }
        } else {
            StewardMessage::Failed { why }
        });
    };
    let (this, outline, image) = match begin(room, &talk, pid, outline) {
        Ok(begun) => begun,
        Err(e) => return refuse(&e),
    };
    let came = this.make_empty(&outline, &image, bringer).and_then(|(standins, placed)| {
        talk.say(&StewardMessage::Prepared)?;
        this.await_standing(&talk)?;
        this.take(&standins, &placed)
    });
    match came {
        Ok(follows) => {
            os::fault::past("resumed");
            // Who has gone does without.
            let _ = talk.say(&StewardMessage::Taken);
            os::fault::past("taken");
            this.tell_when_it_runs(&talk, follows);
        }
        Err(e) => {
            // Before the move ends: a steward without a room may end with it.
            refuse(&e);
            this.call_off_coming();
        }
    }
}

fn begin(
    room: &Arc<Room>,
    talk: &StewardLink,
    pid: i32,
    outline: &[u8],
) -> Result<(MigrationSession, Outline, Image), MoveError> {
    if room.table().deputies.contains_key(&pid) {
        return Err(MoveError::Moving);
    }
    let outline: Outline = postcard::from_bytes(outline).map_err(|e| MoveError::Room(e.to_string()))?;
    let image = Image::decode(&outline.image).map_err(|e| MoveError::Room(e.to_string()))?;
    let this = MigrationSession::begin(room, pid, Side::Beyond, Pace::default(), Arc::default())?;
    this.talk.set(TALKS.fetch_add(1, Ordering::Relaxed));
    talk.listen(room, pid, this.talk.get())?;
    Ok((this, outline, image))
}

/// Numbers of the deputy's descriptors that stay at home, and their stand-ins here.
type Standins = BTreeMap<i32, StandinId>;

impl MigrationSession {
    /// Has the room make an empty body that holds what the outline says, for whom the other room
    /// brings.
    fn make_empty(
        &self,
        outline: &Outline,
        image: &Image,
        bringer: Bringer,
    ) -> Result<(Standins, Vec<Descriptor>), MoveError> {
        os::fault::at("make empty")?;
        check_files(&image.files)?;
        let standins = self.number(image)?;
        let placed = self.place_empty(outline, image, bringer, &standins);
        if placed.is_err() {
            // No body has them, whose end would tell of them.
            standins.values().for_each(|standin| self.room.release(*standin));
        }
        Ok((standins, placed?))
    }

    /// Has the room make the body; what it was told to open.
    fn place_empty(
        &self,
        outline: &Outline,
        image: &Image,
        bringer: Bringer,
        standins: &Standins,
    ) -> Result<Vec<Descriptor>, MoveError> {
        let place = describe(self.pid, outline, image, standins)?;
        let pidfd = PidFd::open(self.pid)?;
        for (fd, standin) in standins {
            // What it watches, it asks about as soon as it watches it again.
            if is_watched(image, *fd) {
                self.room.hold(*standin, pidfd.get_fd(*fd)?);
            }
        }
        self.room.borrow_rights(self.pid)?;
        self.room.tell(&ToRoom::Onward {
            pid: self.pid,
            order: onward::Order::Admit { ticket: bringer.ticket, from: bringer.from },
        });
        let placed = place.descriptors.clone();
        self.room.tell(&ToRoom::Place(Box::new(place)));
        self.await_placed()?;
        self.lay_out_ahead(image)?;
        Ok(placed)
    }

    /// Has the room lay out the memory as it is now, so that at the stop only changes need work.
    fn lay_out_ahead(&self, image: &Image) -> Result<(), MoveError> {
        if image.areas.is_empty() {
            return Ok(());
        }
        self.send_image(&preliminary(self.pid, image.clone()))?;
        self.room.tell(&ToRoom::LayOut { pid: self.pid, stocked: false, sibling: None });
        self.await_word(|heard| match heard {
            RoomEvent::LaidOut(result) => Some(result),
            _ => None,
        })
    }

    /// Stand-ins for what stays at home: one for each open file.
    fn number(&self, image: &Image) -> Result<Standins, MoveError> {
        let mut found = Standins::new();
        for descriptor in &image.descriptors {
            let Opened::Home(fd) = descriptor.opened else { continue };
            if found.contains_key(&fd) {
                continue;
            }
            let same = found.iter().find(|(other, _)| process::same_file(self.pid, **other, fd)).map(|(_, s)| *s);
            let standin = match same {
                Some(same) => same,
                None => {
                    let flags = process::fd_info(self.pid, fd)?.flags;
                    place::standin_for(self.pid, fd, flags, self.next_standin())
                }
            };
            found.insert(fd, standin);
        }
        Ok(found)
    }

    fn next_standin(&self) -> StandinId {
        let mut table = self.room.table();
        table.last_standin += 1;
        StandinId(table.last_standin)
    }

    fn await_word(&self, wanted: impl Fn(RoomEvent) -> Option<Result<(), String>>) -> Result<(), MoveError> {
        self.expect(|heard| match heard {
            RoomEvent::Silence(talk) if talk == self.talk.get() => Some(Err(CALLED_OFF.into())),
            other => wanted(other),
        })
    }

    fn await_standing(&self, talk: &StewardLink) -> Result<(), MoveError> {
        self.await_word(|heard| match heard {
            RoomEvent::Rebuilt(result) => Some(result),
            _ => None,
        })?;
        os::fault::at("stands")?;
        talk.say(&StewardMessage::Stands)
    }

    /// The commit point: from here on only the end of the process can undo it. By which loan pages
    /// of it follow, if any do.
    fn take(&self, standins: &Standins, placed: &[Descriptor]) -> Result<Option<u32>, MoveError> {
        let given = loop {
            match self.hear()? {
                RoomEvent::Given(given) => break *given,
                RoomEvent::Silence(talk) if talk == self.talk.get() => {
                    return Err(MoveError::Silent("the room that it leaves has called it off".into()));
                }
                _ => {}
            }
        };
        os::fault::at("take")?;
        self.has_room()?;
        let closed = unused(&given.handover, standins);
        let (changed, follows) = (given.handover.changed.clone(), given.handover.follows);
        let mut signals = Vec::new();
        for (tid, info) in &given.handover.signals {
            let info: [u8; 128] = info.as_slice().try_into().map_err(|_| MoveError::Room("an odd signal".into()))?;
            signals.push((*tid, info));
        }
        let deputy = deputy(self.pid, given, standins, &signals)?;
        let pidfd = deputy.pidfd.clone();
        let mut protocol = self.protocol.get();
        protocol.taken();
        self.protocol.set(protocol);
        for (tid, info) in signals {
            self.room.tell(&ToRoom::Signal { pid: self.pid, tid, info: info.to_vec() });
        }
        if let Err(e) = self.room.adopt(self.pid, deputy) {
            tracing::error!("process {} cannot be watched: {e}: it is killed", self.pid);
            // One that is gone is gone.
            let _ = pidfd.kill(libc::SIGKILL);
        }
        let flags = place::changed_flags(self.pid, placed);
        flags.unwrap_or_default().iter().for_each(|flags| self.room.tell(flags));
        let changed: BTreeSet<StandinId> = changed.iter().filter_map(|fd| standins.get(fd)).copied().collect();
        self.room.notice(changed.into_iter().collect());
        self.decide(HomeCommand::Resume, &ToRoom::Resume { pid: self.pid })?;
        self.room.return_rights(self.pid);
        if let Some(deputy) = self.room.table().deputies.get_mut(&self.pid) {
            closed.into_iter().for_each(|fd| close(deputy, fd));
        }
        Ok(follows)
    }

    /// Waits until the process runs, and until all its memory is there should some follow.
    fn tell_when_it_runs(&self, talk: &StewardLink, follows: Option<u32>) {
        let mut runs = false;
        while !runs || follows.is_some_and(|loan| self.loans.over(loan).is_none()) {
            match self.hear() {
                Ok(RoomEvent::Runs(then)) => {
                    let ago_ns = i64::try_from(then.elapsed().as_nanos()).unwrap_or(i64::MAX);
                    let monotonic_ns = os::namespace::clock_ns(libc::CLOCK_MONOTONIC) - ago_ns;
                    // Who has gone does without.
                    let _ = talk.say(&StewardMessage::Runs { monotonic_ns });
                    self.begin_residue();
                    runs = true;
                }
                Ok(_) => {}
                Err(e) if self.room.is_lost() || (!runs && follows.is_none()) => {
                    return tracing::warn!("process {}: {e}", self.pid);
                }
                // A way that stands still is given up by the rooms, after a while. Until then
                // whoever has its pages must not hear that nobody waits for them.
                Err(_) => {}
            }
        }
        if follows.is_some_and(|loan| self.loans.over(loan).is_some_and(|result| result.is_ok())) {
            self.room.forget_memory(self.pid, &[]);
        }
    }

    fn call_off_coming(&self) {
        self.room.return_rights(self.pid);
        if self.decide(HomeCommand::Release, &ToRoom::Release { pid: self.pid }).is_ok() {
            let _ = self.expect(|heard| matches!(heard, RoomEvent::Left).then_some(Ok(())));
        }
    }
}

/// Checks that the room will open by these names what the process has open.
fn check_files(files: &[File]) -> Result<(), BodyError> {
    for file in files {
        let path = Path::new(OsStr::from_bytes(&file.path));
        // Home's own link to a file that stays there.
        if path.starts_with("/proc/self/fd") {
            return Err(BodyError::NotMigratable("it has a file mapped that stays at home".into()));
        }
        let inode = |found: std::io::Result<std::fs::Metadata>| found.map_or(0, |m| m.ino());
        // What only names a file may be a link.
        let is_it = || inode(path.metadata()) == file.inode || inode(path.symlink_metadata()) == file.inode;
        let same = file.inode == 0 || path.starts_with("/proc") || is_it();
        if file.removed || !same {
            return Err(BodyError::NotMigratable(format!(
                "its file {} has no name, or another has it now",
                path.display()
            )));
        }
    }
    Ok(())
}

/// An epoll instance of the body watches a descriptor that is this one at home.
fn is_watched(image: &Image, at_home: i32) -> bool {
    let shown = |fd: i32| image.descriptors.iter().any(|d| d.fd == fd && d.opened == Opened::Home(at_home));
    image.objects.made.iter().any(|made| match &made.object {
        Object::Watch(watched) => watched.iter().any(|w| shown(w.fd)),
        _ => false,
    })
}

/// Describes the process to the room, which makes the empty body.
fn describe(pid: i32, outline: &Outline, image: &Image, standins: &Standins) -> Result<Place, MoveError> {
    let argv = process::arguments(pid)?.split(|b| *b == 0).filter(|a| !a.is_empty()).map(<[u8]>::to_vec).collect();
    let executed = image.process.exe.and_then(|exe| image.files.get(exe as usize));
    let path = executed.map(|file| file.path.clone()).unwrap_or_default();
    let mut placed = place::identity(pid, Program { path, argv, envp: Vec::new() })?;
    placed.cwd.clone_from(&image.process.cwd);
    (placed.umask, placed.ignored) = (image.process.umask, outline.ignored);
    for descriptor in &image.descriptors {
        if let Opened::Home(at_home) = descriptor.opened
            && let Some(standin) = standins.get(&at_home)
        {
            let FdInfo { flags, offset, .. } = process::fd_info(pid, at_home)?;
            let (terminal, timed) = (place::may_be_terminal(pid, at_home), place::is_timed(pid, at_home));
            let (fd, standin) = (descriptor.fd, *standin);
            let end = place::end_of(pid, at_home, flags, standin);
            placed.descriptors.push(Descriptor { fd, at_home, standin, flags, terminal, timed, offset, end });
        }
    }
    let taken = image.descriptors.iter().map(|d| d.fd);
    let files_at = checkpoint::free_numbers_from(ABOVE_PORTERS, taken, image.files.len() + image.objects.made.len());
    let files = image.files.iter().map(|f| place::to_open(f, f.path.clone())).collect();
    let descriptors_max =
        placed.limits.get(libc::RLIMIT_NOFILE as usize).map_or((u64::MAX, u64::MAX), |limits| *limits);
    placed.arrival = Some(Arrival {
        files,
        files_at,
        descriptors_max,
        child_flags: outline.child_flags,
        capabilities: placed.credentials.capabilities,
    });
    Ok(placed)
}

/// Descriptors of the deputy that its body does not have any more: others in the room that it left
/// may.
fn unused(handover: &Handover, standins: &Standins) -> Vec<i32> {
    let all = handover.standins.iter().filter(|list| !list.iter().any(|fd| standins.contains_key(fd)));
    all.flatten().copied().collect()
}

/// The deputy, as this room has it.
fn deputy(
    pid: i32,
    given: Given,
    standins: &Standins,
    signals: &[(Option<i32>, [u8; 128])],
) -> Result<Deputy, MoveError> {
    let Given { handover, pidfd, channels } = given;
    let argv = process::arguments(pid)?.split(|b| *b == 0).filter(|a| !a.is_empty()).map(<[u8]>::to_vec).collect();
    let program = Program { path: handover.path.clone(), argv, envp: Vec::new() };
    let mut threads: HashMap<i32, (OwnedFd, Option<i32>)> =
        handover.threads.iter().zip(channels).map(|((tid, number), channel)| (*tid, (channel, *number))).collect();
    let (first, number) = threads.remove(&pid).ok_or(BodyError::Exited)?;
    let again = first.as_fd().try_clone_to_owned().map_err(|e| os::Error::new("duplicating a channel", e))?;
    // The steward that gives it away has proven it; here it is only found again.
    let proof = DeputyProof::of_deputy(pid).map_err(BodyError::from)?;
    let mut deputy = Deputy::new(pidfd, proof, program, again);
    deputy.phase = Phase::Away;
    deputy.credentials = rights::credentials(pid)?;
    deputy.add_thread(pid, first, number);
    threads.into_iter().for_each(|(tid, (channel, number))| deputy.add_thread(tid, channel, number));
    for list in &handover.standins {
        let standin = list.iter().find_map(|fd| standins.get(fd));
        standin.into_iter().for_each(|standin| deputy.standins.entry(*standin).or_default().extend(list));
    }
    deputy.refusals = handover.refusals.iter().cloned().collect();
    (deputy.unborn, deputy.calls) = (handover.unborn.clone(), handover.calls);
    deputy.misses = handover.follows.map(|_| pid);
    // The room counts from nothing, too.
    let continued = signals.iter().filter(|(_, info)| i32::from(info[0]) == libc::SIGCONT).count();
    deputy.continued = continued as u32;
    Ok(deputy)
}

fn close(deputy: &mut Deputy, fd: i32) {
    let call = Call::new(libc::SYS_close, [fd as u64, 0, 0, 0, 0, 0]);
    if let Some(packet) = channel::call(&call) {
        deputy.give_soon(Job::new(packet, Purpose::Nothing));
    }
}
