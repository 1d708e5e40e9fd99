//! What two processes have in common (kcmp(2)). Home says first whether the caller may know, and of
//! whom. What is the room's own of two that live here its kernel compares; descriptors that stay at
//! home, home's does.

use crate::calls::served::Asked;
use crate::state::calls::after::After;
use crate::state::calls::compared::Compared;
use crate::state::shared::Shared;
use os::kcmp::{EPOLL_TARGET, FILE, MEMORY};
use os::ptrace::HostTid;
use room_protocol::message::Call;

/// One descriptor, as far as it can be compared.
enum Side {
    /// Home's, of this number there.
    Home(i32),
    /// One of the room's own.
    Here,
    /// None: it is not open.
    Closed,
}

/// Serves a call that compares.
pub fn serve(asked: Asked) {
    let [first, second, what, one, other, ..] = asked.args;
    let pids = [first as i32, second as i32];
    let (what, numbers) = (what as i32, [one, other]);
    if what == EPOLL_TARGET {
        return asked.go_home(libc::EPERM);
    }
    let hosts = pids.map(|pid| asked.room.guests().host(pid));
    let allowed = Call::new(libc::SYS_kcmp, [first, second, MEMORY as u64, 0, 0, 0]);
    let (call, after) = match (hosts, what) {
        ([Some(a), Some(b)], FILE) if !(0..2).any(|i| is_home(&asked.room, [a, b][i], numbers[i])) => {
            (allowed, After::Compare(Compared { hosts: [a, b], what, numbers }))
        }
        (_, FILE) => {
            let sides = [0, 1].map(|i| side(&asked.room, pids[i], hosts[i], numbers[i] as i32));
            match sides {
                [Side::Home(a), Side::Home(b)] => (
                    Call::new(libc::SYS_kcmp, [first, second, FILE as u64, a as u64, b as u64, 0]),
                    After::Write(Vec::new()),
                ),
                [Side::Closed, _] | [_, Side::Closed] => (allowed, After::Result(-i64::from(libc::EBADF))),
                // One order of what is in two places: that of the processes and their numbers.
                _ => (allowed, After::Result(if (pids[0], one) < (pids[1], other) { 1 } else { 2 })),
            }
        }
        ([Some(a), Some(b)], _) => (allowed, After::Compare(Compared { hosts: [a, b], what, numbers })),
        _ => (Call::new(libc::SYS_kcmp, asked.args), After::Write(Vec::new())),
    };
    asked.ask(call, after, false);
}

fn is_home(room: &Shared, host: HostTid, fd: u64) -> bool {
    room.standin_of(host, fd as i32).is_some()
}

/// `pid`: process or thread of home's. `host`: its number here, if it lives here.
fn side(room: &Shared, pid: i32, host: Option<HostTid>, fd: i32) -> Side {
    let Some(host) = host else { return Side::Home(fd) };
    if os::process::fd_info(host.0, fd).is_err() {
        return Side::Closed;
    }
    let standin = room.standin_of(host, fd);
    let guests = room.guests();
    let pid = guests.who(host).map_or(pid, |who| who.pid);
    let number = standin.and_then(|standin| guests.get(pid)?.numbers.get(&standin).copied());
    number.map_or(Side::Here, Side::Home)
}
