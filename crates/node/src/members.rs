//! Who is in the cluster, as this daemon knows. Pure.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use control_protocol::facts::Load;
use control_protocol::peer::{Member, PulseEntry};
use gossip::{Bounds, Window};

use crate::choices;

/// How long a name is kept for a newcomer that was admitted but has not come yet.
const ADMITTED_FOR: Duration = Duration::from_secs(120);
/// Loads older than this are not passed on.
const LOAD_MAX_AGE: Duration = Duration::from_secs(60);

/// A member and what is known of it.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) member: Member,
    pub(crate) alive: bool,
    /// Since when `alive` is what it is.
    pub(crate) since: Instant,
    /// Admitted here, not seen alive yet.
    admitted: bool,
    /// The membership protocol hears of it: it is alive unless it is suspended.
    heard: bool,
    /// The member has said that it will not answer for a while.
    pub(crate) suspended: Option<Spell>,
}

/// A time for which a member is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spell {
    pub(crate) since: Instant,
    pub(crate) until: Instant,
}

/// All members but this node itself, by node id, and the newest loads that have come of them.
pub(crate) struct Table {
    known: HashMap<u64, Known>,
    loads: Window<Load>,
    /// Who has left, the latest last: others may tell of them still, and they of themselves while
    /// they say goodbye. Who comes back has another id.
    left: VecDeque<u64>,
    /// Members that have told what no machine has: said once.
    absurd: HashSet<u64>,
    /// Loads are timed from here.
    epoch: Instant,
}

impl Default for Table {
    fn default() -> Table {
        let max_age_ms = u64::try_from(LOAD_MAX_AGE.as_millis()).unwrap_or(u64::MAX);
        let bounds = Bounds { capacity: control_protocol::peer::MEMBERS_MAX, max_age_ms };
        // What was read before this daemon started has its age, too.
        let epoch = Instant::now().checked_sub(LOAD_MAX_AGE).unwrap_or_else(Instant::now);
        Table {
            known: HashMap::new(),
            loads: Window::new(bounds),
            left: VecDeque::new(),
            absurd: HashSet::new(),
            epoch,
        }
    }
}

/// Why a name cannot be given.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    Alive,
    Admitted,
}

impl Table {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Known> {
        self.known.values()
    }

    /// The member of this name; the living one if an old one had it too.
    pub(crate) fn by_name(&self, name: &str) -> Option<&Known> {
        self.known.values().filter(|k| k.member.name == name).max_by_key(|k| (k.alive, k.since))
    }

    /// Takes what the membership protocol says: exactly these are alive. Says whether anything
    /// changed.
    pub(crate) fn set_alive(&mut self, alive: impl Iterator<Item = Member>, now: Instant) -> bool {
        let alive: HashMap<u64, Member> = alive.map(|m| (m.id, m)).collect();
        let mut changed = false;
        for known in self.known.values_mut() {
            known.suspended = known.suspended.filter(|spell| now < spell.until);
            if !alive.contains_key(&known.member.id) {
                known.heard = false;
            }
            if known.alive && !alive.contains_key(&known.member.id) {
                (known.alive, known.since, changed) = (false, now, true);
                self.loads.forget(known.member.id);
            }
        }
        for (id, member) in alive {
            let is_full = !self.known.contains_key(&id) && self.known.len() >= control_protocol::peer::MEMBERS_MAX;
            if is_full || self.left.contains(&id) {
                continue;
            }
            let known = self.known.entry(id).or_insert_with(|| Known::new(member.clone(), now));
            // One that was not heard of and is again has woken, whatever it could say.
            let sleeps = known.heard && known.suspended.is_some();
            known.heard = true;
            if sleeps {
                known.member = member;
            } else if !known.alive || known.member != member {
                let since = if known.alive { known.since } else { now };
                *known = Known { member, alive: true, since, admitted: false, heard: true, suspended: None };
                changed = true;
            }
        }
        changed
    }

    /// A member will not answer for a while. Says whether that changed anything.
    pub(crate) fn suspend(&mut self, id: u64, within: Duration, now: Instant) -> bool {
        let Some(known) = self.known.get_mut(&id) else { return false };
        let since = known.suspended.map_or(now, |spell| spell.since);
        known.suspended = Some(Spell { since, until: now + within });
        self.loads.forget(id);
        if std::mem::replace(&mut known.alive, false) {
            known.since = now;
        }
        true
    }

    /// A member answers again. Says whether that changed anything.
    pub(crate) fn wake(&mut self, id: u64, now: Instant) -> bool {
        let Some(known) = self.known.get_mut(&id) else { return false };
        if known.suspended.take().is_none() {
            return false;
        }
        (known.alive, known.since) = (known.heard, now);
        true
    }

    /// Remembers a member from a list (not alive until it is heard of).
    pub(crate) fn remember(&mut self, member: Member, admitted: bool, now: Instant) {
        if self.known.len() < control_protocol::peer::MEMBERS_MAX && !self.left.contains(&member.id) {
            self.known.entry(member.id).or_insert_with(|| Known { admitted, ..Known::new(member, now) });
        }
    }

    /// It has left for good.
    pub(crate) fn forget(&mut self, id: u64) -> bool {
        self.loads.forget(id);
        if !self.left.contains(&id) {
            self.left.push_back(id);
        }
        if self.left.len() > control_protocol::peer::MEMBERS_MAX {
            self.left.pop_front();
        }
        self.known.remove(&id).is_some()
    }

    /// Is the name free for a newcomer? Dead holders of it are forgotten if so.
    pub(crate) fn claim(&mut self, name: &str, now: Instant) -> Result<(), Taken> {
        for known in self.known.values().filter(|k| k.member.name == name) {
            if known.alive || known.suspended.is_some() {
                return Err(Taken::Alive);
            }
            if known.admitted && now.duration_since(known.since) < ADMITTED_FOR {
                return Err(Taken::Admitted);
            }
        }
        self.known.retain(|_, k| k.member.name != name);
        Ok(())
    }

    /// Takes a load reading of a member, told by any, if it is newer than the one known. What no
    /// machine has is bounded, and is passed on so.
    pub(crate) fn note_load(&mut self, teller: u64, entry: &PulseEntry, now: Instant) {
        if !self.known.contains_key(&entry.id) {
            return;
        }
        let load = choices::bounded(&entry.load);
        if load != entry.load && self.absurd.insert(entry.id) {
            let name = |id| self.known.get(&id).map_or("an unknown node", |k: &Known| k.member.name.as_str());
            tracing::warn!(
                "{} tells of {} a load that no machine has, of which only a part is believed: {:?}",
                name(teller),
                name(entry.id),
                entry.load
            );
        }
        self.loads.note(entry.id, entry.age_ms.into(), load, self.ms(now));
    }

    /// The newest load of a member, and its age.
    pub(crate) fn load(&self, id: u64, now: Instant) -> Option<(Load, Duration)> {
        let reading = self.loads.get(id)?;
        Some((reading.value, Duration::from_millis(self.ms(now).saturating_sub(reading.read_ms))))
    }

    /// The newest `count` readings, for the next datagram.
    pub(crate) fn newest_loads(&self, count: usize, now: Instant) -> Vec<PulseEntry> {
        let newest = self.loads.newest(count, self.ms(now)).into_iter();
        newest
            .map(|(id, age_ms, load)| PulseEntry { id, age_ms: u32::try_from(age_ms).unwrap_or(u32::MAX), load })
            .collect()
    }

    fn ms(&self, now: Instant) -> u64 {
        u64::try_from(now.duration_since(self.epoch).as_millis()).unwrap_or(u64::MAX)
    }
}

impl Known {
    fn new(member: Member, now: Instant) -> Known {
        Known { member, alive: false, since: now, admitted: false, heard: false, suspended: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(id: u64, name: &str) -> Member {
        Member { name: name.into(), id, address: ([127, 0, 0, 1], 1).into(), generation: 0 }
    }

    #[test]
    fn names_are_given_once() {
        let (mut table, now) = (Table::default(), Instant::now());
        table.remember(member(1, "n1"), true, now);
        assert_eq!(table.claim("n1", now), Err(Taken::Admitted));
        assert!(table.set_alive([member(1, "n1")].into_iter(), now));
        assert!(!table.set_alive([member(1, "n1")].into_iter(), now));
        assert_eq!(table.claim("n1", now), Err(Taken::Alive));
        assert!(table.set_alive(std::iter::empty(), now));
        assert_eq!(table.claim("n1", now), Ok(()), "the holder is down: it may be replaced");
        assert!(table.by_name("n1").is_none());
    }

    #[test]
    fn a_suspended_member_is_kept_and_not_chosen() {
        let (mut table, now) = (Table::default(), Instant::now());
        let both = || [member(1, "n1"), member(2, "n2")].into_iter();
        table.set_alive(both(), now);
        let (within, alive) = (Duration::from_secs(60), |table: &Table| table.by_name("n1").unwrap().alive);
        assert!(table.suspend(1, within, now) && !alive(&table));
        assert!(!table.set_alive(both(), now) && !alive(&table), "it is heard of still");
        assert_eq!(table.claim("n1", now), Err(Taken::Alive));
        assert!(table.wake(1, now) && alive(&table) && !table.wake(1, now));
        table.suspend(1, within, now);
        table.set_alive([member(2, "n2")].into_iter(), now);
        assert!(table.by_name("n1").unwrap().suspended.is_some());
        assert!(table.set_alive(both(), now) && alive(&table), "it was away, and is back");
        assert!(table.by_name("n1").unwrap().suspended.is_none());
        table.suspend(1, within, now);
        table.set_alive([member(2, "n2")].into_iter(), now + within);
        assert!(table.by_name("n1").unwrap().suspended.is_none(), "it was waited for long enough");
    }

    /// It takes a new identity when it is told that it is held to be down, as it may be while it
    /// says goodbye; and others may not have heard.
    #[test]
    fn who_has_left_is_not_brought_back() {
        let (mut table, now) = (Table::default(), Instant::now());
        table.set_alive([member(1, "n1"), member(2, "n2")].into_iter(), now);
        assert!(table.forget(2));
        let again = Member { generation: 1, ..member(2, "n2") };
        assert!(!table.set_alive([member(1, "n1"), again.clone()].into_iter(), now));
        table.remember(again, false, now);
        assert!(table.by_name("n2").is_none());
        assert!(table.set_alive([member(1, "n1"), member(3, "n2")].into_iter(), now));
        assert_eq!(table.by_name("n2").map(|known| known.member.id), Some(3));
    }

    #[test]
    fn newest_load_wins() {
        let (mut table, now) = (Table::default(), Instant::now() + Duration::from_secs(3600));
        table.set_alive([member(1, "n1"), member(2, "n2")].into_iter(), now);
        let sensible = Load { capacity_milli: 1000, speed_milli: 1000, ..Load::default() };
        let entry = |id, age_ms, runnable_milli| PulseEntry { id, age_ms, load: Load { runnable_milli, ..sensible } };
        table.note_load(1, &entry(1, 100, 5), now);
        table.note_load(2, &entry(1, 200, 9), now);
        table.note_load(1, &entry(2, 50, 7), now);
        table.note_load(1, &entry(3, 0, 1), now);
        assert_eq!(table.newest_loads(5, now), vec![entry(2, 50, 7), entry(1, 100, 5)]);
        assert_eq!(table.newest_loads(1, now).len(), 1);
        assert_eq!(table.load(1, now).map(|(load, age)| (load.runnable_milli, age.as_millis())), Some((5, 100)));
        assert!(table.load(3, now).is_none(), "not a member");
        table.set_alive([member(2, "n2")].into_iter(), now);
        assert!(table.load(1, now).is_none(), "what a dead node said is not passed on");
    }

    #[test]
    fn what_no_machine_has_is_noticed() {
        let (mut table, now) = (Table::default(), Instant::now());
        table.set_alive([member(1, "n1"), member(2, "n2")].into_iter(), now);
        let sensible = Load { cores: 2, capacity_milli: 2000, speed_milli: 1000, ..Load::default() };
        table.note_load(1, &PulseEntry { id: 1, age_ms: 0, load: sensible }, now);
        assert!(table.absurd.is_empty());
        let forged = Load { capacity_milli: u32::MAX, speed_milli: u32::MAX, cores: u32::MAX, rooms: 9, ..sensible };
        table.note_load(1, &PulseEntry { id: 2, age_ms: 0, load: forged }, now);
        assert_eq!(table.absurd, HashSet::from([2]));
        let passed_on = table.newest_loads(5, now).into_iter().find(|e| e.id == 2).unwrap().load;
        assert!(passed_on.capacity_milli < 10_000_000 && passed_on.speed_milli < 100_000, "{passed_on:?}");
        assert!(passed_on.cores < 10_000, "{passed_on:?}");
        assert_eq!(passed_on.rooms, 9);
    }
}
