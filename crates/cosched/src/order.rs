//! The order list of one processor: its ready tasks, the running one first (Algorithms 1 and 2).

use std::collections::VecDeque;

use crate::rule::ArrivalRule;

/// One task of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<K> {
    /// Name of the task.
    pub key: K,
    /// Messages that have arrived and wait for the task: the length of its message buffer queue
    /// ("MBQ").
    pub pending: u32,
    /// How often others have overtaken the task since it last ran.
    pub overtaken: u32,
    /// CPU time that the task has had, microseconds.
    pub cpu_us: u64,
}

impl<K> Entry<K> {
    /// Makes the entry of a task without messages.
    pub fn new(key: K, cpu_us: u64) -> Entry<K> {
        Entry { key, pending: 0, overtaken: 0, cpu_us }
    }
}

/// The change of the order by an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The receiver is not in the list.
    Absent,
    /// The message waits. The same task runs.
    Waits,
    /// The receiver runs instead of the former head, which is at the bottom now. The caller
    /// dispatches the new head.
    Preempts,
}

/// A task that was given the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dispatch<K> {
    /// Name of the task.
    pub key: K,
    /// Messages that waited for the task, all of which it takes.
    pub drained: u32,
}

/// The ready tasks of one processor in their order. The head runs. A key occurs once.
#[derive(Clone, Debug)]
pub struct OrderList<K> {
    entries: VecDeque<Entry<K>>,
}

impl<K> Default for OrderList<K> {
    fn default() -> OrderList<K> {
        OrderList { entries: VecDeque::new() }
    }
}

impl<K: Copy + Eq> OrderList<K> {
    /// Names the task at the head.
    pub fn head(&self) -> Option<K> {
        self.entries.front().map(|entry| entry.key)
    }

    /// Counts the tasks.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Tells whether no task is ready.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Iterates over the entries, from the head.
    pub fn iter(&self) -> impl Iterator<Item = &Entry<K>> {
        self.entries.iter()
    }

    /// Finds the entry of a task.
    pub fn get(&self, key: K) -> Option<&Entry<K>> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// Finds the entry of a task, for changes.
    pub fn get_mut(&mut self, key: K) -> Option<&mut Entry<K>> {
        self.entries.iter_mut().find(|entry| entry.key == key)
    }

    /// Finds the entry of the head, for changes.
    pub fn head_mut(&mut self) -> Option<&mut Entry<K>> {
        self.entries.front_mut()
    }

    /// Counts the tasks for which messages wait: those that could be coscheduled.
    pub fn candidates(&self) -> usize {
        self.entries.iter().filter(|entry| entry.pending > 0).count()
    }

    /// Adds a task at the bottom. Leaves the list as it is if the task is there, and says so.
    pub fn insert_bottom(&mut self, entry: Entry<K>) -> bool {
        let is_new = self.get(entry.key).is_none();
        if is_new {
            self.entries.push_back(entry);
        }
        is_new
    }

    /// Adds a task at the bottom that the caller knows not to be in the list.
    pub(crate) fn push_new(&mut self, entry: Entry<K>) {
        self.entries.push_back(entry);
    }

    /// Removes a task that has blocked or ended.
    pub fn remove(&mut self, key: K) -> Option<Entry<K>> {
        self.entries.remove(self.place(key)?)
    }

    /// Gives the processor to the head, which takes its messages and may be overtaken anew.
    pub fn dispatch(&mut self) -> Option<Dispatch<K>> {
        let head = self.entries.front_mut()?;
        head.overtaken = 0;
        Some(Dispatch { key: head.key, drained: std::mem::take(&mut head.pending) })
    }

    /// Moves the head to the bottom. The caller dispatches the new head.
    pub fn rotate(&mut self) {
        if let Some(head) = self.entries.pop_front() {
            self.entries.push_back(head);
        }
    }

    /// Puts a task at the head, and the former head at the bottom. Says whether the head changed.
    pub fn promote(&mut self, key: K) -> bool {
        match self.place(key) {
            None | Some(0) => false,
            Some(place) => {
                if let Some(entry) = self.entries.remove(place) {
                    self.rotate();
                    self.entries.push_front(entry);
                }
                true
            }
        }
    }

    /// Counts a message for a task, and changes the order as the rule says.
    pub fn deliver(&mut self, key: K, rule: ArrivalRule) -> Arrival {
        let Some(place) = self.place(key) else { return Arrival::Absent };
        let own = &mut self.entries[place];
        own.pending = own.pending.saturating_add(1);
        let cpu_us = own.cpu_us;
        if place == 0 {
            return Arrival::Waits;
        }
        match rule {
            ArrivalRule::Keep => Arrival::Waits,
            ArrivalRule::Share { share_us } => {
                if cpu_us.saturating_add(share_us) >= self.entries[0].cpu_us {
                    return Arrival::Waits;
                }
                self.promote(key);
                Arrival::Preempts
            }
            ArrivalRule::Climb { most_overtakes } => match self.climb(place, most_overtakes) {
                0 => {
                    self.retire_second();
                    Arrival::Preempts
                }
                _ => Arrival::Waits,
            },
        }
    }

    /// Moves the task at `place` past its predecessors. Gives its new place.
    fn climb(&mut self, mut place: usize, most_overtakes: u32) -> usize {
        let own = self.entries[place].pending;
        while let Some(before) = place.checked_sub(1) {
            let ahead = &mut self.entries[before];
            if ahead.pending >= own || ahead.overtaken >= most_overtakes {
                break;
            }
            ahead.overtaken += 1;
            self.entries.swap(before, place);
            place = before;
        }
        place
    }

    /// Moves the second task, which was preempted by the first, to the bottom.
    fn retire_second(&mut self) {
        if let Some(preempted) = self.entries.remove(1) {
            self.entries.push_back(preempted);
        }
    }

    fn place(&self, key: K) -> Option<usize> {
        self.entries.iter().position(|entry| entry.key == key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIMB: ArrivalRule = ArrivalRule::Climb { most_overtakes: 2 };

    fn list(keys: &[u32]) -> OrderList<u32> {
        let mut list = OrderList::default();
        for key in keys {
            assert!(list.insert_bottom(Entry::new(*key, 0)));
        }
        list
    }

    fn keys(list: &OrderList<u32>) -> Vec<u32> {
        list.iter().map(|entry| entry.key).collect()
    }

    fn overtaken(list: &OrderList<u32>) -> Vec<u32> {
        list.iter().map(|entry| entry.overtaken).collect()
    }

    #[test]
    fn a_receiver_climbs_to_the_head_and_preempts_it() {
        let mut list = list(&[1, 2, 3, 4]);
        assert_eq!(list.deliver(3, CLIMB), Arrival::Preempts);
        assert_eq!(keys(&list), [3, 2, 4, 1]);
        assert_eq!(overtaken(&list), [0, 1, 0, 1]);
        assert_eq!(list.dispatch(), Some(Dispatch { key: 3, drained: 1 }));
        assert_eq!(list.dispatch(), Some(Dispatch { key: 3, drained: 0 }));
    }

    #[test]
    fn a_task_with_as_many_messages_is_not_overtaken() {
        let mut list = list(&[1, 2, 3]);
        assert_eq!(list.deliver(1, CLIMB), Arrival::Waits);
        assert_eq!(list.deliver(3, CLIMB), Arrival::Waits);
        assert_eq!(keys(&list), [1, 3, 2]);
        assert_eq!(list.candidates(), 2);
        assert_eq!(list.deliver(3, CLIMB), Arrival::Preempts);
        assert_eq!(keys(&list), [3, 2, 1]);
    }

    #[test]
    fn a_task_is_overtaken_so_often_and_no_more_until_it_runs() {
        let mut list = list(&[9, 1, 2, 3, 4]);
        list.head_mut().unwrap().pending = 100;
        for key in [2, 3, 4] {
            assert_eq!(list.deliver(key, CLIMB), Arrival::Waits);
        }
        assert_eq!(keys(&list), [9, 2, 3, 1, 4]);
        assert_eq!(list.get(1).unwrap().overtaken, 2);
        while list.head() != Some(1) {
            list.rotate();
        }
        list.dispatch();
        assert_eq!(list.get(1).unwrap().overtaken, 0);
    }

    #[test]
    fn share_prefers_the_task_that_had_less() {
        let mut list = list(&[1, 2, 3]);
        let share = ArrivalRule::Share { share_us: 100 };
        list.get_mut(1).unwrap().cpu_us = 100;
        assert_eq!(list.deliver(3, share), Arrival::Waits);
        assert_eq!(keys(&list), [1, 2, 3]);
        list.get_mut(1).unwrap().cpu_us = 101;
        assert_eq!(list.deliver(3, share), Arrival::Preempts);
        assert_eq!(keys(&list), [3, 2, 1]);
        assert_eq!(list.dispatch(), Some(Dispatch { key: 3, drained: 2 }));
    }

    #[test]
    fn without_a_rule_the_order_stays() {
        let mut list = list(&[1, 2]);
        list.get_mut(1).unwrap().cpu_us = u64::MAX;
        assert_eq!(list.deliver(2, ArrivalRule::Keep), Arrival::Waits);
        assert_eq!(list.deliver(7, ArrivalRule::Keep), Arrival::Absent);
        assert_eq!(keys(&list), [1, 2]);
    }

    #[test]
    fn extremes_do_no_harm() {
        let mut list = list(&[1, 2]);
        assert!(!list.insert_bottom(Entry::new(2, 5)));
        let second = list.get_mut(2).unwrap();
        (second.pending, second.cpu_us) = (u32::MAX, u64::MAX);
        assert_eq!(list.deliver(2, ArrivalRule::Share { share_us: u64::MAX }), Arrival::Waits);
        let never = ArrivalRule::Climb { most_overtakes: 0 };
        assert_eq!(list.deliver(2, never), Arrival::Waits);
        assert_eq!(list.deliver(2, ArrivalRule::Climb { most_overtakes: u32::MAX }), Arrival::Preempts);
        assert!(list.promote(1) && !list.promote(1) && !list.promote(5));
        assert_eq!((list.remove(5), list.remove(1).map(|e| e.key)), (None, Some(1)));
        assert_eq!(list.remove(2).map(|e| e.pending), Some(u32::MAX));
        list.rotate();
        assert_eq!((list.dispatch(), list.head(), list.is_empty()), (None, None, true));
    }
}
