//! Descriptors of processes (pidfd_open(2)). One's own is the hosting kernel's; that of another process is made and kept at home, where all processes
//! are, and has a stand-in here.

use super::Asked;
use crate::warden::after::{After, Made};
use std::sync::Arc;
use wire::message::{Call, StandinId};

/// pidfd_open.
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

/// waitid of the process that a descriptor names. Of no stand-in the hosting kernel knows that it is no child's.
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
