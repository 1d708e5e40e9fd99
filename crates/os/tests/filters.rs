//! A process' filters (seccomp(2)) do not see the calls that its tracer makes in it, if the tracer
//! says so, and see all others afterwards: nothing that runs goes on unfiltered.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use os::inject::{Inside, Memory, gate};
use os::ptrace::{self, Event, HostTid, Stopped};
use os::seccomp::{Instruction, install_more_call};
use std::path::Path;

const REFUSED: i64 = -(libc::EPERM as i64);

fn stopped(tid: HostTid) -> Stopped {
    ptrace::interrupt(tid).unwrap();
    loop {
        match ptrace::wait_for(tid).unwrap() {
            Event::Halt(stopped, _) => return stopped,
            // Any other stop makes the kernel forget that it was asked to stop.
            Event::Exec(stopped, _) | Event::Other(stopped) | Event::SystemCall(stopped) => stopped.resume(0).unwrap(),
            other => panic!("{other:?}"),
        }
        ptrace::interrupt(tid).unwrap();
    }
}

/// getppid(2) is refused; all else is allowed.
fn filter() -> Vec<u8> {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let program = [
        (LOAD, 0, 0, 0),
        (IF_EQUAL, 0, 1, libc::SYS_getppid as u32),
        (RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        (RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let bytes = |(code, jt, jf, k): (u16, u8, u8, u32)| [&code.to_le_bytes()[..], &[jt, jf], &k.to_le_bytes()].concat();
    program.into_iter().flat_map(bytes).collect()
}

/// A child that turns round and round, and the threads that were made in it, whose ends are their
/// tracer's to hear of.
struct Traced(i32, Vec<HostTid>);

impl Traced {
    /// Its threads may run on with the registers of its first one: what that does changes nothing.
    /// (Failed before, seldom: two threads began one program, on one stack.)
    fn new() -> Traced {
        // SAFETY: the child has a copy of this thread's memory, and does nothing that another
        // thread could have left half done.
        let pid = unsafe { libc::syscall(libc::SYS_fork) } as i32;
        if pid == 0 {
            // SAFETY: numbers only.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            loop {
                std::hint::spin_loop();
            }
        }
        assert!(pid > 0);
        Traced(pid, Vec::new())
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        // SAFETY: a child that nobody has waited for.
        unsafe { libc::kill(self.0, libc::SIGKILL) };
        for tid in self.1.iter().chain([&HostTid(self.0)]) {
            while ptrace::wait_for(*tid).is_ok_and(|e| !matches!(e, Event::Exited(_) | Event::Killed(_))) {}
        }
    }
}

fn enter(stopped: Stopped, pid: i32) -> Inside {
    let memory = Memory::of(pid).unwrap();
    let gate = gate(&memory, &os::areas::read(pid).unwrap()).unwrap();
    Inside::enter(stopped, memory, gate).unwrap()
}

/// Gives the process the filter.
fn install(inside: &mut Inside) {
    inside.map_region(0x1234_0000_0000).unwrap();
    let mut batch = inside.batch();
    let program = filter();
    let count = (program.len() / size_of::<Instruction>()) as u64;
    let at = batch.put(&program);
    let program = batch.put(&[count.to_le_bytes(), at.to_le_bytes()].concat());
    let (nr, args) = install_more_call(program);
    batch.must("installing the filter", nr, args);
    inside.run(&batch).unwrap();
}

fn asks(inside: &mut Inside) -> i64 {
    inside.call(libc::SYS_getppid, [0; 6]).unwrap()
}

#[test]
fn they_see_no_call_of_the_tracers_and_all_others_afterwards() {
    let mut child = Traced::new();
    let (pid, own) = (child.0, i64::from(std::process::id()));
    ptrace::seize(HostTid(pid)).unwrap();
    let mut first = stopped(HostTid(pid));
    assert!(first.suspend_filters().unwrap(), "this takes CAP_SYS_ADMIN, and no filter of one's own");
    let (registers, mask) = (first.registers().unwrap(), first.mask().unwrap());

    let mut inside = enter(first, pid);
    install(&mut inside);
    assert_eq!(asks(&mut inside), own, "not filtered yet");

    // A number that was used before is nobody's until all others have been.
    let tid = (2..pid).rev().find(|n| !Path::new(&format!("/proc/{n}")).exists()).unwrap();
    let mut beside = inside.make_thread(tid).unwrap();
    child.1.push(HostTid(tid));
    assert_eq!(asks(&mut beside), own, "nor is a thread that was made meanwhile");
    beside.leave(&registers, mask).unwrap().resume(0).unwrap();
    inside.leave(&registers, mask).unwrap().resume(0).unwrap();

    for tid in [pid, tid] {
        let mut inside = enter(stopped(HostTid(tid)), pid);
        assert_eq!(asks(&mut inside), REFUSED, "thread {tid} of {pid}");
        inside.leave(&registers, mask).unwrap().resume(0).unwrap();
    }
}

#[test]
fn who_is_let_run_without_a_call_is_filtered_again_too() {
    let child = Traced::new();
    let pid = child.0;
    ptrace::seize(HostTid(pid)).unwrap();
    let mut first = stopped(HostTid(pid));
    assert!(first.suspend_filters().unwrap());
    first.resume(0).unwrap();
    let first = stopped(HostTid(pid));
    let (registers, mask) = (first.registers().unwrap(), first.mask().unwrap());
    let mut inside = enter(first, pid);
    install(&mut inside);
    assert_eq!(asks(&mut inside), REFUSED);
    inside.leave(&registers, mask).unwrap().resume(0).unwrap();
}
