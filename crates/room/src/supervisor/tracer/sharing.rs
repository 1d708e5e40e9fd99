//! A body that leaves, and has open files in common with others: first these become home's. All who
//! have them stand still meanwhile; then each has a stand-in in their place, and the body leaves as
//! any other does. Should it stay after all, nobody notices.

use crate::sandbox::spares::Spare;
use crate::state::streams::NewStream;
use crate::supervisor::sharers::common_files::{CommonFileKind, CommonOpenFile, Commons, refusal};
use crate::supervisor::sharers::watched::Watch;
use crate::supervisor::tracer::Tracer;
use crate::supervisor::tracer::fstat_filters::{ToShow, show};
use crate::supervisor::tracer::injected::with_inside;
use crate::supervisor::tracer::state::departing::{Departure, DepartureState, STOPPED, Takeover};
use crate::supervisor::{memory_group as relatives, sharers};
use checkpoint::BodyError;
use os::inject::Inside;
use os::pidfd::PidFd;
use os::ptrace::TraceError;
use room_protocol::message::{Common, CommonFile, Family, LockedFile, StandinId};
use room_protocol::{Refusal, ToHome};
use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::sync::Arc;

impl Tracer {
    /// All threads of a body that is to leave stand still, or of one that has files in common with
    /// it: goes on if all do.
    pub fn check_family(&mut self, leader: i32) {
        if let Err(e) = self.find_locked(leader) {
            return self.stay_for(leader, refusal(&e));
        }
        loop {
            let (sought, passing) = match self.departing.states.get(&leader) {
                Some(DepartureState::Standing(_, going)) if going.asked.is_none() => {
                    (going.sought(), going.passing.clone())
                }
                _ => return,
            };
            let found =
                sharers::find(&self.room, leader, &sought).and_then(|commons| Ok((commons, self.family_of(leader)?)));
            let (commons, family) = match found {
                Ok(found) => found,
                Err(e) => return self.stay_for(leader, refusal(&e)),
            };
            let others: BTreeSet<i32> = commons.others.union(&family).copied().collect();
            if let Some(why) = passing.and_then(|passing| passing.lacks(leader, &commons)) {
                return self.stay_for(leader, commons.trouble.unwrap_or(why));
            }
            if others.is_empty() && commons.files.is_empty() && commons.trouble.is_none() {
                return self.leave_alone(leader);
            }
            let (stopped, first) = match self.departing.states.get(&leader) {
                Some(DepartureState::Standing(_, going)) => (going.stopped, going.family),
                _ => return,
            };
            if stopped {
                return self.stay_for(leader, STOPPED);
            }
            let mut new = false;
            for pid in &others {
                match self.pause_for(*pid, leader, first) {
                    Ok(is_paused_now) => new |= is_paused_now,
                    Err(why) => return self.stay_for(leader, why),
                }
            }
            let stands = |pid: &i32| matches!(self.departing.states.get(pid), Some(DepartureState::Standing(..)));
            if !others.iter().all(stands) {
                return;
            }
            // Who stands at once may have changed what it has in between.
            if new {
                continue;
            }
            self.bind(leader, &family);
            return match commons.trouble {
                Some(why) => self.stay_for(leader, why),
                None if commons.files.is_empty() => self.leave_alone(leader),
                None => self.ask(leader, commons),
            };
        }
    }

    /// Has a body stand still that has files or memory in common with `leader`; `first` says with
    /// whom that one leaves. Returns whether the body ran until now.
    fn pause_for(&mut self, pid: i32, leader: i32, first: Family) -> Result<bool, Refusal> {
        match self.departing.states.get(&pid) {
            None if self.stops.is_stopped(pid) => {
                let words = format!("process {pid} has an open file or memory in common with it: {STOPPED}");
                Err(words.as_str().into())
            }
            None if self.bodies.is_running(pid) && !self.dying.holds(pid) && !self.unsupported_calls.holds(pid) => {
                if let Some(other) = relatives::begetter(&self.room, pid) {
                    // If it is that one itself, waiting is in vain.
                    return Err(Refusal { retryable: other != leader, ..at_wrong_moment(pid) });
                }
                self.pause(pid, leader);
                Ok(true)
            }
            Some(DepartureState::Stopping(_, going) | DepartureState::Standing(_, going))
                if going.leader == Some(leader) =>
            {
                Ok(false)
            }
            // It comes with the same one, later.
            Some(DepartureState::Standing(_, going)) if going.leader.is_some_and(|l| first == Family::With(l)) => {
                Ok(false)
            }
            _ => Err(at_wrong_moment(pid)),
        }
    }

    /// The deputy of this process is stopped: whoever waits for it to stand still waits no longer.
    pub fn stops_for_another(&mut self, pid: i32) {
        if matches!(self.departing.states.get(&pid), Some(DepartureState::Stopping(_, going)) if going.leader.is_some())
        {
            self.stay_for(pid, STOPPED);
        }
    }

    /// It leaves, or has passed what it is to pass; with one that leaves will those that share
    /// memory with it, if any do.
    fn leave_alone(&mut self, pid: i32) {
        if matches!(self.departing.states.get(&pid), Some(DepartureState::Standing(_, going)) if going.passing.is_some())
        {
            return self.passed(pid);
        }
        if let Some(DepartureState::Standing(threads, going)) = self.departing.states.remove(&pid) {
            self.let_go_but(pid, &going.relatives);
            self.all_stopped(pid, threads, going);
        }
    }

    /// Those that stand still for this one go on.
    pub fn let_go(&mut self, leader: i32) {
        self.departing.memory_groups.forget(leader);
        self.let_go_but(leader, &[]);
    }

    fn let_go_but(&mut self, leader: i32, kept: &[i32]) {
        let of = |going: &Departure| going.leader == Some(leader);
        let mut waiting = Vec::new();
        for (pid, state) in &self.departing.states {
            if let DepartureState::Stopping(_, going) | DepartureState::Standing(_, going) = state
                && of(going)
                && !kept.contains(pid)
            {
                waiting.push(*pid);
            }
        }
        waiting.into_iter().for_each(|pid| self.stay(pid));
    }

    fn ask(&mut self, leader: i32, commons: Commons) {
        if let Err(e) = os::fault::at("ask there") {
            return self.stay_for(leader, refusal(&e.into()));
        }
        let locked = match self.departing.states.get(&leader) {
            Some(DepartureState::Standing(_, going)) => going.locked.clone().unwrap_or_default(),
            _ => return,
        };
        let mut asked = Takeover { files: Vec::new(), streams: Vec::new(), watches: commons.watches };
        let mut told = Vec::new();
        for held in commons.files {
            let spare = match held.what {
                CommonFileKind::Named(..) => self.room.spares.take_for_file(),
                CommonFileKind::PipeEnd(..) | CommonFileKind::PairEnd(..) => self.room.spares.take(),
                CommonFileKind::Stream(standin) | CommonFileKind::Standin(standin) => {
                    match self.exchange(standin, held, &mut asked) {
                        Ok(()) => continue,
                        Err(why) => return self.stay_for(leader, why.as_str()),
                    }
                }
            };
            let Some(Spare { standin, file }) = spare else {
                return self.stay_for(leader, "there is no stand-in left for a file that it has in common with others");
            };
            if held.flags & libc::O_NONBLOCK != 0
                && let Err(e) = os::fds::set_nonblocking(file.as_fd(), true)
            {
                tracing::warn!("{e}");
            }
            if let CommonFileKind::Named(_, offset) = held.what {
                let at = rustix::fs::SeekFrom::Start(offset);
                rustix::fs::seek(&file, at).map_or_else(|e| tracing::warn!("a stand-in's offset: {e}"), drop);
                self.room.standins.files.begins(standin, offset);
            }
            self.room.standins.set_timed(standin, matches!(held.what, CommonFileKind::PairEnd(_, _, true)));
            told.extend(common(standin, &held, &locked));
            asked.files.push((standin, Arc::new(file), held));
        }
        if let Some(DepartureState::Standing(_, going)) = self.departing.states.get_mut(&leader) {
            going.asked = Some(asked);
            if told.is_empty() {
                return self.share(leader, Ok(Vec::new()));
            }
            let (pid, files, pipes, pairs) = (leader, told, commons.pipes, commons.pairs);
            self.room.tell(&match going.passing {
                Some(_) => ToHome::Passes { pid, files, pipes, pairs },
                None => ToHome::Share { pid, files, pipes, pairs },
            });
        }
    }

    /// Home has answered: it has the files, under these numbers.
    pub fn share(&mut self, leader: i32, result: Result<Vec<(i32, StandinId, i32)>, Refusal>) {
        let asked = match self.departing.states.get_mut(&leader) {
            Some(DepartureState::Standing(_, going)) => going.asked.take(),
            // It was called off.
            _ => return,
        };
        let (Some(mut asked), Ok(numbers)) = (asked, &result) else {
            return self.stay_for(leader, result.err().unwrap_or_else(|| "home answered unasked".into()));
        };
        if let Err(e) = os::fault::at("share there") {
            return self.stay_for(leader, refusal(&e.into()));
        }
        for (pid, standin, fd) in numbers {
            if let Some(guest) = self.room.guests().get_mut(*pid) {
                guest.numbers.insert(*standin, *fd);
            }
        }
        self.end_streams(&asked);
        let mut family: Vec<i32> = asked.files.iter().flat_map(|(_, _, held)| &held.places).map(|p| p.pid).collect();
        family.sort_unstable();
        family.dedup();
        for pid in family {
            if let Err(e) = self.replace_in(pid, &asked)
                && !matches!(e, BodyError::Exited)
            {
                tracing::error!("process {pid} did not get its stand-ins: {e}");
                self.kill(pid);
            }
        }
        self.open_streams(&mut asked);
        self.leave_alone(leader);
    }

    /// Adds a stream that becomes a stand-in again, or a stand-in that becomes a stream.
    fn exchange(&self, standin: StandinId, held: CommonOpenFile, asked: &mut Takeover) -> Result<(), String> {
        const GONE: &str = "an open file of its is gone";
        let file = match held.what {
            CommonFileKind::Stream(_) => self.room.home.streams.file(standin).ok_or(GONE)?,
            _ => {
                let place = held.places.first().ok_or(GONE)?;
                let file = PidFd::open(place.host.0).and_then(|pidfd| pidfd.get_fd(place.fd));
                let new = NewStream::new(standin).map_err(|e| e.to_string())?;
                let guests_end = new.guests_end.clone();
                asked.streams.push((new, Arc::new(file.map_err(|e| e.to_string())?)));
                guests_end
            }
        };
        let flags = held.flags & libc::O_NONBLOCK;
        os::fds::set_flags(file.as_fd(), libc::O_NONBLOCK, flags).map_err(|e| e.to_string())?;
        asked.files.push((standin, file, held));
        Ok(())
    }

    /// Puts the stand-ins into a body's table.
    fn replace_in(&mut self, pid: i32, asked: &Takeover) -> Result<(), BodyError> {
        let host = self.room.guests().host(pid).ok_or(BodyError::Exited)?;
        let Some(DepartureState::Standing(threads, going)) = self.departing.states.get_mut(&pid) else {
            return Err(BodyError::Exited);
        };
        let at = threads.iter().position(|t| t.tid() == host).ok_or(BodyError::Exited)?;
        let slept = going.slept.get(&host.0).copied().unwrap_or_default();
        let stopped = threads.swap_remove(at);
        let room = self.room.clone();
        let watches: Vec<Watch> = asked.watches.iter().filter(|watch| watch.pid == pid).copied().collect();
        let (stopped, replaced) = with_inside(stopped, slept, |inside, at| {
            watches.iter().try_for_each(|watch| control(inside, at, libc::EPOLL_CTL_DEL, watch))?;
            for (_, file, held) in &asked.files {
                let numbers: Vec<_> = held.places.iter().filter(|p| p.pid == pid).collect();
                if numbers.is_empty() {
                    continue;
                }
                room.filtering.offer(host, file.clone());
                let (nr, args) = os::seccomp::asking_call();
                let taken = inside.must("taking a stand-in", nr, args);
                room.filtering.end(host);
                let taken = taken?;
                for place in numbers {
                    let flags = if place.close_on_exec { libc::O_CLOEXEC as u64 } else { 0 };
                    inside.must("placing a stand-in", libc::SYS_dup3, [taken, place.fd as u64, flags, 0, 0, 0])?;
                }
                inside.must("closing a stand-in", libc::SYS_close, [taken, 0, 0, 0, 0, 0])?;
                room.filtering.begin(host);
                let fds = held.places.iter().filter(|p| p.pid == pid).map(|p| p.fd);
                let shown = fds
                    .map(|fd| show(&room, inside, at, ToShow { pid, fd: Some(fd), has_offset: has_offset(held) }))
                    .collect::<Result<Vec<_>, _>>();
                room.filtering.end(host);
                shown?;
            }
            watches.iter().try_for_each(|watch| control(inside, at, libc::EPOLL_CTL_ADD, watch))
        })?;
        if let Some(DepartureState::Standing(threads, _)) = self.departing.states.get_mut(&pid) {
            threads.push(stopped);
        }
        Ok(replaced?)
    }
}

/// epoll_ctl(2). `at`: where nothing of the process' own lies. Another who has the same instance
/// may have done it already.
fn control(inside: &mut Inside, at: u64, what: i32, watch: &Watch) -> Result<(), TraceError> {
    let Watch { epoll, watched, .. } = watch;
    if what == libc::EPOLL_CTL_ADD {
        // The warden then knows the file's readiness when epoll_ctl(2) asks (`standins.rs`,
        // adds_to_epoll).
        inside.memory().write(at, &checkpoint::poll_of(watched.fd))?;
        inside.call(libc::SYS_poll, [at, 1, 0, 0, 0, 0])?;
    }
    inside.memory().write(at, &checkpoint::epoll_event(watched))?;
    let done = inside.call(libc::SYS_epoll_ctl, [*epoll as u64, what as u64, watched.fd as u64, at, 0, 0])?;
    let is_done = [0, -i64::from(libc::ENOENT), -i64::from(libc::EEXIST)].contains(&done);
    is_done.then_some(()).ok_or_else(|| {
        let doing = format!("having epoll instance {epoll} watch descriptor {}", watched.fd);
        os::Error::new(doing, std::io::Error::from_raw_os_error(done.saturating_neg() as i32)).into()
    })
}

fn at_wrong_moment(pid: i32) -> Refusal {
    let why = format!("it has an open file or memory in common with process {pid}, which comes or goes");
    Refusal { why, retryable: true }
}

fn has_offset(held: &CommonOpenFile) -> bool {
    matches!(held.what, CommonFileKind::Named(..))
}

/// Describes an open file for home; `None` if home has it already.
fn common(standin: StandinId, held: &CommonOpenFile, locked: &[LockedFile]) -> Option<Common> {
    let mut holders: Vec<i32> = held.places.iter().map(|p| p.pid).collect();
    holders.dedup();
    let flags = held.flags & !libc::O_CLOEXEC;
    let fd = held.places.first().map_or(-1, |p| p.fd);
    let what = match &held.what {
        CommonFileKind::Named(file, offset) => CommonFile::Named {
            path: file.path.clone(),
            inode: file.inode,
            flags: file.flags,
            removed: file.removed,
            offset: *offset,
            fd,
            locked: locked.iter().find(|file| file.fd == fd).map(|file| file.at_home),
        },
        CommonFileKind::PipeEnd(pipe, writes) => CommonFile::PipeEnd { pipe: *pipe as u32, writes: *writes, flags },
        CommonFileKind::PairEnd(pair, second, _) => CommonFile::PairEnd { pair: *pair as u32, second: *second, flags },
        CommonFileKind::Stream(_) | CommonFileKind::Standin(_) => return None,
    };
    Some(Common { standin, holders, what })
}
