//! The seccomp filter of a guest, made from the table: classic BPF over `struct seccomp_data`
//! (`linux/seccomp.h`, `linux/filter.h`).
//!
//! The number alone decides first, by a balanced tree of comparisons; arguments are loaded only
//! behind that, for the few rows that need them. So the kernel sees at once that a purely local
//! number is always allowed, and answers it from a bitmap without running the filter
//! (`seccomp_cache_prepare` in `kernel/seccomp.c`).

mod clocks;
mod cpu;
mod devices;
mod emit;

pub use clocks::{WALL_CLOCKS, clocks};
pub use cpu::cpu_times;
pub use devices::{devices, tells_devices};
pub use emit::{MAX_INSNS, Program, node_local, program};

use crate::class::{Class, Special};
use crate::{Errno, Row, When, errno, row};

/// One instruction; the layout of `struct sock_filter`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Insn {
    /// The operation of the instruction.
    pub code: u16,
    /// Instructions to skip if a comparison holds.
    pub jt: u8,
    /// Instructions to skip if it does not.
    pub jf: u8,
    /// The operand of the instruction.
    pub k: u32,
}

/// What the filter does with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The kernel does it.
    Allow,
    /// The warden is notified and answers (`SECCOMP_RET_USER_NOTIF`).
    Notify,
    /// It stops for the tracer (`SECCOMP_RET_TRACE`, with [`TRACE_CALL`] as the message).
    Trace,
    /// It fails at once.
    Fail(Errno),
}

/// Message of a `PTRACE_EVENT_SECCOMP`: a call that makes a thread or process, or takes a signal.
pub const TRACE_CALL: u16 = 1;

const RET_TRACE: u32 = 0x7ff0_0000;
const RET_ALLOW: u32 = 0x7fff_0000;
const RET_USER_NOTIF: u32 = 0x7fc0_0000;
const RET_ERRNO: u32 = 0x0005_0000;

impl Action {
    /// Gives the filter's return value.
    pub const fn code(self) -> u32 {
        match self {
            Action::Allow => RET_ALLOW,
            Action::Notify => RET_USER_NOTIF,
            Action::Trace => RET_TRACE | TRACE_CALL as u32,
            Action::Fail(errno) => RET_ERRNO | errno.0 as u32,
        }
    }
}

/// Upper half of a descriptor in a call that was handed to the tracer first ([`shown`]): the filter
/// then has the warden answer it.
pub const MARK: u32 = u32::from_be_bytes(*b"tern");

/// Builds a filter beside the guest's own: calls for the attributes of this descriptor, for its
/// flags, for its offset, and for a duplicate of it, stop for the tracer; but not for a duplicate
/// that the guest is made to make, of which the descriptor has an upper half (`os::inject::OURS`).
///
/// [`program`] leaves those of most descriptors to the kernel, for which a stand-in is a regular
/// file without an offset, whatever it stands for. This one is for the few that have an offset.
pub fn shown(fd: u32) -> [Insn; 21] {
    let insn = |code, jt, jf, k| Insn { code, jt, jf, k };
    let [fstat, newfstatat, statx] = STATS;
    [
        insn(emit::LOAD, 0, 0, emit::AT_NR),
        insn(emit::IF_EQ, 15, 0, LSEEK),
        insn(emit::IF_EQ, 14, 0, fstat),
        insn(emit::IF_EQ, 13, 0, newfstatat),
        insn(emit::IF_EQ, 12, 0, statx),
        insn(emit::IF_EQ, 9, 0, DUP),
        insn(emit::IF_EQ, 6, 0, DUP2),
        insn(emit::IF_EQ, 5, 0, DUP3),
        insn(emit::IF_EQ, 0, 11, FCNTL),
        insn(emit::LOAD, 0, 0, emit::AT_ARGS + 8),
        insn(emit::IF_EQ, 6, 0, F_GETFL),
        insn(emit::IF_EQ, 3, 0, F_DUPFD),
        insn(emit::IF_EQ, 2, 7, F_DUPFD_CLOEXEC),
        insn(emit::LOAD, 0, 0, emit::AT_ARGS + 8),
        insn(emit::IF_GE, 0, 5, FIRST),
        insn(emit::LOAD, 0, 0, emit::AT_ARGS + 4),
        insn(emit::IF_EQ, 0, 3, 0),
        insn(emit::LOAD, 0, 0, emit::AT_ARGS),
        insn(emit::IF_EQ, 0, 1, fd),
        insn(emit::RETURN, 0, 0, Action::Trace.code()),
        insn(emit::RETURN, 0, 0, Action::Allow.code()),
    ]
}

/// Builds a filter beside the guest's own: calls for the attributes or flags of any descriptor but
/// the first three, of which [`program`] has home asked, stop for the tracer. For processes that
/// have stand-ins among them; all others ask the kernel alone.
pub fn attributes() -> [Insn; 16] {
    const AT_EMPTY_PATH: u32 = 0x1000;
    const AT_FDCWD: u32 = -100i32 as u32;
    let insn = |code, jt, jf, k| Insn { code, jt, jf, k };
    let argument = |i: u32| insn(emit::LOAD, 0, 0, emit::AT_ARGS + 8 * i);
    let [fstat, newfstatat, statx] = STATS;
    [
        insn(emit::LOAD, 0, 0, emit::AT_NR),
        insn(emit::IF_EQ, 9, 0, fstat),
        insn(emit::IF_EQ, 0, 2, FCNTL),
        argument(1),
        insn(emit::IF_EQ, 6, 10, F_GETFL),
        insn(emit::IF_EQ, 0, 2, newfstatat),
        argument(3),
        insn(emit::JUMP, 0, 0, 2),
        insn(emit::IF_EQ, 0, 6, statx),
        argument(2),
        insn(emit::IF_SET, 0, 4, AT_EMPTY_PATH),
        argument(0),
        insn(emit::IF_GE, 0, 2, FIRST),
        insn(emit::IF_EQ, 1, 0, AT_FDCWD),
        insn(emit::RETURN, 0, 0, Action::Trace.code()),
        insn(emit::RETURN, 0, 0, Action::Allow.code()),
    ]
}

/// Numbers of the calls for a descriptor's attributes.
const STATS: [u32; 3] = [5, 262, 332];

/// The number of lseek(2).
const LSEEK: u32 = 8;

/// The calls that duplicate a descriptor, fcntl(2) with these commands.
const DUP: u32 = 32;
const DUP2: u32 = 33;
const DUP3: u32 = 292;
const FCNTL: u32 = 72;
const F_DUPFD: u32 = 0;
const F_DUPFD_CLOEXEC: u32 = 1030;
/// The command of fcntl(2) for a descriptor's flags.
const F_GETFL: u32 = 3;

/// The first descriptor of which [`program`] does not have home asked.
const FIRST: u32 = 3;

/// What number a duplicate gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// Only this one.
    This(i32),
    /// The first that is free, from this one on.
    From(i32),
}

/// Tells what number the duplicate gets that a call makes, if it makes one.
pub fn duplicate(nr: u32, args: &[u64; 6]) -> Option<Number> {
    match (nr, args[1] as u32) {
        (DUP, _) => Some(Number::From(0)),
        (DUP2 | DUP3, fd) => Some(Number::This(fd as i32)),
        (FCNTL, F_DUPFD | F_DUPFD_CLOEXEC) => Some(Number::From(args[2] as i32)),
        _ => None,
    }
}

/// The flag of x32's numbers (`__X32_SYSCALL_BIT`). Also set in -1, which is no call either.
pub const X32_BIT: u32 = 0x4000_0000;
/// `AUDIT_ARCH_X86_64`: anything else is a 32-bit call.
pub const ARCH: u32 = 0xc000_003e;

/// Tells what the filter does with this call: the table's word, which the emitted program repeats.
///
/// Calls newer than the table, and 32-bit ones, are notified, so that they are refused by name and
/// not silently.
pub fn action(arch: u32, nr: u32, args: &[u64; 6]) -> Action {
    if arch != ARCH {
        return Action::Notify;
    }
    match row(nr) {
        Some(row) => {
            by_arguments(row).into_iter().find(|(when, _)| when.holds(args)).map_or(Action::Allow, |(_, action)| action)
        }
        None if nr >= X32_BIT => Action::Fail(errno::ENOSYS),
        None => Action::Notify,
    }
}

/// Tells what a row asks for, by the arguments: the first that holds.
fn by_arguments(row: &Row) -> [(When, Action); 2] {
    [(row.duplicates, Action::Trace), (row.when, by_class(row.class))]
}

const fn by_class(class: Class) -> Action {
    match class {
        Class::Local => Action::Allow,
        Class::Special(Special::Clone | Special::TakeSignal) => Action::Trace,
        Class::Home | Class::Special(_) | Class::GoHome(_) | Class::Refused(_) => Action::Notify,
        Class::Unused => Action::Fail(errno::ENOSYS),
    }
}
