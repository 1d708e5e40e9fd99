//! Open files of the room that a body which comes home has in common with others: they become its
//! deputy's, and the others' deputies get them too. In the room all who have them stand still
//! meanwhile.

use crate::migration::error::MoveError;
use crate::migration::pairs::{Pair, make_two};
use crate::migration::session::MigrationSession;
use crate::restore::kept_files::is_same;
use crate::restore::locks::open_with_lock;
use crate::restore::reopen;
use crate::room::orders::CommonFiles;
use crate::room::state::Room;
use checkpoint::{BodyError, Inside};
use image::File;
use migration_plan::Pace;
use migration_plan::protocol::Side;
use os::pidfd::PidFd;
use room_protocol::message::{Common, CommonFile, CommonPipe, OpenAtHome, StandinId};
use room_protocol::{Refusal, ToRoom};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Process, stand-in, and the number of the deputy's descriptor.
type Number = (i32, StandinId, i32);

/// How long a room waits for another move of a process that passes descriptors: the process stands
/// still meanwhile.
const FREE_WITHIN: Duration = Duration::from_millis(200);
const AGAIN_AFTER: Duration = Duration::from_millis(5);

/// Takes over the files of descriptors that a process in the room passes through a socket of
/// home's, and tells the room.
pub fn take_over(room: &Arc<Room>, pid: i32, commons: CommonFiles) {
    let task = room.clone();
    let taking = move || {
        let refusal = |e: MoveError| Refusal { retryable: e.is_momentary(), ..e.refusal() };
        let result = claim_and_share(&task, pid, &commons).map_err(refusal);
        task.tell(&ToRoom::Shared { pid, result });
    };
    if let Err(e) = std::thread::Builder::new().name("pass".into()).spawn(taking) {
        let why = format!("no thread to take over what it passes: {e}");
        room.tell(&ToRoom::Shared { pid, result: Err(Refusal { why, retryable: true }) });
    }
}

fn claim_and_share(room: &Arc<Room>, pid: i32, commons: &CommonFiles) -> Result<Vec<Number>, MoveError> {
    let begun = Instant::now();
    let claim = loop {
        // As a move of its own: nobody else moves it meanwhile.
        match MigrationSession::begin(room, pid, Side::Room, Pace::default(), Arc::default()) {
            Err(e) if e.is_momentary() && begun.elapsed() < FREE_WITHIN => std::thread::sleep(AGAIN_AFTER),
            claimed => break claimed?,
        }
    };
    claim.share(commons)
}

impl MigrationSession {
    /// Shares these files, and tells the room how that went.
    pub fn share_and_tell(&self, common: &CommonFiles) {
        let result = self.share(common).map_err(|e| e.refusal());
        self.room.tell(&ToRoom::Shared { pid: self.pid, result });
        self.done("share");
    }

    /// Has all who hold these files have them here.
    fn share(&self, common: &CommonFiles) -> Result<Vec<Number>, MoveError> {
        let CommonFiles { files, pipes: _, pairs } = common;
        self.check_holders(files)?;
        self.check_locks(files)?;
        os::fault::at("share")?;
        let pairs = pairs.iter().map(|pair| self.make_pair(pair)).collect::<Result<Vec<_>, _>>()?;
        let pidfd = PidFd::open(self.pid)?;
        let opened = self.room.visit_deputy(self.pid, |inside| open_all(self, inside, &pidfd, common, &pairs))?;
        let mut given: BTreeMap<i32, Vec<usize>> = BTreeMap::new();
        for (n, common) in files.iter().enumerate() {
            common.holders.iter().for_each(|pid| given.entry(*pid).or_default().push(n));
        }
        let mut numbers = Vec::new();
        for (pid, list) in given {
            let pidfd = PidFd::open(pid)?;
            let all: Vec<_> = list.iter().filter_map(|n| opened.get(*n)).map(AsFd::as_fd).collect();
            let fds = self.room.visit_deputy(pid, |inside| checkpoint::give(inside, &pidfd, &all))?;
            numbers.extend(list.iter().zip(fds).map(|(n, fd)| (pid, files[*n].standin, fd)));
        }
        for (pid, standin, fd) in &numbers {
            self.room.table().took(*pid, *fd, *standin);
        }
        for (common, file) in files.iter().zip(opened) {
            self.room.hold(common.standin, file);
        }
        Ok(numbers)
    }

    /// Nobody loses a record lock: he would with the descriptor that a stand-in replaces.
    fn check_locks(&self, files: &[Common]) -> Result<(), MoveError> {
        let Some(server) = self.room.link.files() else { return Ok(()) };
        for Common { holders, what, .. } in files {
            let CommonFile::Named { path, inode, .. } = what else { continue };
            if let Some(who) = holders.iter().find(|who| server.has_record_locks(**who, *inode)) {
                let name = String::from_utf8_lossy(path);
                let why =
                    format!("process {who} has locked {name} (fcntl), which several processes have open in common");
                return Err(BodyError::NotMigratable(why).into());
            }
        }
        Ok(())
    }

    /// A room may say so of its own bodies alone.
    fn check_holders(&self, files: &[Common]) -> Result<(), MoveError> {
        match files.iter().flat_map(|common| &common.holders).find(|pid| !self.is_away(**pid)) {
            Some(pid) => Err(MoveError::Room(format!("process {pid} is not there"))),
            None => Ok(()),
        }
    }
}

/// The files, as the deputy of the process that leaves opens them.
fn open_all(
    this: &MigrationSession,
    inside: &mut Inside,
    pidfd: &PidFd,
    common: &CommonFiles,
    pairs: &[Pair],
) -> Result<Vec<OwnedFd>, BodyError> {
    let mut ends = Vec::new();
    for pipe in &common.pipes {
        ends.push(make_pipe(inside, pidfd, pipe)?);
    }
    let mut opened = Vec::new();
    for common in &common.files {
        let file = match &common.what {
            CommonFile::PipeEnd { pipe, writes, flags } => {
                let (reader, writer) = ends.get(*pipe as usize).ok_or_else(|| odd("a pipe that it did not tell of"))?;
                one_more(if *writes { writer } else { reader }, *flags)?
            }
            CommonFile::PairEnd { pair, second, flags } => {
                let pair = pairs.get(*pair as usize).ok_or_else(|| odd("a pair of sockets that it did not tell of"))?;
                one_more(&pair[usize::from(*second)], *flags)?
            }
            CommonFile::Named { path, inode, flags, removed, offset, fd, locked } => {
                let file = File { path: path.clone(), inode: *inode, flags: *flags, removed: *removed };
                let named = Named { file: &file, fd: *fd, offset: *offset };
                match open_locked(this, *locked, &named)? {
                    Some(found) => found,
                    None => open_named(this, inside, pidfd, &named)?,
                }
            }
        };
        opened.push(file);
    }
    Ok(opened)
}

/// An end of what was made for them, which is to be so (O_ flags).
fn one_more(end: &OwnedFd, flags: i32) -> Result<OwnedFd, BodyError> {
    os::fds::set_nonblocking(end.as_fd(), flags & libc::O_NONBLOCK != 0)?;
    Ok(end.try_clone().map_err(|e| os::Error::new("duplicating an end of what they have in common", e))?)
}

fn odd(what: &str) -> BodyError {
    BodyError::NotMigratable(format!("the room says that it shares {what}"))
}

/// A file that is opened by its name.
struct Named<'a> {
    file: &'a File,
    /// The number of the body's descriptor.
    fd: i32,
    offset: u64,
}

/// What home's server has open for it, if that has a lock of its own.
fn open_locked(
    this: &MigrationSession,
    locked: Option<OpenAtHome>,
    named: &Named<'_>,
) -> Result<Option<OwnedFd>, BodyError> {
    let Named { file, offset, .. } = *named;
    let Some((server, at_home)) = this.room.link.files().zip(locked) else { return Ok(None) };
    let uid = this.room.table().deputies.get(&this.pid).map_or(u32::MAX, |deputy| deputy.credentials.uid[1]);
    let found = open_with_lock(server, at_home, file, uid)?;
    if let Some(found) = found.as_ref().filter(|_| file.flags & libc::O_APPEND == 0) {
        let sought = rustix::fs::seek(found, rustix::fs::SeekFrom::Start(offset));
        sought.map_err(|e| os::Error::new("setting a file's offset", e))?;
    }
    Ok(found)
}

/// The deputy still has what the program took along: the same open file, which others at home may
/// have too.
fn open_named(
    this: &MigrationSession,
    inside: &mut Inside,
    pidfd: &PidFd,
    named: &Named<'_>,
) -> Result<OwnedFd, BodyError> {
    let Named { file, fd, offset } = *named;
    let mut opened = Vec::new();
    let done = reopen::open(&this.room, this.pid, inside, std::slice::from_ref(file), &mut opened);
    let number = opened.first().copied().unwrap_or(-1);
    let found = done.and_then(|()| {
        let held = if is_same(this.pid, fd, number) { fd } else { number };
        let found = pidfd.get_fd(held)?;
        if file.flags & libc::O_APPEND == 0 {
            let at = [held as u64, offset, libc::SEEK_SET as u64, 0, 0, 0];
            inside.must("setting a file's offset", libc::SYS_lseek, at)?;
        }
        Ok(found)
    });
    inside.call(libc::SYS_close, [number as u64, 0, 0, 0, 0, 0])?;
    found
}

/// A pipe that holds the same, its ends to read and to write.
fn make_pipe(inside: &mut Inside, pidfd: &PidFd, pipe: &CommonPipe) -> Result<(OwnedFd, OwnedFd), BodyError> {
    let made = |at| (libc::SYS_pipe2, [at, libc::O_CLOEXEC as u64, 0, 0, 0, 0]);
    let [reader, writer] = make_two(inside, pidfd, "making a pipe", made)?;
    os::objects::fill_pipe(writer.as_fd(), pipe.capacity, &pipe.content)?;
    Ok((reader, writer))
}
