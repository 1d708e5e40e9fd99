//! Descriptors of processes (pidfd_open(2)). One's own is the hosting kernel's; that of another
//! process is made and kept at home, where all processes are, and has a stand-in here.

use crate::calls::served::Asked;
use crate::state::calls::after::{After, Made};
use room_protocol::message::{Call, StandinId};
use std::sync::Arc;

/// Serves the call pidfd_open(2).
pub fn open(asked: Asked) {
    if asked.args[0] as i32 == asked.who.pid {
        return asked.here();
    }
    if asked.is_made_again() {
        return;
    }
    let made = Made {
        who: asked.who,
        // PIDFD_NONBLOCK (linux/pidfd.h).
        nonblocking: asked.args[1] & libc::O_NONBLOCK as u64 != 0,
        close_on_exec: true,
        listener: None,
        back: Vec::new(),
    };
    asked.forward_and_then(|_| After::Descriptor(Arc::new(made)));
}

/// pidfd_send_signal to another process.
pub fn signal(asked: Asked, standin: StandinId) {
    on_standin(asked, |call| call.standin = Some(standin));
}

/// The process whose `/proc/PID` directory a call names in the place of a descriptor of it, as
/// home's kernel lets it.
pub fn directory(asked: &Asked) -> Option<i32> {
    let link = os::process::link(asked.waiting.host_tid.0, &format!("fd/{}", asked.args[0] as i32)).ok()?;
    let name = link.strip_prefix("/proc").ok()?.to_str()?;
    name.parse().ok().filter(|pid| *pid > 0)
}

/// pidfd_send_signal by such a directory. Home's processes have these numbers.
pub fn signal_by_directory(asked: Asked) {
    let Some(pid) = directory(&asked) else { return asked.value(-i64::from(libc::EBADF)) };
    let [_, signal, info, flags, ..] = asked.args;
    if flags as u32 != 0 {
        return asked.value(-i64::from(libc::EINVAL));
    }
    match asked.pack() {
        Ok((packed, back)) => {
            let (nr, pointers) =
                if info == 0 { (libc::SYS_kill, 0) } else { (libc::SYS_rt_sigqueueinfo, packed.pointers) };
            let args = [pid as u64, signal, packed.args[2], 0, 0, 0];
            let call = Call { pointers, data: packed.data, ..Call::new(nr, args) };
            asked.ask(call, After::Write(back), true);
        }
        Err(errno) => asked.value(-i64::from(errno)),
    }
}

/// waitid of the process that a descriptor names. Of no stand-in the hosting kernel knows that it
/// is no child's.
pub fn wait(asked: Asked) {
    match asked.standin(1) {
        Some(standin) => on_standin(asked, |call| call.also = Some((1, standin))),
        None => asked.here(),
    }
}

fn on_standin(asked: Asked, name: impl FnOnce(&mut Call)) {
    match asked.pack() {
        Ok((mut call, back)) => {
            name(&mut call);
            asked.ask(call, After::Write(back), true);
        }
        Err(errno) => asked.value(-i64::from(errno)),
    }
}
