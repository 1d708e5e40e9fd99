//! The registered tasks of one real processor, and which of them should be preferred now.
//!
//! The kernel's ready queue cannot be reordered, so the order list is kept beside it. All local
//! work is one member of the list, [`Member::Local`], which never has messages. The agent reports
//! what happens (arrivals, receives, blocking, CPU time), and asks after each report which task it
//! should prefer. At most one is: the head of the list, until its quantum ends, if a message waited
//! for it when it got there or has come since. A head without messages needs no help: the kernel
//! shares the processor.
//!
//! Two bounds protect local work. Under SDCA the member for local work is overtaken at most so many
//! times, and then nothing is preferred for a quantum, whatever arrives. Under all rules
//! [`LocalShare`] bounds the time for which tasks are preferred.

use crate::cpu_use::DecayedUse;
use crate::local_share::{LocalShare, LocalShareError, Preference};
use crate::order::{Arrival, Entry, OrderList};
use crate::rule::ArrivalRule;

/// The most tasks of one processor.
const MOST_TASKS: usize = 4096;

/// Name of a registered task: a thread number, or what the agent likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(pub u64);

/// A member of the order list of a real processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    /// All local work.
    Local,
    /// A registered task.
    Task(TaskId),
}

/// Why a task was not registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// The task is registered.
    #[error("the task is registered already")]
    Known,
    /// The processor has too many tasks.
    #[error("a processor has at most {MOST_TASKS} registered tasks")]
    TooMany,
}

/// The settings of a real processor.
#[derive(Clone, Copy, Debug)]
pub struct ProcessorSettings {
    /// The rule for arrivals.
    pub rule: ArrivalRule,
    /// The time for which a task is preferred at most, microseconds.
    pub quantum_us: u64,
    /// The half-life of CPU time for [`ArrivalRule::Share`], microseconds.
    pub half_life_us: u64,
    /// The share that local work keeps, thousandths.
    pub local_share: u32,
}

impl Default for ProcessorSettings {
    /// SDCA with five overtakings and a quantum of 10 ms.
    fn default() -> ProcessorSettings {
        ProcessorSettings {
            rule: ArrivalRule::Climb { most_overtakes: 5 },
            quantum_us: 10_000,
            half_life_us: DecayedUse::HALF_LIFE_US,
            local_share: LocalShare::SHARE,
        }
    }
}

/// A registered task or local work, in the list or not.
#[derive(Clone, Copy, Debug)]
struct Known {
    member: Member,
    cpu: DecayedUse,
}

/// The order of one real processor.
#[derive(Clone, Debug)]
pub struct Processor {
    settings: ProcessorSettings,
    known: Vec<Known>,
    order: OrderList<Member>,
    share: LocalShare,
    /// A message has come for the head, before or since it got there.
    head_has_messages: bool,
    /// The head is local work, which was overtaken too often: no arrival changes the order.
    is_local_turn: bool,
    turn_ends_us: u64,
}

impl Processor {
    /// Starts with local work alone.
    ///
    /// # Errors
    /// The local share is not from 1 to 999 thousandths.
    pub fn new(settings: ProcessorSettings, now_us: u64) -> Result<Processor, LocalShareError> {
        let settings = ProcessorSettings { quantum_us: settings.quantum_us.clamp(100, 10_000_000), ..settings };
        let share = LocalShare::new(settings.local_share, LocalShare::WINDOW_US, now_us)?;
        let cpu = DecayedUse::new(settings.half_life_us, now_us);
        let mut order = OrderList::default();
        order.insert_bottom(Entry::new(Member::Local, 0));
        let known = vec![Known { member: Member::Local, cpu }];
        let mut own = Processor {
            settings,
            known,
            order,
            share,
            head_has_messages: false,
            is_local_turn: false,
            turn_ends_us: 0,
        };
        own.dispatch(now_us);
        Ok(own)
    }

    /// Adds a task that is ready to run.
    ///
    /// # Errors
    /// The task is known, or there are too many. Nothing has changed then.
    pub fn register(&mut self, task: TaskId, now_us: u64) -> Result<(), RegisterError> {
        let member = Member::Task(task);
        if self.known.iter().any(|known| known.member == member) {
            return Err(RegisterError::Known);
        }
        if self.known.len() > MOST_TASKS {
            return Err(RegisterError::TooMany);
        }
        self.known.push(Known { member, cpu: DecayedUse::new(self.settings.half_life_us, now_us) });
        self.order.insert_bottom(Entry::new(member, 0));
        Ok(())
    }

    /// Removes a task that has ended or is not scheduled together with others any more.
    pub fn forget(&mut self, task: TaskId, now_us: u64) {
        self.blocked(task, now_us);
        self.known.retain(|known| known.member != Member::Task(task));
    }

    /// Notes a message that arrived for a task (Algorithm 2). A task that had blocked is ready
    /// again. Messages for unknown tasks change nothing.
    pub fn arrived(&mut self, task: TaskId, now_us: u64) {
        self.tick(now_us);
        let member = Member::Task(task);
        let Some(known) = self.known.iter().find(|known| known.member == member) else { return };
        self.order.insert_bottom(Entry::new(member, known.cpu.value_us(now_us)));
        if matches!(self.settings.rule, ArrivalRule::Share { .. }) {
            self.update_use(now_us);
        }
        let rule = if self.is_local_turn { ArrivalRule::Keep } else { self.settings.rule };
        match self.order.deliver(member, rule) {
            Arrival::Preempts => self.dispatch(now_us),
            _ => self.head_has_messages |= self.order.head() == Some(member),
        }
        if let ArrivalRule::Climb { most_overtakes } = rule {
            let local = self.order.get(Member::Local);
            if local.is_some_and(|local| local.overtaken > 0 && local.overtaken >= most_overtakes) {
                self.order.promote(Member::Local);
                self.dispatch(now_us);
                self.is_local_turn = true;
            }
        }
        self.tick(now_us);
    }

    /// Notes that a task has taken one message.
    pub fn received(&mut self, task: TaskId) {
        if let Some(entry) = self.order.get_mut(Member::Task(task)) {
            entry.pending = entry.pending.saturating_sub(1);
        }
    }

    /// Notes that a task waits for something, and leaves the list until a message arrives or it is
    /// [`ready`](Self::ready).
    pub fn blocked(&mut self, task: TaskId, now_us: u64) {
        let was_head = self.order.head() == Some(Member::Task(task));
        self.order.remove(Member::Task(task));
        if was_head {
            self.dispatch(now_us);
        }
        self.tick(now_us);
    }

    /// Notes that a known task is ready to run for another cause than a message.
    pub fn ready(&mut self, task: TaskId, now_us: u64) {
        let member = Member::Task(task);
        if let Some(known) = self.known.iter().find(|known| known.member == member) {
            self.order.insert_bottom(Entry::new(member, known.cpu.value_us(now_us)));
        }
        self.tick(now_us);
    }

    /// Notes CPU time that a member has used since the last such report, microseconds.
    pub fn ran(&mut self, member: Member, ran_us: u64, now_us: u64) {
        if let Some(known) = self.known.iter_mut().find(|known| known.member == member) {
            known.cpu.add(ran_us, now_us);
        }
    }

    /// Ends the head's quantum if its time has come. However late the call is, one quantum ends.
    pub fn tick(&mut self, now_us: u64) {
        let is_over = now_us >= self.turn_ends_us;
        // A clock that was set back far would leave the head there until it is as late again.
        let is_absurd = self.turn_ends_us > now_us.saturating_add(self.settings.quantum_us);
        if is_over || is_absurd {
            self.order.rotate();
            self.dispatch(now_us);
        }
        self.share.note(self.preference(), now_us);
        // The bound may have been reached at this very moment.
        self.share.note(self.preference(), now_us);
    }

    /// Names the task that should be preferred, as of the last report.
    pub fn preferred(&self) -> Option<TaskId> {
        match self.order.head() {
            Some(Member::Task(task)) if self.head_has_messages && self.share.allows() => Some(task),
            _ => None,
        }
    }

    /// Gives the moment for the next [`tick`](Self::tick) if nothing happens before; `None` if all
    /// registered tasks wait, so that nothing will change.
    pub fn next_tick_us(&self) -> Option<u64> {
        let is_idle = self.order.len() == 1;
        (!is_idle).then(|| self.share.changes_us().map_or(self.turn_ends_us, |us| us.min(self.turn_ends_us)))
    }

    fn preference(&self) -> Preference {
        if self.preferred().is_some() { Preference::Distributed } else { Preference::None }
    }

    fn dispatch(&mut self, now_us: u64) {
        self.head_has_messages = self.order.dispatch().is_some_and(|head| head.drained > 0);
        self.turn_ends_us = now_us.saturating_add(self.settings.quantum_us);
        self.is_local_turn = false;
    }

    /// Copies what is remembered of CPU time into the list.
    fn update_use(&mut self, now_us: u64) {
        for known in &self.known {
            if let Some(entry) = self.order.get_mut(known.member) {
                entry.cpu_us = known.cpu.value_us(now_us);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use gossip::Draw;

    use super::*;

    const A: TaskId = TaskId(1);
    const B: TaskId = TaskId(2);

    fn processor(rule: ArrivalRule) -> Processor {
        let settings = ProcessorSettings { rule, ..ProcessorSettings::default() };
        let mut processor = Processor::new(settings, 0).unwrap();
        processor.register(A, 0).unwrap();
        processor.register(B, 0).unwrap();
        processor
    }

    #[test]
    fn a_receiver_is_preferred_for_a_quantum() {
        let mut processor = processor(ArrivalRule::Climb { most_overtakes: 5 });
        assert_eq!(processor.preferred(), None);
        processor.arrived(B, 1_000);
        assert_eq!((processor.preferred(), processor.next_tick_us()), (Some(B), Some(11_000)));
        processor.tick(10_999);
        assert_eq!(processor.preferred(), Some(B));
        processor.tick(11_000);
        assert_eq!(processor.preferred(), None);
    }

    #[test]
    fn a_blocked_task_is_not_preferred_until_its_message_comes() {
        let mut processor = processor(ArrivalRule::Climb { most_overtakes: 5 });
        processor.arrived(A, 0);
        processor.blocked(A, 10);
        assert_eq!(processor.preferred(), None);
        processor.arrived(A, 20);
        assert_eq!(processor.preferred(), Some(A));
        processor.forget(A, 30);
        processor.arrived(A, 40);
        processor.ready(A, 50);
        assert_eq!(processor.preferred(), None);
        assert!(processor.next_tick_us().is_some());
        processor.blocked(B, 60);
        assert_eq!(processor.next_tick_us(), None);
        // However long nothing happened, the next arrival counts at once.
        processor.arrived(B, 60_000_000);
        assert_eq!((processor.preferred(), processor.next_tick_us()), (Some(B), Some(60_010_000)));
    }

    #[test]
    fn local_work_gets_a_quantum_after_so_many_overtakings() {
        let mut processor = processor(ArrivalRule::Climb { most_overtakes: 3 });
        let (mut turns, mut now_us) = (Vec::new(), 0);
        while now_us < 300_000 {
            for (task, other) in [(A, B), (B, A)] {
                now_us += 100;
                processor.arrived(task, now_us);
                turns.push(processor.preferred());
                processor.blocked(other, now_us);
            }
        }
        // Preferred until local work is overtaken for the third time, and then not for 10 ms.
        let runs: Vec<&[Option<TaskId>]> = turns.chunk_by(|a, b| a.is_some() == b.is_some()).collect();
        let local: Vec<usize> = runs.iter().filter(|run| run[0].is_none()).map(|run| run.len()).collect();
        assert!(local.len() > 10 && local[1..local.len() - 1].iter().all(|length| *length >= 99), "{local:?}");
        let preferred = runs.iter().filter(|run| run[0].is_some());
        assert!(preferred.clone().count() > 10, "{runs:?}");
    }

    #[test]
    fn the_head_is_preferred_when_a_message_comes_for_it() {
        let mut processor = processor(ArrivalRule::Keep);
        processor.tick(10_000);
        assert_eq!((processor.order.head(), processor.preferred()), (Some(Member::Task(A)), None));
        processor.arrived(A, 12_000);
        assert_eq!((processor.preferred(), processor.next_tick_us()), (Some(A), Some(20_000)));
        processor.tick(20_000);
        assert_eq!(processor.preferred(), None);
    }

    #[test]
    fn messages_taken_by_the_task_do_not_lift_it() {
        let mut processor = processor(ArrivalRule::Keep);
        processor.arrived(A, 0);
        processor.received(A);
        processor.received(A);
        processor.tick(10_000);
        assert_eq!((processor.order.head(), processor.preferred()), (Some(Member::Task(A)), None));
    }

    #[test]
    fn sobalvarros_rule_counts_recent_use() {
        let mut processor = processor(ArrivalRule::Share { share_us: 100_000 });
        processor.arrived(A, 0);
        assert_eq!(processor.preferred(), None);
        processor.ran(Member::Local, 100_000, 0);
        processor.arrived(A, 0);
        assert_eq!(processor.preferred(), None);
        processor.ran(Member::Local, 1, 0);
        processor.arrived(A, 0);
        assert_eq!(processor.preferred(), Some(A));
        processor.ran(Member::Task(A), 300_000, 0);
        processor.arrived(B, 2_000_000);
        assert_eq!(processor.preferred(), None);
    }

    #[test]
    fn a_flood_leaves_local_work_its_share() {
        for rule in [ArrivalRule::Climb { most_overtakes: u32::MAX }, ArrivalRule::Share { share_us: 0 }] {
            let mut processor = processor(rule);
            let mut preferred_us = 0;
            for at_us in (0..60_000_000).step_by(500) {
                processor.ran(Member::Local, 400, at_us);
                processor.arrived(A, at_us);
                processor.arrived(B, at_us);
                preferred_us += if processor.preferred().is_some() { 500 } else { 0 };
            }
            assert!(preferred_us > 20_000_000, "{rule:?}: {preferred_us}");
            assert!(preferred_us < 55_500_000, "{rule:?}: {preferred_us}");
        }
    }

    #[test]
    fn random_reports_and_absurd_times_end() {
        let mut draw = Draw::new(9);
        for rule in [ArrivalRule::Keep, ArrivalRule::Share { share_us: 3 }, ArrivalRule::Climb { most_overtakes: 2 }] {
            let mut processor = processor(rule);
            for _ in 0..20_000 {
                let task = TaskId(draw.below(5) as u64);
                let now_us = draw.bits() >> draw.below(64);
                match draw.below(8) {
                    0 => processor.forget(task, now_us),
                    1 => drop(processor.register(task, now_us)),
                    2 => processor.blocked(task, now_us),
                    3 => processor.ready(task, now_us),
                    4 => processor.ran(Member::Task(task), draw.bits(), now_us),
                    5 => processor.received(task),
                    6 => processor.tick(now_us),
                    _ => processor.arrived(task, now_us),
                }
                assert!(processor.order.get(Member::Local).is_some());
                assert!(processor.order.len() <= processor.known.len());
            }
        }
        let mut full = processor(ArrivalRule::Keep);
        assert_eq!(full.register(A, 0), Err(RegisterError::Known));
        let refused = (10..).map(|n| full.register(TaskId(n), 0)).take(2 * MOST_TASKS).find(Result::is_err);
        assert_eq!(refused, Some(Err(RegisterError::TooMany)));
    }
}
