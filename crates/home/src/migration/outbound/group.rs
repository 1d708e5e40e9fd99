//! Processes that share memory leave home together. While they run, the room makes an empty body
//! for each. Then all are stopped; none of them can beget another one any more, and whoever has
//! come to share memory until then is stopped, too. Each is sent as a single process is; the
//! content of a memory goes with the first process that has it. No body runs before the room has
//! rebuilt all. Until then every failure lets all go on at home; from then on each goes on in the
//! room, whatever becomes of the others.

use crate::describe::memory_group::{self, MemoryGroup};
use crate::describe::memory_sharing::MemorySharing;
use crate::describe::snapshot::ProcessSnapshot;
use crate::migration::error::{MoveError, stays_for};
use crate::migration::group_try::GroupTry;
use crate::migration::outbound::commit::ReadyDeputy;
use crate::migration::outbound::departure::{Leaving, Sent, Terms, put_back};
use crate::migration::outbound::edges::Since;
use crate::migration::outbound::prepare::Prepared;
use crate::migration::session::{MigrationSession, has_ended};
use checkpoint::{BodyError, Frozen, Headstart};
use migration_plan::Pace;
use migration_plan::protocol::Side;
use os::areas::Shown;
use os::landlock_probe::{self, LandlockProbe};
use os::pidfd::PidFd;
use room_protocol::ToRoom;
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;

/// The name of this way in reports.
pub const TOGETHER: &str = "together";

/// A process of the group, on its way.
struct Member {
    session: Rc<MigrationSession>,
    pidfd: PidFd,
    probe: Option<LandlockProbe>,
    /// Its empty body, if the room has made one.
    prepared: Option<Prepared>,
}

/// A process of the group that stands still.
struct Stopped {
    member: Member,
    frozen: Frozen,
}

/// A process of the group that was collected.
struct CollectedMember {
    member: Member,
    leaving: Leaving,
}

/// A process of the group whose body is being rebuilt.
struct SentMember {
    member: Member,
    ready: ReadyDeputy,
    since: Since,
}

/// One try to move a group.
struct Departure {
    first: Rc<MigrationSession>,
    pace: Pace,
    group_try: Rc<GroupTry>,
    /// Look at everything anew at the stop.
    carefully: bool,
}

/// Moves the process of this session, and all with which it shares memory, to the room. Gives the
/// sessions of the others. On failure all run where they were.
pub fn leave_together(
    first: &Rc<MigrationSession>,
    pace: Pace,
    carefully: bool,
) -> Result<Vec<Rc<MigrationSession>>, MoveError> {
    let group_try = Rc::new(GroupTry::new(first.room.sessions.next_group_try()));
    let departure = Departure { first: first.clone(), pace, group_try, carefully };
    let left = departure.prepare().and_then(|members| departure.leave(members));
    // The next try, if there is one, begins anew.
    first.sharing.take();
    first.group.take();
    let all = left?;
    first.done("deputies");
    Ok(all.into_iter().filter(|session| session.pid != first.pid).collect())
}

impl Departure {
    /// Has the room make an empty body for each process of the group, which runs.
    fn prepare(&self) -> Result<Vec<Member>, MoveError> {
        let group = MemoryGroup::of(self.first.pid)?;
        let memories = Arc::new(group.memories);
        let mut members = Vec::new();
        for pid in group.members {
            match self.prepare_one(pid, &memories) {
                Ok(member) => members.push(member),
                // One that ends takes nothing along.
                Err(_) if pid != self.first.pid && has_ended(pid) => {}
                Err(e) => {
                    call_off(members);
                    return Err(self.in_words(pid, e));
                }
            }
        }
        self.first.done("prepare");
        Ok(members)
    }

    fn prepare_one(&self, pid: i32, memories: &Arc<HashSet<Shown>>) -> Result<Member, MoveError> {
        let mut member = self.begin(pid, memories)?;
        let prepared = member.session.prepare(None)?;
        if let Err(e) = member.session.lay_out_there(&prepared.observed) {
            member.session.call_off();
            return Err(e);
        }
        member.prepared = Some(prepared);
        Ok(member)
    }

    /// Begins the move of a process of the group.
    fn begin(&self, pid: i32, memories: &Arc<HashSet<Shown>>) -> Result<Member, MoveError> {
        let Departure { first, pace, .. } = self;
        let session = if pid == first.pid {
            first.clone()
        } else {
            os::fault::at("member")?;
            if first.room.table().deputies.contains_key(&pid) {
                return Err(MoveError::Moving);
            }
            let begun = MigrationSession::begin(&first.room, pid, Side::Home, *pace, first.progress.clone())?;
            begun.asker_uid.set(first.asker_uid.get());
            begun.as_root.set(first.as_root.get());
            Rc::new(begun)
        };
        session.sharing.replace(MemorySharing::Group(memories.clone()));
        session.group.replace(Some(self.group_try.clone()));
        let pidfd = PidFd::open(pid).map_err(|e| if has_ended(pid) { BodyError::Exited } else { e.into() })?;
        let probe =
            landlock_probe::is_needed().then(|| first.room.watchdog.witness(&os::process::status(pid)?)).transpose()?;
        Ok(Member { session, pidfd, probe, prepared: None })
    }

    /// Stops all, sends them, and lets them go on in the room.
    fn leave(&self, members: Vec<Member>) -> Result<Vec<Rc<MigrationSession>>, MoveError> {
        let stopped = self.stop(members)?;
        let collected = self.collect(stopped)?;
        let sent = self.send(collected)?;
        self.commit(sent)
    }

    /// Stops all processes of the group, and those that have come to it meanwhile.
    fn stop(&self, members: Vec<Member>) -> Result<Vec<Stopped>, MoveError> {
        let mut stopped = Vec::new();
        let mut running = members;
        loop {
            while let Some(member) = running.pop() {
                let pid = member.session.pid;
                let frozen = self.first.check_wanted().and_then(|()| {
                    os::fault::at("freeze")?;
                    Ok(checkpoint::freeze(pid)?)
                });
                match frozen {
                    Ok(frozen) => stopped.push(Stopped { member, frozen }),
                    Err(_) if pid != self.first.pid && has_ended(pid) => member.session.call_off(),
                    Err(e) => {
                        running.push(member);
                        return self.thaw(stopped, running, self.in_words(pid, e));
                    }
                }
            }
            running = match self.find_new(&mut stopped) {
                Ok(new) if new.is_empty() => break,
                Ok(new) => new,
                Err(e) => return self.thaw(stopped, Vec::new(), e),
            };
        }
        let pids: Vec<i32> = stopped.iter().map(|one| one.member.session.pid).collect();
        if let Err(e) = self.check_open_files(&pids) {
            return self.thaw(stopped, Vec::new(), e);
        }
        // The report is that of the first.
        stopped.sort_by_key(|one| (one.member.session.pid != self.first.pid, one.member.session.pid));
        let since = stopped.iter().map(|one| one.frozen.since).min();
        since.into_iter().for_each(|since| self.first.timings.borrow_mut().freeze(since));
        self.first.done("stop");
        Ok(stopped)
    }

    fn check_open_files(&self, pids: &[i32]) -> Result<(), MoveError> {
        match &*self.first.sharing.borrow() {
            MemorySharing::Group(memories) => Ok(memory_group::check_open_files(pids, memories)?),
            MemorySharing::Refused => Ok(()),
        }
    }

    /// Finds processes of the group that still run, and lets go those that share no memory any
    /// more.
    fn find_new(&self, stopped: &mut Vec<Stopped>) -> Result<Vec<Member>, MoveError> {
        let group = MemoryGroup::of(self.first.pid)?;
        let memories = Arc::new(group.memories);
        for left in stopped.extract_if(.., |one| !group.members.contains(&one.member.session.pid)) {
            left.frozen.thaw();
            left.member.session.call_off();
        }
        for one in stopped.iter() {
            one.member.session.sharing.replace(MemorySharing::Group(memories.clone()));
        }
        let is_known = |pid: &i32| stopped.iter().any(|one| one.member.session.pid == *pid);
        let new = group.members.iter().filter(|pid| !is_known(pid));
        let mut begun = Vec::new();
        for pid in new {
            match self.begin(*pid, &memories) {
                Ok(member) => begun.push(member),
                Err(_) if has_ended(*pid) => {}
                Err(e) => {
                    call_off(begun);
                    return Err(self.in_words(*pid, e));
                }
            }
        }
        Ok(begun)
    }

    /// Looks at the stopped processes again, and collects them.
    fn collect(&self, stopped: Vec<Stopped>) -> Result<Vec<CollectedMember>, MoveError> {
        let mut rest = stopped.into_iter();
        let mut collected = Vec::new();
        while let Some(Stopped { mut member, frozen }) = rest.next() {
            let pid = member.session.pid;
            let looked = self.look(&mut member);
            let one = match looked {
                Ok(prepared) => {
                    member.session.collect(frozen, prepared, &mut Headstart::default(), member.probe.as_ref())
                }
                Err(e) => {
                    frozen.thaw();
                    Err(e)
                }
            };
            match one {
                Ok(leaving) => collected.push(CollectedMember { member, leaving }),
                Err(e) => {
                    call_off(vec![member]);
                    let e = self.put_all_back(collected, self.in_words(pid, e));
                    return self.thaw(rest.collect(), Vec::new(), e);
                }
            }
        }
        Ok(collected)
    }

    /// Looks at a stopped process, and has the room make a body for it if none serves.
    fn look(&self, member: &mut Member) -> Result<Prepared, MoveError> {
        let Member { session, pidfd, probe, prepared } = member;
        match prepared.take() {
            Some(mut prepared) => {
                let terms = Terms { pidfd, follow_bytes: u64::MAX, carefully: self.carefully, probe: probe.as_ref() };
                let now = session.look_at_stopped(&mut prepared, None, &mut Headstart::default(), &terms)?;
                Ok(Prepared { observed: now, ..prepared })
            }
            None => {
                session.check_rights()?;
                let now = ProcessSnapshot::of(session.pid, None, false, &session.sharing.borrow())?;
                session.prepare(Some(now))
            }
        }
    }

    /// Sends all, and makes their originals ready to be deputies.
    fn send(&self, collected: Vec<CollectedMember>) -> Result<Vec<SentMember>, MoveError> {
        let mut rest = collected.into_iter();
        let mut sent = Vec::new();
        while let Some(CollectedMember { member, leaving }) = rest.next() {
            let pid = member.session.pid;
            let is_first = pid == self.first.pid;
            let one = if is_first { Ok(()) } else { os::fault::at("member sent") };
            let one = match one {
                Ok(()) => send_one(&member, leaving),
                Err(e) => put_back(leaving.collected, e.into()),
            };
            match one {
                Ok((ready, since)) => sent.push(SentMember { member, ready, since }),
                Err(e) => {
                    call_off(vec![member]);
                    let e = self.put_all_back(rest.collect(), self.in_words(pid, e));
                    return Err(take_all_back(sent, e));
                }
            }
        }
        self.first.done("send");
        Ok(sent)
    }

    /// Waits until the room has rebuilt all bodies; then lets all go on there.
    fn commit(&self, sent: Vec<SentMember>) -> Result<Vec<Rc<MigrationSession>>, MoveError> {
        for SentMember { member, ready, .. } in &sent {
            if let Err(e) = member.session.await_rebuilt(ready) {
                let e = self.in_words(member.session.pid, e);
                return Err(take_all_back(sent, e));
            }
        }
        self.first.done("rebuild there");
        let decided: Vec<_> = sent.iter().map(|one| one.member.session.commit(&one.ready, &one.since)).collect();
        os::fault::past("first of several");
        let mut gone = Vec::new();
        for (SentMember { member, ready, .. }, decided) in sent.into_iter().zip(decided) {
            let Member { session, pidfd, .. } = member;
            match decided.and_then(|()| session.become_deputy(&pidfd, ready, &[])) {
                Ok(()) => gone.push(session),
                // This process ends; the others are there.
                Err(e) => tracing::error!("process {}, which went with {}: {e}", session.pid, self.first.pid),
            }
        }
        Ok(gone)
    }

    /// Lets stopped processes go on, because of this error.
    fn thaw<T>(&self, stopped: Vec<Stopped>, running: Vec<Member>, e: MoveError) -> Result<T, MoveError> {
        let thaw = |Stopped { member, frozen }: Stopped| {
            frozen.thaw();
            member
        };
        let members: Vec<Member> = stopped.into_iter().map(thaw).collect();
        call_off(members);
        call_off(running);
        Err(e)
    }

    /// Lets collected processes go on, because of this error.
    fn put_all_back(&self, collected: Vec<CollectedMember>, e: MoveError) -> MoveError {
        let put = |CollectedMember { member, leaving }: CollectedMember| {
            let back = put_back::<()>(leaving.collected, MoveError::Changed);
            log_lost(&member.session, back);
            member
        };
        let members: Vec<Member> = collected.into_iter().map(put).collect();
        call_off(members);
        e
    }

    /// Says that the whole group stays because of one process.
    fn in_words(&self, pid: i32, e: impl Into<MoveError>) -> MoveError {
        let e = e.into();
        if pid == self.first.pid { e } else { stays_for(pid, e) }
    }
}

/// Sends a collected process, and makes its original ready to be a deputy.
fn send_one(member: &Member, mut leaving: Leaving) -> Result<(ReadyDeputy, Since), MoveError> {
    let session = &member.session;
    match session.send(&mut leaving, &mut Headstart::default(), u64::MAX) {
        Ok(Sent { since, .. }) => Ok((session.prepare_deputy(&member.pidfd, leaving, &[])?, since)),
        Err(e) => put_back(leaving.collected, e),
    }
}

/// Lets processes go on whose bodies were being rebuilt, because of this error.
fn take_all_back(sent: Vec<SentMember>, e: MoveError) -> MoveError {
    let take = |SentMember { member, ready, .. }: SentMember| {
        log_lost(&member.session, member.session.take_back::<()>(ready, MoveError::Changed));
        member
    };
    let members: Vec<Member> = sent.into_iter().map(take).collect();
    call_off(members);
    e
}

/// A process that could not be put back ends; `back` is [`MoveError::Changed`] if it runs.
fn log_lost(session: &MigrationSession, back: Result<(), MoveError>) {
    match back {
        Ok(()) | Err(MoveError::Changed) => {}
        Err(e) => tracing::error!("process {}, which was to leave with others: {e}", session.pid),
    }
}

/// Has the room remove the bodies that were prepared.
fn call_off(members: Vec<Member>) {
    members.iter().for_each(|member| member.session.call_off());
}

impl MigrationSession {
    /// Tells the room which memories of the process others of its group have. Gives for each
    /// whether another process brings its content.
    pub fn tell_memories(&self, now: &ProcessSnapshot) -> Vec<bool> {
        let Some(group_try) = self.group.borrow().clone() else { return Vec::new() };
        let (pid, group, memories) = (self.pid, group_try.number, now.memories().to_vec());
        let elsewhere = group_try.bring(&memories);
        self.room.tell(&ToRoom::Memories { pid, group, memories });
        elsewhere
    }
}
