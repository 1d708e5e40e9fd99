//! Stand-ins of regular files: whatever a program does with a file it does with these, and home's
//! open file does it.
//!
//! The open file's offset is home's, where others may use it too; the room's kernel has one of its
//! own, and says it with every READ and WRITE. Whether a request has its offset from there or from
//! the program (pread(2), a mapping's page) the caller's system call tells. Where the kernel's own
//! offset has jumped since the last request, a seek was made here that home has not heard of, and
//! is made there first.

use crate::files::devices;
use crate::files::standins::IO_BYTES;
use crate::state::files::standins::file_table::{STAT_BYTES, STATFS_BYTES, Step};
use crate::state::files::standins::requests::{StandinRequest, StandinRequestKind};
use crate::state::guests::Who;
use crate::state::pending::Pending;
use crate::state::shared::Shared;
use homefs::proto::{
    self, FallocateIn, FsyncIn, GetxattrIn, LseekIn, Opcode, ReadIn, Request, SetattrIn, WriteIn, fattr,
};
use os::ptrace::HostTid;
use room_protocol::message::{Call, StandinId};
/// What asks for an extended attribute is forwarded up to the kernel's own limit (XATTR_SIZE_MAX).
const XATTR_BYTES_MAX: u32 = 64 << 10;
/// The kernel asks for it by itself when a file is written.
const CAPABILITY: &[u8] = b"security.capability";

/// Calls at home, in this order, and what each one's answer is for.
type Plan = Vec<(Call, Step)>;

/// Serves a request for a file's stand-in, or one that home alone can answer for any; `None` if it
/// is one like those for all others.
pub fn serve(room: &Shared, request: &Request<'_>) -> Option<Result<(), i32>> {
    let opcode = request.opcode?;
    let standin =
        crate::files::standins::standin(request.header.nodeid).filter(|s| s.is_file() || opcode == Opcode::Fsync)?;
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
        room.home.call_home(
            who,
            call,
            Pending::Standin(StandinRequest { pid: who.pid, host: None, unique, what: StandinRequestKind::File }),
        );
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

/// Gives the call that makes home's offset the kernel's, if that has jumped.
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
    // Appended bytes go to the end that home knows, wherever the kernel here takes it to be.
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
        // A process that may write a file at home has its capabilities dropped there.
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
