//! The state of the policy between decisions: moves under way, refusals, promises. The daemon and
//! the simulator run the same code.

use std::collections::{BTreeMap, VecDeque};

use crate::{
    Ask, Cause, Inputs, Move, NodeView, Params, ProcessView, Record, Refusal, Settings, Verdict, admit, decide,
};

/// The most moves that a node has under way at once.
const ORDERS_MAX: usize = 4;
/// After a refusal the node asks another target at once, as long as fewer targets than this have
/// refused lately. Readings are old, and other nodes take free places meanwhile: a node that waited
/// a second after each refusal would always be too late.
const REFUSALS_MAX: usize = 3;
/// The most promises that a node gives at once, whatever the askers want.
const PROMISES_MAX: usize = 256;

/// Resources promised to a process that is about to arrive.
#[derive(Clone, Copy, Debug)]
struct Promise {
    demand_milli: u32,
    memory_mib: u32,
    until_ms: u64,
}

/// A reservation of memory for a process that its user moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Id of the node that asks.
    pub from: u64,
    /// Id of the process on that node.
    pub process: u64,
    /// Memory that the process needs, MiB.
    pub memory_mib: u32,
    /// Reserve even if too little memory is free.
    pub force: bool,
}

/// The policy's state on one node.
#[derive(Clone, Debug, Default)]
pub struct Mover {
    settings: Settings,
    /// Ids of the processes that are moving, with the time until which each move counts as under
    /// way.
    orders: BTreeMap<u64, u64>,
    /// Ids of the nodes that refused, with the time until which each is not asked again.
    refused: BTreeMap<u64, u64>,
    /// Promises by the asking node and its process.
    promises: BTreeMap<(u64, u64), Promise>,
    /// Times at which processes arrived.
    arrivals: VecDeque<u64>,
    /// The latest time that a caller has passed.
    now_ms: u64,
}

impl Mover {
    /// Creates the state with these settings.
    pub fn new(settings: Settings) -> Mover {
        Mover { settings, ..Mover::default() }
    }

    /// Gives the owner's settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Replaces the owner's settings.
    pub fn set(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// The policy's numbers.
    pub fn params(&self) -> &Params {
        &self.settings.params
    }

    /// Decides, once a second or after a change. Processes that are already moving and targets that
    /// have just refused are left out.
    pub fn consider(
        &mut self,
        now_ms: u64,
        own: NodeView,
        processes: Vec<ProcessView>,
        known: impl Iterator<Item = NodeView>,
    ) -> Record {
        self.note_time(now_ms);
        self.orders.retain(|_, until_ms| *until_ms > now_ms);
        self.refused.retain(|_, until_ms| *until_ms > now_ms);
        let settings = &self.settings;
        let has_guests = || processes.iter().any(|p| p.home != own.id);
        let evict = !(settings.guests && own.guests) && has_guests();
        let mut processes = processes;
        processes.retain(|p| !self.orders.contains_key(&p.id));
        let stale_ms = settings.params.stale_ms;
        let known = known.filter(|n| n.age_ms <= stale_ms && !self.refused.contains_key(&n.id)).map(NodeView::bounded);
        let inputs = Inputs {
            params: settings.params,
            stay: settings.stay || self.orders.len() >= ORDERS_MAX,
            quiet: settings.quiet,
            evict,
            own,
            processes,
            known: known.collect(),
        };
        let verdict = decide(&inputs);
        Record { at_ms: now_ms, inputs, verdict }
    }

    /// Forgets all deadlines if the clock was set back. They would otherwise hold for far too long.
    fn note_time(&mut self, now_ms: u64) {
        if now_ms < self.now_ms {
            self.orders.clear();
            self.refused.clear();
            self.promises.clear();
            self.arrivals.clear();
        }
        self.now_ms = now_ms;
    }

    /// Turns a decision into a move: the process counts as moving for at most `within_ms`. Gives
    /// the move and the request for the target.
    pub fn order(&mut self, now_ms: u64, record: &Record, within_ms: u64) -> Option<(Move, Ask)> {
        let Verdict::Move(order) = record.verdict else { return None };
        let process = record.inputs.processes.iter().find(|p| p.id == order.process)?.clone();
        self.orders.insert(order.process, now_ms + within_ms);
        let ask = Ask { process, from: record.inputs.own, cause: order.cause, scale_ms: order.scale_ms };
        Some((order, ask))
    }

    /// Notes that a move has ended: completed, failed or given up.
    pub fn ended(&mut self, process: u64) {
        self.orders.remove(&process);
    }

    /// Notes that the target refused or did not answer; it is not asked again for `cooldown_ms`.
    /// Returns true if the node should ask another target at once.
    pub fn was_refused(&mut self, now_ms: u64, process: u64, node: u64, cause: Cause) -> bool {
        self.orders.remove(&process);
        self.refused.retain(|_, until_ms| *until_ms > now_ms);
        self.refused.insert(node, now_ms + u64::from(self.settings.params.cooldown_ms));
        cause == Cause::Balance && self.refused.len() < REFUSALS_MAX
    }

    /// Judges another node's request to send its process, and promises the resources for
    /// `within_ms`.
    ///
    /// # Errors
    /// A [`Refusal`] if the process may not come.
    pub fn admit(&mut self, now_ms: u64, own: NodeView, ask: &Ask, within_ms: u64) -> Result<(), Refusal> {
        let own = self.with_promises(now_ms, own);
        let window_ms = u64::from(self.settings.params.arrivals_ms);
        while self.arrivals.front().is_some_and(|at_ms| now_ms.saturating_sub(*at_ms) >= window_ms) {
            self.arrivals.pop_front();
        }
        if self.promises.len() >= PROMISES_MAX {
            return Err(Refusal::Flood);
        }
        if self.settings.quiet && ask.process.home != own.id {
            return Err(Refusal::NoGuests);
        }
        admit(&own, ask, self.promises.len() + self.arrivals.len(), &self.settings.params)?;
        // The process gets at most this node's cores, whatever demand its present node reports.
        let demand_milli = ask.process.demand_milli.min(own.cores_milli.max(1000));
        let memory_mib = ask.process.memory_mib;
        let promise = Promise { demand_milli, memory_mib, until_ms: now_ms + within_ms };
        self.promises.insert((ask.from.id, ask.process.id), promise);
        Ok(())
    }

    /// Reserves memory for a process for `within_ms`, in the same account as promises. A second
    /// reservation for the same process extends the first.
    ///
    /// # Errors
    /// The memory that the node can give, MiB, if that is too little. The node keeps
    /// `low_memory_milli` of its memory and all promised memory.
    pub fn reserve(&mut self, now_ms: u64, own: NodeView, wanted: Reservation, within_ms: u64) -> Result<(), u32> {
        let Reservation { from, process, memory_mib, force } = wanted;
        let own = self.with_promises(now_ms, own);
        let until_ms = now_ms + within_ms;
        if let Some(promise) = self.promises.get_mut(&(from, process)) {
            promise.until_ms = promise.until_ms.max(until_ms);
            return Ok(());
        }
        let kept_mib = u64::from(own.memory_mib) * u64::from(self.settings.params.low_memory_milli) / 1000;
        let to_give_mib = own.free_mib.saturating_sub(u32::try_from(kept_mib).unwrap_or(u32::MAX));
        let is_full = self.promises.len() >= PROMISES_MAX;
        if !force && (memory_mib > to_give_mib || is_full) {
            return Err(if is_full { 0 } else { to_give_mib });
        }
        if !is_full {
            self.promises.insert((from, process), Promise { demand_milli: 0, memory_mib, until_ms });
        }
        Ok(())
    }

    /// Ends a promise: the process has arrived, or will not come. Gives the promised demand of an
    /// arrived process, thousandths of a core.
    pub fn settle(&mut self, now_ms: u64, from: u64, process: u64, has_come: bool) -> Option<u32> {
        let promise = self.promises.remove(&(from, process)).filter(|_| has_come)?;
        self.arrivals.push_back(now_ms);
        Some(promise.demand_milli)
    }

    /// Gives the node's view with all promised processes counted in, and with `guests` as the owner
    /// has set it.
    pub fn with_promises(&mut self, now_ms: u64, own: NodeView) -> NodeView {
        self.note_time(now_ms);
        self.promises.retain(|_, p| p.until_ms > now_ms);
        let (load, memory) = self.promises.values().fold((0u32, 0u32), |(load, memory), p| {
            (load.saturating_add(p.demand_milli), memory.saturating_add(p.memory_mib))
        });
        NodeView {
            load_milli: own.load_milli.saturating_add(load),
            free_mib: own.free_mib.saturating_sub(memory),
            guests: own.guests && self.settings.guests && !self.settings.quiet,
            ..own
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: u64, load_milli: u32) -> NodeView {
        NodeView {
            id,
            load_milli,
            cores_milli: 1000,
            speed_milli: 1000,
            free_mib: 900,
            memory_mib: 1000,
            guests: true,
            ..NodeView::default()
        }
    }

    fn process(id: u64) -> ProcessView {
        ProcessView {
            id,
            home: 1,
            age_ms: 60_000,
            resident_ms: 60_000,
            demand_milli: 1000,
            memory_mib: 10,
            in_scope: true,
            ..ProcessView::default()
        }
    }

    #[test]
    fn moving_processes_and_refusing_nodes_are_left_alone() {
        let mut mover = Mover::new(Settings::default());
        let consider = |mover: &mut Mover, now_ms| {
            mover.consider(now_ms, node(1, 3000), vec![process(1), process(2), process(3)], [node(2, 0)].into_iter())
        };
        let record = consider(&mut mover, 0);
        let (first, ask) = mover.order(0, &record, 5000).unwrap();
        assert_eq!((ask.cause, ask.from.id), (Cause::Balance, 1));
        let record = consider(&mut mover, 0);
        let (second, _) = mover.order(0, &record, 5000).unwrap();
        assert_ne!(first.process, second.process);
        assert!(mover.was_refused(100, second.process, 2, second.cause), "another is asked at once");
        assert!(!mover.was_refused(100, second.process, 2, Cause::Rotate));
        assert_eq!((3..9).filter(|node| mover.was_refused(100, 1, *node, Cause::Balance)).count(), 1, "but not all");
        let record = consider(&mut mover, 200);
        assert!(mover.order(200, &record, 5000).is_none());
        let record = consider(&mut mover, 3200);
        assert!(mover.order(3200, &record, 5000).is_some());
    }

    #[test]
    fn a_clock_that_is_set_back_or_forward_holds_nothing_up() {
        let mut mover = Mover::new(Settings::default());
        let hours = 36_000_000;
        let consider = |mover: &mut Mover, now_ms| {
            let record = mover.consider(now_ms, node(1, 3000), vec![process(1), process(2)], [node(2, 0)].into_iter());
            matches!(record.verdict, Verdict::Move(_))
        };
        let ask = |id| Ask { process: process(id), from: node(1, 9000), cause: Cause::Balance, scale_ms: 8000 };
        for now_ms in [hours, 0, hours, 1] {
            assert!(consider(&mut mover, now_ms), "at {now_ms}");
            mover.was_refused(now_ms, 1, 2, Cause::Balance);
            assert!(!consider(&mut mover, now_ms + 1));
            assert_eq!(mover.admit(now_ms + 2, node(1, 0), &ask(1), 10_000), Ok(()));
            assert_eq!(mover.admit(now_ms + 2, node(1, 0), &ask(2), 10_000), Ok(()));
            assert_eq!(mover.admit(now_ms + 2, node(1, 0), &ask(3), 10_000), Err(Refusal::Flood));
        }
    }

    #[test]
    fn forged_requests_do_not_shut_the_node() {
        let mut mover = Mover::new(Settings::default());
        let forged = ProcessView { demand_milli: u32::MAX, age_ms: u64::MAX, resident_ms: u64::MAX, ..process(1) };
        for (number, cause) in [Cause::Evict, Cause::Usher, Cause::Balance, Cause::Exchange].into_iter().enumerate() {
            let lag_ms = [i32::MIN, i32::MAX][number % 2];
            let from = NodeView { id: 7, load_milli: u32::MAX, cores_milli: 0, speed_milli: 0, lag_ms, ..node(7, 0) };
            let process = ProcessView { id: number as u64, lag_ms, ..forged.clone() };
            let _ = mover.admit(0, node(2, 0), &Ask { process, from, cause, scale_ms: 0 }, 10_000);
        }
        let told = mover.with_promises(0, node(2, 0)).load_milli;
        assert!(told <= 4000, "{told}");
    }

    #[test]
    fn reserved_memory_is_not_given_twice() {
        let mut mover = Mover::new(Settings::default());
        let wanted = |process, memory_mib| Reservation { from: 1, process, memory_mib, force: false };
        assert_eq!(mover.reserve(0, node(2, 0), wanted(1, 841), 1000), Err(840), "60 of 1000 stay its own");
        assert_eq!(mover.reserve(0, node(2, 0), wanted(1, 500), 1000), Ok(()));
        assert_eq!(mover.reserve(0, node(2, 0), wanted(2, 500), 1000), Err(340));
        assert_eq!(mover.reserve(0, node(2, 0), Reservation { force: true, ..wanted(2, 500) }, 1000), Ok(()));
        assert_eq!(mover.reserve(500, node(2, 0), wanted(1, 500), 1000), Ok(()), "kept for longer");
        assert_eq!(mover.settle(600, 1, 2, false), None);
        assert_eq!(mover.reserve(1200, node(2, 0), wanted(3, 500), 1000), Err(340), "the first is kept still");
        assert_eq!(mover.reserve(1500, node(2, 0), wanted(3, 500), 1000), Ok(()), "and no longer");
    }

    #[test]
    fn promises_count_and_expire() {
        let mut mover = Mover::new(Settings::default());
        let ask = |id| Ask { process: process(id), from: node(1, 9000), cause: Cause::Balance, scale_ms: 8000 };
        assert_eq!(mover.admit(0, node(2, 0), &ask(1), 10_000), Ok(()));
        assert_eq!(mover.with_promises(0, node(2, 0)).load_milli, 1000);
        assert_eq!(mover.admit(0, node(2, 0), &ask(2), 10_000), Ok(()));
        assert_eq!(mover.admit(0, node(2, 0), &ask(3), 10_000), Err(Refusal::Flood));
        assert_eq!(mover.settle(0, 1, 1, true), Some(1000));
        assert_eq!(mover.settle(0, 1, 1, true), None);
        assert_eq!(mover.with_promises(0, node(2, 0)).load_milli, 1000);
        assert_eq!(mover.admit(0, node(2, 0), &ask(3), 10_000), Err(Refusal::Flood), "it has just come");
        assert_eq!(mover.with_promises(10_000, node(2, 0)).load_milli, 0);
        mover.set(Settings { quiet: true, ..Settings::default() });
        assert_eq!(mover.admit(20_000, node(2, 0), &ask(4), 10_000), Err(Refusal::NoGuests));
        assert!(!mover.with_promises(20_000, node(2, 0)).guests);
    }
}
