//! prctl(2): what concerns parents, names and rights is the deputy's, too, or alone.

use crate::calls::served::Asked;
use crate::sandbox::guest_memory;
use crate::state::calls::after::After;
use crate::state::calls::marshal::Back;
use room_protocol::message::Call;

/// An option of prctl(2) (linux/prctl.h).
const PR_SET_IO_FLUSHER: i32 = 57;
const PR_GET_IO_FLUSHER: i32 = 58;
const PR_SET_SYSCALL_USER_DISPATCH: i32 = 59;
/// A bit of linux/securebits.h.
const SECBIT_KEEP_CAPS: u64 = 1 << 4;
const PR_SYS_DISPATCH_OFF: u64 = 0;

/// Bytes of a name, with its end.
const NAME_BYTES: usize = 16;

pub fn serve(asked: Asked) {
    match asked.args[0] as i32 {
        // What a filter of the program's own sent to the tracer or to a listener would be taken for
        // ours.
        libc::PR_SET_SECCOMP => {
            asked.refuse_for(libc::EINVAL, "a filter of the program's own would see the calls that stand in for others")
        }
        libc::PR_GET_SECCOMP => asked.value(0),
        libc::PR_SET_PDEATHSIG | libc::PR_SET_CHILD_SUBREAPER => at_home(asked),
        // What home holds against its program: a body has promised all, and may do little.
        libc::PR_SET_NO_NEW_PRIVS
        | libc::PR_GET_NO_NEW_PRIVS
        | libc::PR_GET_SECUREBITS
        | libc::PR_CAPBSET_DROP
        | libc::PR_CAPBSET_READ
        | libc::PR_CAP_AMBIENT
        | PR_SET_IO_FLUSHER
        | PR_GET_IO_FLUSHER => at_home(asked),
        // One of them is told here.
        libc::PR_SET_SECUREBITS => {
            let call = call(&asked, asked.args);
            let keeps = asked.args[1] & SECBIT_KEEP_CAPS != 0;
            asked.ask(call, After::KeepsCapabilities(keeps), true);
        }
        libc::PR_SET_KEEPCAPS | libc::PR_SET_DUMPABLE => in_both(asked),
        // Calls that stand in for others would come back to the program.
        PR_SET_SYSCALL_USER_DISPATCH if asked.args[1] != PR_SYS_DISPATCH_OFF => asked.go_home(libc::EINVAL),
        libc::PR_GET_PDEATHSIG | libc::PR_GET_CHILD_SUBREAPER => number_of_home(asked),
        libc::PR_SET_NAME => name(asked),
        _ => asked.here(),
    }
}

fn call(asked: &Asked, args: [u64; 6]) -> Call {
    Call::new(i64::from(asked.nr), args)
}

/// The kernel here does the same when home has done it.
fn in_both(asked: Asked) {
    let call = call(&asked, asked.args);
    asked.ask(call, After::Here, false);
}

/// Values only. Parents and orphans are the home's.
fn at_home(asked: Asked) {
    let call = call(&asked, asked.args);
    asked.ask(call, After::Write(Vec::new()), true);
}

fn number_of_home(asked: Asked) {
    const BYTES: usize = size_of::<i32>();
    let [option, to, ..] = asked.args;
    let out = call(&asked, [option, 0, 0, 0, 0, 0]);
    let out = Call { pointers: 0b10, data: vec![0; BYTES], out_bytes: BYTES as u32, ..out };
    asked.ask(out, After::Write(vec![Back { from: 0, bytes: BYTES, to, counted_at: None }]), false);
}

/// The thread's name is seen in both places.
fn name(asked: Asked) {
    let [option, from, ..] = asked.args;
    let mut name = [0; NAME_BYTES];
    // A short name may end where the memory does.
    let readable = |bytes: &usize| guest_memory::read(asked.waiting.host_tid.0, from, &mut name[..*bytes]).is_ok();
    if (1..=NAME_BYTES).rev().find(readable).is_none() {
        return asked.here();
    }
    name[NAME_BYTES - 1] = 0;
    let set = Call { pointers: 0b10, data: name.to_vec(), ..call(&asked, [option, 0, 0, 0, 0, 0]) };
    asked.ask(set, After::Here, false);
}

#[cfg(test)]
mod tests {
    use systable::filter::{ARCH, Action, action};

    /// While a body is taken apart home may have stopped its deputy, and waits for the room. Where
    /// filters cannot be suspended (`Stopped::suspend_filters`) they see what is asked then.
    #[test]
    fn what_is_asked_in_a_stopped_body_is_not_home_s_to_answer() {
        const PRCTL: u32 = libc::SYS_prctl as u32;
        // PR_GET_DUMPABLE, TSC, TIMERSLACK, MCE_KILL_GET, TID_ADDRESS, SPECULATION_CTRL
        // (checkpoint::collect).
        let asked = image::SETTINGS.iter().map(|(get, _)| *get).chain([3, 25, 30, 34, 40, 52]);
        for number in asked {
            let made = action(ARCH, PRCTL, &[u64::from(number), 0, 0, 0, 0, 0]);
            assert!(matches!(made, Action::Allow), "prctl {number}: {made:?}");
        }
        for call in [libc::SYS_membarrier, libc::SYS_personality, libc::SYS_arch_prctl, libc::SYS_rt_sigaction] {
            assert!(matches!(action(ARCH, call as u32, &[0; 6]), Action::Allow), "{call}");
        }
    }
}
