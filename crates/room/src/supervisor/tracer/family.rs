//! What a clone call wants, and the call that makes the same in a room: a sibling (CLONE_PARENT)
//! without exit signal.

use crate::sandbox::guest_memory;
use os::ptrace::HostTid;

/// What is to be made.
#[derive(Clone, Debug)]
pub enum Shape {
    /// A thread: the call is made as it is.
    Thread,
    /// The child is a process.
    Process(Box<Process>),
}

/// A process that is to be made.
#[derive(Clone, Debug)]
pub struct Process {
    /// The call is made with these.
    pub registers: libc::user_regs_struct,
    /// Where its maker wants the number of a descriptor of it (CLONE_PIDFD).
    pub pidfd_at: Option<u64>,
}

impl PartialEq for Shape {
    fn eq(&self, other: &Shape) -> bool {
        matches!((self, other), (Shape::Thread, Shape::Thread) | (Shape::Process(_), Shape::Process(_)))
    }
}

const VM: u64 = libc::CLONE_VM as u64;
const VFORK: u64 = libc::CLONE_VFORK as u64;
const THREAD: u64 = libc::CLONE_THREAD as u64;
const PARENT: u64 = libc::CLONE_PARENT as u64;
/// What a process may ask for besides: addresses that the kernel writes, and its thread's own.
const PLAIN: u64 =
    (libc::CLONE_PARENT_SETTID | libc::CLONE_CHILD_SETTID | libc::CLONE_CHILD_CLEARTID | libc::CLONE_SETTLS) as u64;
const PIDFD: u64 = libc::CLONE_PIDFD as u64;
const SETTID: u64 = libc::CLONE_PARENT_SETTID as u64;
const EXIT_SIGNAL: u64 = 0xff;

/// A call that a room cannot make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unable {
    pub why: &'static str,
    /// Programs try it, and do without.
    pub tried: bool,
}

/// A call in the terms of clone(2).
#[derive(Default)]
struct Clone {
    flags: u64,
    exit_signal: u64,
    stack: u64,
    parent_tid: u64,
    child_tid: u64,
    tls: u64,
    pidfd: u64,
}

/// Reads the call that a thread is about to make. `Err`: why it cannot be made here.
pub fn shape(host: HostTid, registers: &libc::user_regs_struct) -> Result<Shape, Unable> {
    let call = match registers.orig_rax as i64 {
        libc::SYS_fork => Clone { exit_signal: libc::SIGCHLD as u64, ..Clone::default() },
        libc::SYS_vfork => Clone { flags: VM | VFORK, exit_signal: libc::SIGCHLD as u64, ..Clone::default() },
        libc::SYS_clone => Clone {
            flags: registers.rdi & !EXIT_SIGNAL,
            exit_signal: registers.rdi & EXIT_SIGNAL,
            stack: registers.rsi,
            parent_tid: registers.rdx,
            child_tid: registers.r10,
            tls: registers.r8,
            pidfd: registers.rdx,
        },
        libc::SYS_clone3 => match clone3(host, registers.rdi, registers.rsi) {
            Some(call) => call,
            // Unreadable, or of a size that the kernel refuses: it does so itself.
            None => return Ok(Shape::Thread),
        },
        _ => return Err(Unable { why: "a way of making processes that is not known", tried: true }),
    };
    if call.flags & THREAD != 0 {
        return Ok(Shape::Thread);
    }
    let pidfd_at = (call.flags & PIDFD != 0).then_some(call.pidfd);
    // clone(2) has one argument for both, and says so itself.
    let both = pidfd_at.is_some() && call.flags & SETTID != 0 && call.pidfd == call.parent_tid;
    if both || pidfd_at.is_some_and(|at| !is_writable(host, at)) {
        return Ok(Shape::Thread);
    }
    // Go's runtime tries by such a child whether there are descriptors of processes.
    let tried = pidfd_at.is_some();
    if call.exit_signal != libc::SIGCHLD as u64 {
        return Err(Unable { why: "a child that ends with another signal than SIGCHLD", tried });
    }
    if call.flags & !(VM | VFORK | PLAIN | PIDFD) != 0 || call.flags & (VM | VFORK) == VM {
        return Err(Unable { why: "a process that shares more than memory until exec", tried });
    }
    let mut rewritten = *registers;
    rewritten.orig_rax = libc::SYS_clone as u64;
    rewritten.rdi = call.flags & !PIDFD | PARENT;
    (rewritten.rsi, rewritten.rdx, rewritten.r10, rewritten.r8) =
        (call.stack, call.parent_tid, call.child_tid, call.tls);
    Ok(Shape::Process(Box::new(Process { registers: rewritten, pidfd_at })))
}

/// Whether the kernel could put the number of a descriptor there.
fn is_writable(host: HostTid, at: u64) -> bool {
    let mut there = [0; 4];
    guest_memory::read(host.0, at, &mut there).is_ok() && guest_memory::write(host.0, at, &there).is_ok()
}

/// `struct clone_args` (linux/sched.h) as far as clone(2) can say the same.
fn clone3(host: HostTid, at: u64, bytes: u64) -> Option<Clone> {
    const FIRST_VERSION_BYTES: usize = 64;
    const LONGEST: usize = 4096;
    let bytes = usize::try_from(bytes).ok().filter(|b| (FIRST_VERSION_BYTES..=LONGEST).contains(b))?;
    let mut raw = vec![0; bytes];
    guest_memory::read(host.0, at, &mut raw).ok()?;
    let word = |i: usize| raw.get(8 * i..8 * i + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes);
    let (stack, stack_bytes) = (word(5), word(6));
    let stack = if stack == 0 { 0 } else { stack.wrapping_add(stack_bytes) };
    // What clone(2) does not know (set_tid, cgroup) makes the flags ones that are refused above.
    let beyond = if (8..11).any(|i| word(i) != 0) { 1 << 63 } else { 0 };
    Some(Clone {
        flags: word(0) | beyond,
        exit_signal: word(4),
        stack,
        parent_tid: word(3),
        child_tid: word(2),
        tls: word(7),
        pidfd: word(1),
    })
}

/// Gives back the arguments that a rewritten call changed.
pub fn put_back(registers: &mut libc::user_regs_struct, original: &libc::user_regs_struct) {
    registers.orig_rax = original.orig_rax;
    registers.rdi = original.rdi;
    registers.rsi = original.rsi;
    registers.rdx = original.rdx;
    registers.r10 = original.r10;
    registers.r8 = original.r8;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registers(call: i64, rdi: u64) -> libc::user_regs_struct {
        // SAFETY: all zero is a valid register set.
        let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        (registers.orig_rax, registers.rdi, registers.rsi) = (call as u64, rdi, 7);
        registers
    }

    fn process(call: i64, rdi: u64) -> libc::user_regs_struct {
        match shape(HostTid(0), &registers(call, rdi)) {
            Ok(Shape::Process(process)) => process.registers,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn forks_become_siblings_without_signal() {
        for (call, flags) in [(libc::SYS_fork, PARENT), (libc::SYS_vfork, PARENT | VM | VFORK)] {
            let made = process(call, 99);
            assert_eq!((made.orig_rax as i64, made.rdi, made.rsi), (libc::SYS_clone, flags, 0));
        }
        assert_eq!(process(libc::SYS_clone, libc::SIGCHLD as u64).rdi, PARENT);
        let mut made = process(libc::SYS_fork, 99);
        put_back(&mut made, &registers(libc::SYS_fork, 99));
        assert_eq!((made.orig_rax as i64, made.rdi, made.rsi), (libc::SYS_fork, 99, 7));
    }

    #[test]
    fn what_cannot_be_made_is_refused() {
        let signal = libc::SIGCHLD as u64;
        for flags in [
            libc::CLONE_FILES as u64 | signal,
            VM | signal,
            libc::CLONE_NEWPID as u64 | signal,
            libc::SIGUSR1 as u64,
            PARENT | signal,
        ] {
            assert!(shape(HostTid(0), &registers(libc::SYS_clone, flags)).is_err(), "{flags:#x}");
        }
        assert_eq!(shape(HostTid(0), &registers(libc::SYS_clone, THREAD | VM)), Ok(Shape::Thread));
    }
}
