//! What bodies used that ended here. Home's kernel counts their deputies, which used next to
//! nothing: what those who wait for them are told is completed here.

use crate::sandbox::usage::Usage;
use room_protocol::message::{Call, CallId};
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most ended processes that are remembered: those whose parents do not wait for them are
/// forgotten in time.
const ENDED_MAX: usize = 4096;
/// CLOCKS_PER_SEC of the kernel's interface (USER_HZ) is 100.
const US_PER_TICK: u64 = 10_000;

/// The ledger of a room.
#[derive(Debug, Default)]
pub struct Ledger(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    /// What ended processes and their children used, until their parents have waited for them.
    ended: HashMap<i32, Usage>,
    order: VecDeque<i32>,
    /// What the children used for which a living process has waited.
    children: HashMap<i32, Usage>,
    /// Calls that are under way at home.
    calls: HashMap<CallId, Asked>,
}

/// A call whose result is to be completed: who makes it, and where in its bytes what stands.
#[derive(Clone, Copy, Debug)]
struct Asked {
    pid: i32,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    /// The call is wait4 or waitid.
    Wait(Wait),
    /// The call is getrusage(RUSAGE_CHILDREN).
    Children,
    /// times(2): what the process itself used, ticks.
    Times { user: u64, system: u64 },
}

/// Where in the bytes of a wait's result what stands.
#[derive(Clone, Copy, Debug)]
struct Wait {
    usage_at: Option<usize>,
    status_at: Option<usize>,
    info_at: Option<usize>,
    /// The child can be waited for again.
    keeps: bool,
    /// It may be told of a child that has stopped or goes on.
    tells_stops: bool,
}

impl Wait {
    /// Whose change was seen: the result of wait4, or si_pid of waitid, whose result is 0.
    fn child(&self, result: i64, out: &[u8]) -> i32 {
        const SI_PID_AT: usize = 16;
        match result {
            0 => self.info_at.and_then(|at| number(out, at + SI_PID_AT)).unwrap_or(0),
            pid => pid as i32,
        }
    }

    /// The child has ended, and has not only stopped.
    fn is_end(&self, out: &[u8]) -> bool {
        const SI_CODE_AT: usize = 8;
        let status = self.status_at.and_then(|at| number(out, at));
        let code = self.info_at.and_then(|at| number(out, at + SI_CODE_AT));
        match (status, code) {
            (Some(status), _) => libc::WIFEXITED(status) || libc::WIFSIGNALED(status),
            (None, Some(code)) => is_end(code),
            (None, None) => !self.tells_stops,
        }
    }
}

/// A SIGCHLD with this si_code tells of an end.
pub fn is_end(code: i32) -> bool {
    matches!(code, libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED)
}

impl What {
    fn of(call: &Call, own_ticks: impl FnOnce() -> (u64, u64)) -> Option<What> {
        const OTHERS: i32 = libc::WUNTRACED | libc::WCONTINUED;
        let at = |i: usize| (call.pointers & (1 << i) != 0).then_some(call.args[i] as usize);
        Some(match i64::from(call.nr) {
            libc::SYS_wait4 => What::Wait(Wait {
                usage_at: at(3),
                status_at: at(1),
                info_at: None,
                keeps: false,
                tells_stops: call.args[2] as i32 & OTHERS != 0,
            }),
            libc::SYS_waitid => What::Wait(Wait {
                usage_at: at(4),
                status_at: None,
                info_at: at(2),
                keeps: call.args[3] & libc::WNOWAIT as u64 != 0,
                tells_stops: call.args[3] as i32 & OTHERS != 0,
            }),
            libc::SYS_getrusage => What::Children,
            libc::SYS_times => {
                let (user, system) = own_ticks();
                What::Times { user, system }
            }
            _ => return None,
        })
    }
}

impl Ledger {
    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A body ended.
    pub fn ended(&self, pid: i32, own: Usage) {
        let mut entries = self.lock();
        let mut usage = own;
        if let Some(children) = entries.children.remove(&pid) {
            usage.add(&children);
        }
        if entries.ended.insert(pid, usage).is_none() {
            entries.order.push_back(pid);
        }
        if entries.order.len() > ENDED_MAX
            && let Some(oldest) = entries.order.pop_front()
        {
            entries.ended.remove(&oldest);
        }
    }

    /// `pid` makes this call at home: its result may have to be completed. `own_ticks` says what
    /// the process used.
    pub fn asked(&self, id: CallId, pid: i32, call: &Call, own_ticks: impl FnOnce() -> (u64, u64)) {
        if let Some(what) = What::of(call, own_ticks) {
            self.lock().calls.insert(id, Asked { pid, what });
        }
    }

    /// The child of whose end this call tells.
    pub fn end_told(&self, id: CallId, result: i64, out: &[u8]) -> Option<i32> {
        let asked = self.lock().calls.get(&id).copied()?;
        match asked.what {
            What::Wait(wait) if result >= 0 && wait.is_end(out) => Some(wait.child(result, out)),
            _ => None,
        }
    }

    /// The call is over: completes its bytes.
    pub fn answered(&self, id: CallId, result: i64, out: &mut [u8]) {
        let mut entries = self.lock();
        let Some(Asked { pid, what }) = entries.calls.remove(&id).filter(|_| result >= 0) else { return };
        match what {
            What::Wait(wait) => {
                let child = wait.child(result, out);
                let Some(used) = entries.take(child, wait.keeps) else { return };
                if !wait.keeps {
                    entries.children.entry(pid).or_default().add(&used);
                }
                wait.usage_at.into_iter().for_each(|at| add_to(out, at, &used));
            }
            What::Children => {
                let used = entries.children.get(&pid).copied().unwrap_or_default();
                add_to(out, 0, &used);
            }
            What::Times { user, system } => {
                let (children_user, children_system) =
                    entries.children.get(&pid).map_or((0, 0), |used| used.times_us());
                let at_home = |i: usize| word(out, i);
                let ticks = [
                    user,
                    system,
                    at_home(2).saturating_add(children_user / US_PER_TICK),
                    at_home(3).saturating_add(children_system / US_PER_TICK),
                ];
                let bytes: Vec<u8> = ticks.iter().flat_map(|t| t.to_le_bytes()).collect();
                if let Some(place) = out.get_mut(..bytes.len()) {
                    place.copy_from_slice(&bytes);
                }
            }
        }
    }
}

impl Entries {
    fn take(&mut self, child: i32, keeps: bool) -> Option<Usage> {
        if keeps {
            return self.ended.get(&child).copied();
        }
        let used = self.ended.remove(&child)?;
        self.order.retain(|pid| *pid != child);
        Some(used)
    }
}

fn number(out: &[u8], at: usize) -> Option<i32> {
    out.get(at..at + 4).and_then(|b| b.try_into().ok()).map(i32::from_le_bytes)
}

fn word(out: &[u8], i: usize) -> u64 {
    out.get(8 * i..8 * i + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
}

fn add_to(out: &mut [u8], at: usize, used: &Usage) {
    if let Some(place) = out.get_mut(at..at + Usage::BYTES)
        && let Some(mut sum) = Usage::read(place)
    {
        sum.add(used);
        place.copy_from_slice(&sum.bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(us: i64) -> Usage {
        let mut bytes = vec![0; Usage::BYTES];
        bytes[8..16].copy_from_slice(&us.to_le_bytes());
        Usage::read(&bytes).unwrap()
    }

    fn wait4(usage: bool) -> Call {
        let (pointers, args) = if usage { (0b1000, [5, 0, 0, 0, 0, 0]) } else { (0, [5, 0, 0, 0, 0, 0]) };
        Call { pointers, ..Call::new(libc::SYS_wait4, args) }
    }

    #[test]
    fn what_children_used_is_their_parents() {
        let ledger = Ledger::default();
        let none = || (0, 0);
        ledger.ended(5, used(70));
        let mut out = vec![0; Usage::BYTES];
        ledger.asked(CallId(1), 4, &wait4(true), none);
        ledger.answered(CallId(1), 5, &mut out);
        assert_eq!(Usage::read(&out).unwrap().times_us(), (70, 0));
        // A second end of that number, and the parent's.
        ledger.ended(5, used(30));
        ledger.asked(CallId(2), 4, &wait4(false), none);
        ledger.answered(CallId(2), 5, &mut []);
        ledger.ended(4, used(1));
        ledger.asked(CallId(3), 3, &wait4(false), none);
        ledger.answered(CallId(3), 4, &mut []);
        let children = Call { nr: libc::SYS_getrusage as u32, ..wait4(false) };
        out.fill(0);
        ledger.asked(CallId(4), 3, &children, none);
        ledger.answered(CallId(4), 0, &mut out);
        assert_eq!(Usage::read(&out).unwrap().times_us(), (101, 0));
    }

    #[test]
    fn a_child_can_be_looked_at_first() {
        let ledger = Ledger::default();
        ledger.ended(5, used(70));
        let info_bytes = 128;
        let args = [1, 5, 0, libc::WNOWAIT as u64, info_bytes as u64, 0];
        let waitid = Call { nr: libc::SYS_waitid as u32, args, pointers: 0b10100, ..wait4(false) };
        for _ in 0..2 {
            let mut out = vec![0; info_bytes + Usage::BYTES];
            out[16] = 5;
            ledger.asked(CallId(1), 4, &waitid, || (0, 0));
            ledger.answered(CallId(1), 0, &mut out);
            assert_eq!(Usage::read(&out[info_bytes..]).unwrap().times_us(), (70, 0));
        }
    }

    #[test]
    fn what_nobody_waits_for_is_forgotten() {
        let ledger = Ledger::default();
        (1..3 * ENDED_MAX as i32).for_each(|pid| ledger.ended(pid, used(1)));
        assert!(ledger.lock().ended.len() <= ENDED_MAX);
    }
}
