//! Siginfos that wait for their signal, by the ticket that the signal carries.

use os::ptrace::HostTid;
use os::signals::{self, Waiting};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Siginfos that wait for their signal.
#[derive(Debug, Default)]
pub struct Signals {
    /// By ticket: for which process, and what. A guest that forges a ticket gets no more than its
    /// own process' siginfo.
    pub tickets: BTreeMap<u64, (i32, [u8; 128])>,
    pub last_ticket: u32,
    /// The last tickets of each standard signal.
    pub standard: HashMap<Target, VecDeque<u64>>,
    /// Signals that came for processes before their programs ran.
    pub early: HashMap<i32, Waiting>,
    /// Threads that wait for a signal, and where what it carries is to be put.
    pub takers: HashMap<HostTid, u64>,
}

/// Process, thread if it is for one, and number of a signal.
pub type Target = (i32, Option<i32>, i32);

/// Most tickets: a signal that a program takes without asking what it carries leaves its ticket
/// behind. Beyond them the oldest are forgotten.
pub const TICKETS_MAX: usize = 1 << 16;

/// Tickets of one standard signal: one that waits, and some that threads have taken and the tracer
/// has not seen.
pub const TICKETS_OF_ONE_MAX: usize = 8;

/// Marks a siginfo of ours: si_code SI_QUEUE, and this in the upper half of the value. The lower
/// one numbers the ticket.
pub const TICKET_MARK: u64 = 0x7465_726e << 32;

pub const SI_QUEUE: i32 = -1;

/// Offsets in siginfo_t on x86-64: si_signo 0, si_errno 4, si_code 8, then the union at 16 (pid and
/// uid, then value at 24).
pub const AT_CODE: usize = 8;

pub const AT_SENDER: usize = 16;

pub const AT_VALUE: usize = 24;

pub fn word(info: &[u8; 128], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&info[at..at + 8]);
    u64::from_le_bytes(bytes)
}

pub fn number(info: &[u8; 128], at: usize) -> i32 {
    word(info, at & !7).wrapping_shr(8 * (at as u32 & 7)) as i32
}

impl Signals {
    /// Returns the siginfo to send to `pid` (or one thread of it) for `info`.
    pub fn ticket(&mut self, pid: i32, tid: Option<i32>, info: [u8; 128]) -> [u8; 128] {
        self.last_ticket = self.last_ticket.wrapping_add(1);
        let ticket = TICKET_MARK | u64::from(self.last_ticket);
        let signal = number(&info, 0);
        if signal < signals::REAL_TIME_FIRST {
            let of_one = self.standard.entry((pid, tid, signal)).or_default();
            of_one.push_back(ticket);
            let too_old = if of_one.len() > TICKETS_OF_ONE_MAX { of_one.pop_front() } else { None };
            too_old.map(|old| self.tickets.remove(&old));
        }
        if self.tickets.len() >= TICKETS_MAX {
            self.tickets.pop_first();
        }
        self.tickets.insert(ticket, (pid, info));
        let mut sent = [0; 128];
        sent[..4].copy_from_slice(&info[..4]);
        sent[AT_CODE..AT_CODE + 4].copy_from_slice(&SI_QUEUE.to_le_bytes());
        sent[AT_VALUE..AT_VALUE + 8].copy_from_slice(&ticket.to_le_bytes());
        sent
    }

    /// A signal that was sent with this may still wait in its kernel.
    pub fn may_wait(&self, target: Target) -> bool {
        let last = self.standard.get(&target).and_then(VecDeque::back);
        last.is_some_and(|ticket| self.tickets.contains_key(ticket))
    }

    /// What was to be sent so was not.
    pub fn take_back(&mut self, sent: &[u8; 128]) {
        self.tickets.remove(&word(sent, AT_VALUE));
    }

    /// The true siginfo of one that is about to be delivered to `pid`, if it is one of ours.
    pub fn redeem(&mut self, pid: i32, sent: &[u8; 128]) -> Option<[u8; 128]> {
        let ticket = word(sent, AT_VALUE);
        let ours =
            number(sent, AT_CODE) == SI_QUEUE && self.tickets.get(&ticket).is_some_and(|(owner, _)| *owner == pid);
        ours.then(|| self.tickets.remove(&ticket)).flatten().map(|(_, info)| info)
    }

    /// A thread is about to take a signal; what it carries is written there.
    pub fn takes(&mut self, host: HostTid, to: u64) {
        self.takers.insert(host, to);
    }

    /// A thread ended.
    pub fn forget_thread(&mut self, host: HostTid) {
        self.takers.remove(&host);
    }

    /// Puts the true siginfo in the place of one that waits, which goes elsewhere; should the
    /// process stay, it can still be redeemed.
    pub fn fill_in(&self, pid: i32, info: &mut [u8]) {
        let Ok(sent) = <&[u8; 128]>::try_from(&*info) else { return };
        let found = self.tickets.get(&word(sent, AT_VALUE)).filter(|(owner, _)| *owner == pid);
        if let Some((_, original)) = found.filter(|_| number(sent, AT_CODE) == SI_QUEUE) {
            info.copy_from_slice(original);
        }
    }

    /// The process is gone; what was not delivered to it never will be.
    pub fn forget(&mut self, pid: i32) {
        self.tickets.retain(|_, (owner, _)| *owner != pid);
        self.standard.retain(|(owner, ..), _| *owner != pid);
        self.early.remove(&pid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(signal: i32, code: i32) -> [u8; 128] {
        let mut info = [7; 128];
        info[..4].copy_from_slice(&signal.to_le_bytes());
        info[8..12].copy_from_slice(&code.to_le_bytes());
        info
    }

    #[test]
    fn tickets_are_redeemed_once_by_their_process() {
        let mut signals = Signals::default();
        for original in [info(15, 0), info(34, SI_QUEUE), info(10, -6)] {
            let mut sent = signals.ticket(7, None, original);
            assert_eq!((number(&sent, 0), number(&sent, AT_CODE)), (number(&original, 0), SI_QUEUE));
            // What the kernel makes of the sender on the way into the room: PID 0, the overflow
            // user.
            sent[16..24].copy_from_slice(&(65534u64 << 32).to_le_bytes());
            assert_eq!(signals.redeem(8, &sent), None);
            assert_eq!(signals.redeem(7, &sent), Some(original));
            assert_eq!(signals.redeem(7, &sent), None);
        }
    }

    #[test]
    fn tickets_of_the_dead_are_forgotten() {
        let mut signals = Signals::default();
        let sent = signals.ticket(7, None, info(15, 0));
        signals.forget(7);
        assert_eq!(signals.redeem(7, &sent), None);
        assert_eq!(signals.redeem(7, &info(15, SI_QUEUE)), None);
    }

    /// Each signal of a flood left a ticket for the life of its process.
    #[test]
    fn a_flood_leaves_few_tickets() {
        let mut signals = Signals::default();
        let first = signals.ticket(7, None, info(15, 0));
        assert!(
            signals.may_wait((7, None, 15)) && !signals.may_wait((7, Some(7), 15)) && !signals.may_wait((8, None, 15))
        );
        assert!(signals.redeem(7, &first).is_some() && !signals.may_wait((7, None, 15)));
        (0..1000).for_each(|_| assert_ne!(signals.ticket(7, None, info(15, 0)), first));
        assert_eq!(signals.tickets.len(), TICKETS_OF_ONE_MAX);
        let sent: Vec<_> = (0..TICKETS_MAX).map(|_| signals.ticket(7, None, info(34, 0))).collect();
        assert_eq!(signals.tickets.len(), TICKETS_MAX);
        assert_eq!(signals.redeem(7, &sent[TICKETS_MAX - 1]), Some(info(34, 0)));
        signals.take_back(&sent[TICKETS_MAX - 2]);
        assert_eq!(signals.redeem(7, &sent[TICKETS_MAX - 2]), None);
        signals.forget(7);
        assert!(signals.tickets.is_empty() && signals.standard.is_empty());
    }
}
