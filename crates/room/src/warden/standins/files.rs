//! Stand-ins of regular files: whatever a program does with a file it does with these, and home's open file does it.
//!
//! The open file's offset is home's, where others may use it too; the room's kernel has one of its own, and says it with every READ and WRITE. Whether a request has its offset
//! from there or from the program (pread(2), a mapping's page) the caller's system call tells. Where the kernel's own offset has jumped since the last request, a
//! seek was made here that home has not heard of, and is made there first.

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
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use wire::message::{Call, Descriptor, StandinId};

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
    /// What it was, and may still be: the kernel was told to make a seek, and does so in a moment.
    before: Option<(u64, Instant)>,
}

/// For so long a seek may be under way that the kernel was told to make.
const SEEK_WITHIN: Duration = Duration::from_millis(50);

/// What one answer of home's is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Something had to be done first.
    First,
    /// Bytes that were read; from the kernel's own offset, if one is said.
    Read(Option<u64>),
    /// Bytes that were written, likewise.
    Written(Option<u64>),
    /// `struct stat`
    Attributes,
    /// An offset.
    Sought,
    /// An extended attribute, or their names; or the number of their bytes.
    Extended { counts: bool },
    /// `struct statfs`
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

impl Files {
    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The kernel's offset of a stand-in is this now, and means the same as home's.
    pub fn begins(&self, standin: StandinId, offset: u64) {
        if standin.is_file() {
            self.with(|state| state.offsets.insert(standin, Offset { here: offset, before: None }));
        }
    }

    /// Stand-ins that a body begins with. Where several of its numbers are one open file, others at home may have moved its offset while home looked at one number after the other: what
    /// is said of the first holds, to which the kernel's is set, too (`porter/body.rs`).
    pub fn begin_all(&self, descriptors: &[Descriptor]) {
        let mut begun = HashSet::new();
        let firsts = descriptors.iter().filter(|descriptor| begun.insert(descriptor.standin));
        for Descriptor { standin, offset, end, .. } in firsts {
            self.begins(*standin, *offset);
            end.map(|end| self.with(|state| state.ends.insert(*standin, end)));
        }
    }

    /// The kernel will make a seek that home has made, and come to this offset.
    pub fn will_be_at(&self, standin: StandinId, offset: u64) {
        self.with(|state| {
            let before = state.offsets.get(&standin).map(|offset| (offset.here, Instant::now()));
            state.offsets.insert(standin, Offset { here: offset, before });
        });
    }

    /// As [`Files::sought_here`], of an offset that was looked at in between: a seek that home knows of may not have been made here yet.
    pub fn looked_at(&self, standin: StandinId, offset: u64) -> Option<u64> {
        let waits =
            |o: &Offset| o.before.is_some_and(|(before, since)| before == offset && since.elapsed() < SEEK_WITHIN);
        let is_late = self.with(|state| state.offsets.get(&standin).is_some_and(waits));
        if is_late { None } else { self.sought_here(standin, offset) }
    }

    /// The kernel's offset is this: home's is to be set to it if that is returned, for a seek was made here alone.
    pub fn sought_here(&self, standin: StandinId, offset: u64) -> Option<u64> {
        let now = Offset { here: offset, before: None };
        let known = self.with(|state| state.offsets.insert(standin, now)).unwrap_or_default();
        (standin.is_file() && known.here != offset).then_some(offset)
    }

    /// It is open no more.
    pub fn forget(&self, standin: StandinId) {
        self.with(|state| (state.offsets.remove(&standin), state.ends.remove(&standin)));
    }

    /// The attributes that the kernel here is told while nobody can ask home: where a file ends to which it appends.
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

/// Serves a request for a file's stand-in, or one that home alone can answer for any; `None` if it is one like those for all others.
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
        Opcode::Lseek => seek(request),
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
        room.call_home(who, call, Pending::Standin(Asked { pid: who.pid, unique, what: What::File }));
    }
    Ok(())
}

/// Whose deputy does it: the caller's, or, when this process itself touches a page of a guest's, any that has the file.
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
    let call = os::waiting::call_for_sure(host.0)?;
    Some((host, call.number, call.args))
}

/// The kernel's own offset is meant: the caller reads or writes this very file without saying where.
fn goes_on(room: &Shared, request: &Request<'_>, standin: StandinId, calls: [i64; 3]) -> bool {
    let Some((host, number, args)) = current_call(room, request) else { return false };
    let [plain, vector, vector2] = calls;
    let unsaid = [plain, vector].contains(&number) || (number == vector2 && args[3] as i64 == -1);
    unsaid && room.standin_of(host, args[0] as i32) == Some(standin)
}

/// What makes home's offset the kernel's, if that has jumped.
fn align(room: &Shared, standin: StandinId, offset: u64) -> Option<(Call, Step)> {
    let to = room.standins.files.sought_here(standin, offset)?;
    Some((Call::new(libc::SYS_lseek, [0, to, libc::SEEK_SET as u64, 0, 0, 0]), Step::First))
}

fn read(room: &Shared, request: &Request<'_>, standin: StandinId) -> Result<Plan, i32> {
    let ReadIn { offset, size, .. } = request.args().take().map_err(|_| libc::EPROTO)?;
    let size = size.min(IO_BYTES);
    let on = goes_on(room, request, standin, [libc::SYS_read, libc::SYS_readv, libc::SYS_preadv2]);
    let (nr, at) = if on { (libc::SYS_read, 0) } else { (libc::SYS_pread64, offset) };
    let call = Call::new(nr, [0, 0, u64::from(size), at, 0, 0]);
    let call = Call { pointers: 0b10, out_bytes: size, out_per_result: 1, ..call };
    let first = if on { align(room, standin, offset) } else { None };
    Ok(first.into_iter().chain([(call, Step::Read(on.then_some(offset)))]).collect())
}

fn write(room: &Shared, request: &Request<'_>, standin: StandinId) -> Result<Plan, i32> {
    let mut args = request.args();
    let WriteIn { offset, size, flags, .. } = args.take().map_err(|_| libc::EPROTO)?;
    let data = args.bytes(size as usize).map_err(|_| libc::EPROTO)?.to_vec();
    let on = goes_on(room, request, standin, [libc::SYS_write, libc::SYS_writev, libc::SYS_pwritev2]);
    let (nr, at) = if on { (libc::SYS_write, 0) } else { (libc::SYS_pwrite64, offset) };
    let call = Call { pointers: 0b10, data, ..Call::new(nr, [0, 0, u64::from(size), at, 0, 0]) };
    // What is appended goes to the end that home knows, wherever the kernel here takes it to be.
    let appends = flags as i32 & libc::O_APPEND != 0;
    let first = if on && !appends { align(room, standin, offset) } else { None };
    Ok(first.into_iter().chain([(call, Step::Written(on.then_some(offset)))]).collect())
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
fn seek(request: &Request<'_>) -> Result<Plan, i32> {
    let LseekIn { offset, whence, .. } = request.args().take().map_err(|_| libc::EPROTO)?;
    Ok(vec![(Call::new(libc::SYS_lseek, [0, offset, u64::from(whence), 0, 0, 0]), Step::Sought)])
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

/// Home has made a call.
pub fn answered(device: &Device, unique: u64, result: i64, out: &[u8]) {
    let found = device.files.with(|state| {
        let (standin, steps) = state.asked.get_mut(&unique)?;
        let (standin, step) = (*standin, steps.pop_front()?);
        if result < 0 || steps.is_empty() {
            state.asked.remove(&unique);
        }
        if let (Step::Read(Some(from)) | Step::Written(Some(from)), Ok(n)) = (step, u64::try_from(result)) {
            state.offsets.insert(standin, Offset { here: from.wrapping_add(n), before: None });
        }
        if let (Step::Sought, Ok(here)) = (step, u64::try_from(result)) {
            state.offsets.insert(standin, Offset { here, before: None });
        }
        Some((standin, step))
    });
    let Some((standin, step)) = found else { return };
    if result < 0 {
        return device.error(unique, -result as i32);
    }
    match step {
        Step::First => {}
        Step::Done => device.error(unique, 0),
        Step::Read(_) => device.bytes(unique, &out[..out.len().min(result as usize)]),
        Step::Written(_) => device.value(unique, &WriteOut { size: result as u32, padding: 0 }),
        Step::Sought => device.value(unique, &LseekOut { offset: result as u64 }),
        Step::Extended { counts: true } => {
            device.value(unique, &GetxattrOut { size: result as u32, padding: 0 });
        }
        Step::Extended { counts: false } => device.bytes(unique, &out[..out.len().min(result as usize)]),
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

    /// Failed before: a program with its output and its errors in one file, to which a child at home wrote meanwhile, had home's offset set back, and what the child wrote was written over.
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
        // The kernel is about to seek.
        files.will_be_at(file, 50);
        assert_eq!(
            (files.looked_at(file, 4), files.looked_at(file, 50), files.looked_at(file, 4)),
            (None, None, Some(4))
        );
    }
}
