//! Stand-ins of regular files: whatever a program does with a file it does with these, and home's
//! open file does it.
//!
//! The open file's offset is home's, where others may use it too; the room's kernel has one of its
//! own, and says it with every READ and WRITE. Whether a request has its offset from there or from
//! the program (pread(2), a mapping's page) the caller's system call tells. Where the kernel's own
//! offset has jumped since the last request, a seek was made here that home has not heard of, and
//! is made there first.

use super::attributes;
use super::{Asked, Device, IO_BYTES, What};
use crate::warden::devices;
use crate::warden::guests::Who;
use crate::warden::shared::{Pending, Shared};
use homefs::proto::{
    self, AttrOut, FallocateIn, FsyncIn, GetxattrIn, GetxattrOut, Kstatfs, LseekIn, LseekOut, Opcode, ReadIn, Request,
    SetattrIn, WriteIn, WriteOut, fattr,
};
use os::ptrace::HostTid;
use room_protocol::message::{Call, Descriptor, StandinId};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};

/// What is known of them.
#[derive(Default)]
pub struct Files {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Requests that home answers, by their numbers: what its answers are for, one after the other.
    asked: HashMap<u64, (StandinId, VecDeque<Step>)>,
    offsets: HashMap<StandinId, Offset>,
    /// Bytes of files when they were placed, if they are appended to.
    ends: HashMap<StandinId, u64>,
}

/// The kernel's offset here that means home's.
#[derive(Clone, Copy, Debug, Default)]
struct Offset {
    here: u64,
    /// What it was, and still is until this thread goes on: home has made its call, and it was told
    /// so.
    before: Option<(u64, HostTid)>,
    /// How often it was set: who has looked at the kernel's meanwhile looks again.
    times_set: u64,
}

/// So often the kernel's offset is looked at until it does not change meanwhile.
const LOOKS_MAX: usize = 100;

/// What the kernel's offset, as it was looked at, says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// It is home's.
    Same,
    /// A seek was made here alone.
    Sought,
    /// Who has moved it at home has not gone on yet, and holds it: nobody can have made a seek
    /// since.
    Late(HostTid),
    /// It was set meanwhile: this says nothing.
    Changed,
}

/// What one answer of home's is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Something had to be done first.
    First,
    /// Bytes that were read; from the kernel's own offset, by this thread, if that is said.
    Read(Option<(u64, HostTid)>),
    /// Bytes that were written, likewise.
    Written(Option<(u64, HostTid)>),
    /// The answer is a `struct stat`.
    Attributes,
    /// An offset, which this thread's kernel will take.
    Sought(Option<HostTid>),
    /// An extended attribute, or their names; or the number of their bytes.
    Extended { counts: bool },
    /// The answer is a `struct statfs`.
    FileSystem,
    /// Nothing comes back.
    Done,
}

/// `struct stat` and `struct statfs` (stat(2), statfs(2)).
const STAT_BYTES: usize = 144;
const STATFS_BYTES: usize = 120;
/// What asks for an extended attribute is forwarded up to the kernel's own limit (XATTR_SIZE_MAX).
const XATTR_BYTES_MAX: u32 = 64 << 10;
/// The kernel asks for it by itself when a file is written.
const CAPABILITY: &[u8] = b"security.capability";

impl State {
    fn set(&mut self, standin: StandinId, here: u64, before: Option<(u64, HostTid)>) {
        let times_set = self.offsets.get(&standin).map_or(1, |known| known.times_set + 1);
        self.offsets.insert(standin, Offset { here, before, times_set });
    }

    /// What this answer of home's is for.
    fn next_step(&mut self, unique: u64, result: i64) -> Option<(StandinId, Step)> {
        let (standin, steps) = self.asked.get_mut(&unique)?;
        let (standin, step) = (*standin, steps.pop_front()?);
        if result < 0 || steps.is_empty() {
            self.asked.remove(&unique);
        }
        Some((standin, step))
    }

    /// The kernel's offset will be where this takes it.
    fn moved(&mut self, standin: StandinId, step: Step, result: u64) {
        match step {
            Step::Read(Some((from, by))) | Step::Written(Some((from, by))) => {
                self.set(standin, from.wrapping_add(result), Some((from, by)));
            }
            Step::Sought(by) => {
                let before = self.offsets.get(&standin).map_or(0, |known| known.here);
                self.set(standin, result, by.map(|by| (before, by)));
            }
            _ => {}
        }
    }

    /// Who moved it, if nobody has since.
    fn has_gone_on(&mut self, standin: StandinId, times_set: u64) {
        if let Some(known) = self.offsets.get_mut(&standin).filter(|known| known.times_set == times_set) {
            known.before = None;
        }
    }
}

impl Files {
    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The kernel's offset of a stand-in is this now, and means the same as home's.
    pub fn begins(&self, standin: StandinId, offset: u64) {
        if standin.is_file() {
            self.with(|state| state.set(standin, offset, None));
        }
    }

    /// Stand-ins that a body begins with. Where several of its numbers are one open file, others at
    /// home may have moved its offset while home looked at one number after the other: what is said
    /// of the first holds, to which the kernel's is set, too (`porter/body.rs`).
    pub fn begin_all(&self, descriptors: &[Descriptor]) {
        let mut begun = HashSet::new();
        let firsts = descriptors.iter().filter(|descriptor| begun.insert(descriptor.standin));
        for Descriptor { standin, offset, end, .. } in firsts {
            self.begins(*standin, *offset);
            end.map(|end| self.with(|state| state.ends.insert(*standin, end)));
        }
    }

    /// The kernel will come to this offset by a seek of this thread's that home has made; it does
    /// as soon as the thread is told to go on.
    pub fn will_be_at(&self, standin: StandinId, offset: u64, by: HostTid, go_on: impl FnOnce()) {
        self.with(|state| {
            let before = state.offsets.get(&standin).map(|offset| (offset.here, by));
            state.set(standin, offset, before);
            go_on();
        });
    }

    /// The kernel's offset, as `look` reads it, and whether a seek was made here alone: then home's
    /// is to be set to it.
    pub fn look(&self, standin: StandinId, look: impl Fn() -> Option<u64>) -> Option<(u64, bool)> {
        let mut offset = look()?;
        for _ in 0..LOOKS_MAX {
            let times_set = self.with(|state| state.offsets.get(&standin).map_or(0, |known| known.times_set));
            offset = look()?;
            match self.judge(standin, offset, times_set) {
                Seen::Sought => return Some((offset, true)),
                Seen::Same => break,
                Seen::Late(by) if !os::waiting::has_gone_on(by.0) => break,
                Seen::Late(_) => self.with(|state| state.has_gone_on(standin, times_set)),
                Seen::Changed => {}
            }
        }
        Some((offset, false))
    }

    /// Of an offset that was looked at when it had been set so often.
    fn judge(&self, standin: StandinId, offset: u64, times_set: u64) -> Seen {
        self.with(|state| {
            let known = state.offsets.get(&standin).copied().unwrap_or_default();
            match known.before {
                _ if known.times_set != times_set => Seen::Changed,
                _ if known.here == offset => Seen::Same,
                Some((before, by)) if before == offset => Seen::Late(by),
                _ => {
                    state.set(standin, offset, None);
                    Seen::Sought
                }
            }
        })
    }

    /// The kernel's offset is this, as its request says: home's is to be set to it if that is
    /// returned, for a seek was made here alone.
    fn sought_here(&self, standin: StandinId, offset: u64) -> Option<u64> {
        self.with(|state| {
            let known = state.offsets.get(&standin).copied().unwrap_or_default();
            state.set(standin, offset, None);
            (standin.is_file() && known.here != offset).then_some(offset)
        })
    }

    /// It is open no more.
    pub fn forget(&self, standin: StandinId) {
        self.with(|state| (state.offsets.remove(&standin), state.ends.remove(&standin)));
    }

    /// The attributes that the kernel here is told while nobody can ask home: where a file ends to
    /// which it appends.
    pub fn shown(&self, node: u64, attr: proto::Attr) -> proto::Attr {
        let end = super::standin(node).and_then(|standin| self.with(|state| state.ends.get(&standin).copied()));
        proto::Attr { size: end.unwrap_or(attr.size), ..attr }
    }

    /// Nobody waits for this request any more.
    pub fn drop_request(&self, unique: u64) {
        self.with(|state| state.asked.remove(&unique));
    }

    /// Home does what this request wants.
    pub fn is_asked(&self, unique: u64) -> bool {
        self.with(|state| state.asked.contains_key(&unique))
    }
}

/// Calls at home, in this order, and what each one's answer is for.
type Plan = Vec<(Call, Step)>;

/// Serves a request for a file's stand-in, or one that home alone can answer for any; `None` if it
/// is one like those for all others.
pub fn serve(room: &Shared, request: &Request<'_>) -> Option<Result<(), i32>> {
    let opcode = request.opcode?;
    let standin = super::standin(request.header.nodeid).filter(|s| s.is_file() || opcode == Opcode::Fsync)?;
    if opcode == Opcode::Getattr && devices::asker(room, request).is_none() {
        return None;
    }
    let plan = match opcode {
        Opcode::Read => read(room, request, standin),
        Opcode::Write => write(room, request, standin),
        Opcode::Getattr => Ok(vec![(stat(), Step::Attributes)]),
        Opcode::Setattr => set_attributes(request),
        Opcode::Fallocate => allocate(request),
        Opcode::Fsync => sync(request),
        Opcode::Lseek => seek(room, request),
        Opcode::Getxattr => extended(room, request),
        Opcode::Listxattr => names(request),
        Opcode::Setxattr => set_extended(request),
        Opcode::Removexattr => remove_extended(request),
        Opcode::Statfs => {
            let call = Call { pointers: 0b10, out_bytes: STATFS_BYTES as u32, ..Call::new(libc::SYS_fstatfs, [0; 6]) };
            Ok(vec![(Call { data: vec![0; STATFS_BYTES], ..call }, Step::FileSystem)])
        }
        _ => return None,
    };
    Some(plan.and_then(|plan| ask(room, request, standin, plan)))
}

fn ask(room: &Shared, request: &Request<'_>, standin: StandinId, plan: Plan) -> Result<(), i32> {
    let who = on_behalf_of(room, request, standin).ok_or(libc::EIO)?;
    let unique = request.header.unique;
    let steps = plan.iter().map(|(_, step)| *step).collect();
    room.standins.files.with(|state| state.asked.insert(unique, (standin, steps)));
    for (call, _) in plan {
        let call = Call { standin: Some(standin), ..call };
        room.call_home(who, call, Pending::Standin(Asked { pid: who.pid, host: None, unique, what: What::File }));
    }
    Ok(())
}

/// Whose deputy does it: the caller's, or, when this process itself touches a page of a guest's,
/// any that has the file.
fn on_behalf_of(room: &Shared, request: &Request<'_>, standin: StandinId) -> Option<Who> {
    let guests = room.guests();
    let caller = guests.host(request.header.pid as i32).and_then(|host| guests.who(host));
    caller.or_else(|| {
        let has = |pid: &i32| guests.get(*pid).is_some_and(|guest| guest.numbers.contains_key(&standin));
        guests.pids().into_iter().find(has).map(|pid| Who { pid, tid: pid })
    })
}

/// The system call that the caller is in, and its arguments.
pub fn current_call(room: &Shared, request: &Request<'_>) -> Option<(HostTid, i64, [u64; 6])> {
    let host = room.guests().host(request.header.pid as i32)?;
    let call = os::waiting::call_until_answered(host.0)?;
    Some((host, call.number, call.args))
}

/// The caller, if the kernel's own offset is meant: it reads or writes this very file without
/// saying where. A guess would write over what is there, or leave home's offset behind.
fn goes_on(room: &Shared, request: &Request<'_>, standin: StandinId, calls: [i64; 3]) -> Result<Option<HostTid>, i32> {
    if room.guests().host(request.header.pid as i32).is_none() {
        return Ok(None);
    }
    let (host, number, args) = current_call(room, request).ok_or(libc::EIO)?;
    let [plain, vector, vector2] = calls;
    let unsaid = [plain, vector].contains(&number) || (number == vector2 && args[3] as i64 == -1);
    Ok((unsaid && room.standin_of(host, args[0] as i32) == Some(standin)).then_some(host))
}

/// What makes home's offset the kernel's, if that has jumped.
fn align(room: &Shared, standin: StandinId, offset: u64) -> Option<(Call, Step)> {
    let to = room.standins.files.sought_here(standin, offset)?;
    Some((Call::new(libc::SYS_lseek, [0, to, libc::SEEK_SET as u64, 0, 0, 0]), Step::First))
}

fn read(room: &Shared, request: &Request<'_>, standin: StandinId) -> Result<Plan, i32> {
    let ReadIn { offset, size, .. } = request.args().take().map_err(|_| libc::EPROTO)?;
    let size = size.min(IO_BYTES);
    let on = goes_on(room, request, standin, [libc::SYS_read, libc::SYS_readv, libc::SYS_preadv2])?;
    let (nr, at) = if on.is_some() { (libc::SYS_read, 0) } else { (libc::SYS_pread64, offset) };
    let call = Call::new(nr, [0, 0, u64::from(size), at, 0, 0]);
    let call = Call { pointers: 0b10, out_bytes: size, out_per_result: 1, ..call };
    let first = on.and_then(|_| align(room, standin, offset));
    Ok(first.into_iter().chain([(call, Step::Read(on.map(|by| (offset, by))))]).collect())
}

fn write(room: &Shared, request: &Request<'_>, standin: StandinId) -> Result<Plan, i32> {
    let mut args = request.args();
    let WriteIn { offset, size, flags, .. } = args.take().map_err(|_| libc::EPROTO)?;
    let data = args.bytes(size as usize).map_err(|_| libc::EPROTO)?.to_vec();
    let on = goes_on(room, request, standin, [libc::SYS_write, libc::SYS_writev, libc::SYS_pwritev2])?;
    let (nr, at) = if on.is_some() { (libc::SYS_write, 0) } else { (libc::SYS_pwrite64, offset) };
    let call = Call { pointers: 0b10, data, ..Call::new(nr, [0, 0, u64::from(size), at, 0, 0]) };
    // What is appended goes to the end that home knows, wherever the kernel here takes it to be.
    let appends = flags as i32 & libc::O_APPEND != 0;
    let first = on.filter(|_| !appends).and_then(|_| align(room, standin, offset));
    Ok(first.into_iter().chain([(call, Step::Written(on.map(|by| (offset, by))))]).collect())
}

fn stat() -> Call {
    let call = Call::new(libc::SYS_fstat, [0; 6]);
    Call { pointers: 0b10, data: vec![0; STAT_BYTES], out_bytes: STAT_BYTES as u32, ..call }
}

fn set_attributes(request: &Request<'_>) -> Result<Plan, i32> {
    let wanted: SetattrIn = request.args().take().map_err(|_| libc::EPROTO)?;
    let has = |bits: u32| wanted.valid & bits != 0;
    let mut plan = Plan::new();
    let mut add = |call| plan.push((call, Step::First));
    if has(fattr::SIZE) {
        add(Call::new(libc::SYS_ftruncate, [0, wanted.size, 0, 0, 0, 0]));
    }
    if has(fattr::UID | fattr::GID) {
        let id = |bit, id: u32| u64::from(if has(bit) { id } else { u32::MAX });
        add(Call::new(libc::SYS_fchown, [0, id(fattr::UID, wanted.uid), id(fattr::GID, wanted.gid), 0, 0, 0]));
    } else if has(fattr::MODE) {
        add(Call::new(libc::SYS_fchmod, [0, u64::from(wanted.mode & 0o7777), 0, 0, 0, 0]));
    }
    if has(fattr::ATIME | fattr::MTIME) && !has(fattr::SIZE) {
        let time = |given, now, seconds: u64, nanoseconds: u32| match (has(given), has(now)) {
            (false, _) => [0, libc::UTIME_OMIT as u64],
            (true, true) => [0, libc::UTIME_NOW as u64],
            (true, false) => [seconds, u64::from(nanoseconds)],
        };
        let accessed = time(fattr::ATIME, fattr::ATIME_NOW, wanted.atime, wanted.atimensec);
        let modified = time(fattr::MTIME, fattr::MTIME_NOW, wanted.mtime, wanted.mtimensec);
        let data = [accessed, modified].concat().iter().flat_map(|word| word.to_le_bytes()).collect();
        add(Call { pointers: 0b100, data, ..Call::new(libc::SYS_utimensat, [0; 6]) });
    }
    plan.push((stat(), Step::Attributes));
    Ok(plan)
}

fn allocate(request: &Request<'_>) -> Result<Plan, i32> {
    let FallocateIn { offset, length, mode, .. } = request.args().take().map_err(|_| libc::EPROTO)?;
    Ok(vec![(Call::new(libc::SYS_fallocate, [0, u64::from(mode), offset, length, 0, 0]), Step::Done)])
}

fn sync(request: &Request<'_>) -> Result<Plan, i32> {
    let FsyncIn { fsync_flags, .. } = request.args().take().map_err(|_| libc::EPROTO)?;
    let data_only = fsync_flags & proto::FSYNC_FDATASYNC != 0;
    Ok(vec![(Call::new(if data_only { libc::SYS_fdatasync } else { libc::SYS_fsync }, [0; 6]), Step::Done)])
}

/// SEEK_DATA and SEEK_HOLE.
fn seek(room: &Shared, request: &Request<'_>) -> Result<Plan, i32> {
    let LseekIn { offset, whence, .. } = request.args().take().map_err(|_| libc::EPROTO)?;
    let by = room.guests().host(request.header.pid as i32);
    Ok(vec![(Call::new(libc::SYS_lseek, [0, offset, u64::from(whence), 0, 0, 0]), Step::Sought(by))])
}

/// A call about the attribute whose name lies behind so many bytes of data.
fn about(nr: i64, name: &[u8], before: Vec<u8>, rest: [u64; 2]) -> Call {
    let at = before.len() as u64;
    let pointers = if before.is_empty() { 0b10 } else { 0b110 };
    let data = [before, name.to_vec(), vec![0]].concat();
    Call { pointers, data, ..Call::new(nr, [0, at, 0, rest[0], rest[1], 0]) }
}

fn extended(room: &Shared, request: &Request<'_>) -> Result<Plan, i32> {
    let mut args = request.args();
    let GetxattrIn { size, .. } = args.take().map_err(|_| libc::EPROTO)?;
    let name = args.string().map_err(|_| libc::EPROTO)?.to_bytes();
    if name == CAPABILITY && !matches!(current_call(room, request), Some((_, libc::SYS_fgetxattr, _))) {
        // Who may write a file at home has its capabilities dropped there.
        return Err(libc::ENODATA);
    }
    let size = size.min(XATTR_BYTES_MAX);
    let call = about(libc::SYS_fgetxattr, name, vec![0; size as usize], [u64::from(size), 0]);
    let call = Call { out_bytes: size, out_per_result: 1, ..call };
    Ok(vec![(call, Step::Extended { counts: size == 0 })])
}

fn names(request: &Request<'_>) -> Result<Plan, i32> {
    let GetxattrIn { size, .. } = request.args().take().map_err(|_| libc::EPROTO)?;
    let size = size.min(XATTR_BYTES_MAX);
    let call = Call::new(libc::SYS_flistxattr, [0, 0, u64::from(size), 0, 0, 0]);
    let pointers = if size == 0 { 0 } else { 0b10 };
    let call = Call { pointers, out_bytes: size, out_per_result: 1, ..call };
    Ok(vec![(call, Step::Extended { counts: size == 0 })])
}

fn set_extended(request: &Request<'_>) -> Result<Plan, i32> {
    let mut args = request.args();
    // Size and flags: without SETXATTR_EXT there is no more.
    let GetxattrIn { size, padding: flags } = args.take().map_err(|_| libc::EPROTO)?;
    let name = args.string().map_err(|_| libc::EPROTO)?.to_bytes();
    let value = args.bytes(size as usize).map_err(|_| libc::EPROTO)?.to_vec();
    Ok(vec![(about(libc::SYS_fsetxattr, name, value, [u64::from(size), u64::from(flags)]), Step::Done)])
}

fn remove_extended(request: &Request<'_>) -> Result<Plan, i32> {
    let name = request.args().string().map_err(|_| libc::EPROTO)?.to_bytes();
    Ok(vec![(about(libc::SYS_fremovexattr, name, Vec::new(), [0; 2]), Step::Done)])
}

/// Home has made a call. That the kernel's offset will move is noted before anybody can see it
/// move, and nobody looks before it may.
pub fn answered(device: &Device, unique: u64, result: i64, out: &[u8]) {
    device.files.with(|state| {
        let Some((standin, step)) = state.next_step(unique, result) else { return };
        match usize::try_from(result) {
            Ok(n) => {
                state.moved(standin, step, n as u64);
                reply(device, unique, (standin, step), n, out);
            }
            Err(_) => device.error(unique, -result as i32),
        }
    });
}

fn reply(device: &Device, unique: u64, (standin, step): (StandinId, Step), n: usize, out: &[u8]) {
    match step {
        Step::First => {}
        Step::Done => device.error(unique, 0),
        Step::Read(_) => device.bytes(unique, &out[..out.len().min(n)]),
        Step::Written(_) => device.value(unique, &WriteOut { size: n as u32, padding: 0 }),
        Step::Sought(_) => device.value(unique, &LseekOut { offset: n as u64 }),
        Step::Extended { counts: true } => {
            device.value(unique, &GetxattrOut { size: n as u32, padding: 0 });
        }
        Step::Extended { counts: false } => device.bytes(unique, &out[..out.len().min(n)]),
        Step::Attributes => match attributes_at_home(super::node(standin), out) {
            Some(attr) => device.value(unique, &AttrOut { attr, ..AttrOut::default() }),
            None => device.error(unique, libc::EIO),
        },
        Step::FileSystem => match file_system(out) {
            Some(found) => device.value(unique, &found),
            None => device.error(unique, libc::EIO),
        },
    }
}

fn words<const N: usize>(bytes: &[u8]) -> Option<[u64; N]> {
    let mut words = [0; N];
    for (n, word) in words.iter_mut().enumerate() {
        *word = u64::from_le_bytes(bytes.get(8 * n..8 * n + 8)?.try_into().ok()?);
    }
    Some(words)
}

/// Attributes of `struct stat`, but for the number, by which a stand-in is known.
fn attributes_at_home(node: u64, stat: &[u8]) -> Option<proto::Attr> {
    // dev ino nlink mode,uid gid,- rdev size blksize blocks atime ansec mtime mnsec ctime cnsec
    let [_, _, nlink, mode_uid, gid, _, size, blksize, blocks, atime, ansec, mtime, mnsec, ctime, cnsec] = words(stat)?;
    let own = attributes(node);
    Some(proto::Attr {
        size,
        blocks,
        atime,
        mtime,
        ctime,
        atimensec: ansec as u32,
        mtimensec: mnsec as u32,
        ctimensec: cnsec as u32,
        mode: libc::S_IFREG | mode_uid as u32 & 0o7777,
        nlink: nlink as u32,
        uid: (mode_uid >> 32) as u32,
        gid: gid as u32,
        blksize: blksize as u32,
        ..own
    })
}

fn file_system(statfs: &[u8]) -> Option<Kstatfs> {
    let [_, bsize, blocks, bfree, bavail, files, ffree, _, namelen, frsize] = words(statfs)?;
    let (bsize, namelen, frsize) = (bsize as u32, namelen as u32, frsize as u32);
    Some(Kstatfs { blocks, bfree, bavail, files, ffree, bsize, namelen, frsize, ..Kstatfs::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_home_says_of_a_file() {
        let stat: Vec<u8> = [9u64, 77, 2, 1000 << 32 | 0o100_640, 50, 0, 4097, 4096, 16, 1, 2, 3, 4, 5, 6]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        let found = attributes_at_home(12, &stat).unwrap();
        assert_eq!((found.ino, found.size, found.mode, found.uid, found.gid), (12, 4097, 0o100_640, 1000, 50));
        assert_eq!((found.nlink, found.mtime, found.ctimensec), (2, 3, 6));
        assert_eq!(attributes_at_home(12, &stat[..100]), None);
    }

    /// Failed before: a program with its output and its errors in one file, to which a child at
    /// home wrote meanwhile, had home's offset set back, and what the child wrote was written over.
    #[test]
    fn one_file_under_two_numbers_begins_at_one_offset() {
        let (files, standin) = (Files::default(), StandinId(3).of_file());
        let (at_home, flags, terminal, timed, end) = (1, libc::O_WRONLY, false, false, None);
        let descriptor = |fd, offset| Descriptor { fd, at_home, standin, flags, terminal, timed, offset, end };
        files.begin_all(&[descriptor(1, 444), descriptor(2, 516)]);
        assert_eq!(files.sought_here(standin, 444), None);
    }

    #[test]
    fn seeks_here_are_noticed() {
        let (files, file) = (Files::default(), StandinId(3).of_file());
        files.begins(file, 10);
        assert_eq!((files.sought_here(file, 10), files.sought_here(file, 4)), (None, Some(4)));
        assert_eq!((files.sought_here(file, 4), files.sought_here(StandinId(3), 7)), (None, None));
        assert_eq!((files.look(file, || Some(4)), files.look(file, || Some(5))), (Some((4, false)), Some((5, true))));
    }

    /// Failed before: who looked between home's answer and the kernel's own step took the old
    /// offset for a seek, and home's went back.
    #[test]
    fn what_was_just_written_is_not_taken_for_a_seek() {
        let (files, file, by) = (Files::default(), StandinId(3).of_file(), HostTid(7));
        files.begins(file, 10);
        files.with(|state| state.moved(file, Step::Written(Some((10, by))), 5));
        let judge = |offset, times_set| files.judge(file, offset, times_set);
        assert_eq!((judge(10, 2), judge(15, 2), judge(10, 1)), (Seen::Late(by), Seen::Same, Seen::Changed));
        // It has gone on: that was a seek.
        files.with(|state| state.has_gone_on(file, 2));
        assert_eq!((judge(10, 2), judge(10, 3)), (Seen::Sought, Seen::Same));
        // As is any other offset, whoever is on his way.
        files.will_be_at(file, 50, by, || {});
        assert_eq!((judge(10, 4), judge(11, 4)), (Seen::Late(by), Seen::Sought));
    }
}
