//! Accounts of what this home's users have used, by day and host, and of how this machine spent its
//! time. Bounded: old days go.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

/// Days that are kept.
pub const DAYS_MAX: usize = 400;
/// Most rows of one day: users times hosts.
const ROWS_MAX: usize = 512;

/// The use of one user on one host in one day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Used {
    /// CPU time, milliseconds.
    pub cpu_ms: u64,
    /// Programs that were placed there when they were executed.
    pub placed: u64,
    /// Processes that were moved there while they ran.
    pub moved: u64,
    /// Processes that were sent away from there for its owner.
    pub evicted: u64,
    /// Hosts that programs asked for; only at home.
    pub hosts_asked: u64,
    /// Hosts that they got at once; only at home.
    pub hosts_got: u64,
}

impl Used {
    /// Adds more to it.
    pub fn add(&mut self, more: Used) {
        let Used { cpu_ms, placed, moved, evicted, hosts_asked, hosts_got } = more;
        self.cpu_ms += cpu_ms;
        self.placed += placed;
        self.moved += moved;
        self.evicted += evicted;
        self.hosts_asked += hosts_asked;
        self.hosts_got += hosts_got;
    }
}

/// How this machine spent its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Processes of other homes run here.
    Hosting,
    /// Somebody is at it, or its own processes want its processors.
    InUse,
    /// Neither of these.
    Idle,
}

/// For how long a machine was in each state, milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hours {
    /// The machine hosted processes of other homes.
    pub hosting_ms: u64,
    /// The machine was in use.
    pub in_use_ms: u64,
    /// The machine was idle.
    pub idle_ms: u64,
}

/// A user and a host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Whose {
    user: u32,
    host: String,
}

/// The accounts of one day.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Day {
    rows: Vec<(Whose, Used)>,
    hours: Hours,
}

/// The accounts of a home. Days are numbered from 1970-01-01.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accounts(BTreeMap<u32, Day>);

/// A row of the accounts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Day, counted from 1970-01-01.
    pub day: u32,
    /// Id of the user.
    pub user: u32,
    /// Name of the node where it was used.
    pub host: String,
    /// The amounts that were used.
    pub used: Used,
}

impl Accounts {
    /// Adds to what a user has used on a host. Beyond a bound, users and hosts that are new on a
    /// day are left out.
    pub fn add(&mut self, day: u32, user: u32, host: &str, more: Used) {
        let rows = &mut self.day(day).rows;
        let is_meant = |whose: &Whose| whose.user == user && whose.host == host;
        match rows.iter().position(|(whose, _)| is_meant(whose)) {
            Some(at) => rows[at].1.add(more),
            None if rows.len() < ROWS_MAX => rows.push((Whose { user, host: host.to_owned() }, more)),
            None => {}
        }
    }

    /// Adds to the time for which this machine was in a state.
    pub fn spend(&mut self, day: u32, state: State, ms: u64) {
        let hours = &mut self.day(day).hours;
        *match state {
            State::Hosting => &mut hours.hosting_ms,
            State::InUse => &mut hours.in_use_ms,
            State::Idle => &mut hours.idle_ms,
        } += ms;
    }

    fn day(&mut self, day: u32) -> &mut Day {
        if !self.0.contains_key(&day) && self.0.len() >= DAYS_MAX {
            self.0.pop_first();
        }
        self.0.entry(day).or_default()
    }

    /// Lists the rows of the days from `first` on, in order.
    pub fn rows(&self, first: u32) -> Vec<Row> {
        let of_day = |(day, accounts): (&u32, &Day)| {
            let mut rows = accounts.rows.clone();
            rows.sort_by(|(a, _), (b, _)| a.cmp(b));
            rows.into_iter()
                .map(|(whose, used)| Row { day: *day, user: whose.user, host: whose.host, used })
                .collect::<Vec<_>>()
        };
        self.0.range(first..).flat_map(of_day).collect()
    }

    /// Lists how this machine spent its time, from day `first` on, in order.
    pub fn hours(&self, first: u32) -> Vec<(u32, Hours)> {
        self.0.range(first..).map(|(day, accounts)| (*day, accounts.hours)).collect()
    }
}

/// A process of this machine, as it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Number of the process.
    pub pid: i32,
    /// Number of its parent.
    pub parent: i32,
    /// When it began: with the number this names one process.
    pub began: u64,
    /// Id of its user.
    pub user: u32,
    /// CPU time of the process and of the children for which it has waited, milliseconds.
    pub cpu_ms: u64,
}

/// Gives what users have used between two looks at all processes, milliseconds. Of a process that
/// has ended meanwhile the last part counts as that of the process that has waited for it.
pub fn used_between(before: &HashMap<i32, Seen>, now: &HashMap<i32, Seen>) -> BTreeMap<u32, u64> {
    let mut used: BTreeMap<u32, i64> = BTreeMap::new();
    let same = |seen: &Seen, there: &HashMap<i32, Seen>| {
        there.get(&seen.pid).filter(|other| other.began == seen.began).copied()
    };
    for seen in now.values() {
        let known_ms = same(seen, before).map_or(0, |earlier| earlier.cpu_ms);
        *used.entry(seen.user).or_default() += signed(seen.cpu_ms.saturating_sub(known_ms));
    }
    // The time that an ended process had used by the first look is in its parent's time for
    // children now.
    for gone in before.values().filter(|seen| same(seen, now).is_none()) {
        if let Some(heir) = heir(gone, before, now) {
            *used.entry(heir.user).or_default() -= signed(gone.cpu_ms);
        }
    }
    used.into_iter().filter_map(|(user, ms)| Some((user, u64::try_from(ms).ok().filter(|ms| *ms > 0)?))).collect()
}

/// The nearest ancestor that lives.
fn heir(gone: &Seen, before: &HashMap<i32, Seen>, now: &HashMap<i32, Seen>) -> Option<Seen> {
    let mut parent = gone.parent;
    // No chain is longer than there are processes.
    for _ in 0..=before.len() {
        if let Some(lives) = now.get(&parent) {
            return Some(*lives);
        }
        parent = before.get(&parent)?.parent;
    }
    None
}

fn signed(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(all: &[(i32, i32, u32, u64)]) -> HashMap<i32, Seen> {
        let one = |(pid, parent, user, cpu_ms): &(i32, i32, u32, u64)| {
            (*pid, Seen { pid: *pid, parent: *parent, began: 1, user: *user, cpu_ms: *cpu_ms })
        };
        all.iter().map(one).collect()
    }

    #[test]
    fn what_processes_use_is_counted_once() {
        let used = |before: &[_], now: &[_]| used_between(&seen(before), &seen(now)).into_iter().collect::<Vec<_>>();
        let shell = (1, 0, 7, 10);
        assert_eq!(used(&[shell], &[(1, 0, 7, 15), (2, 1, 8, 100)]), [(7, 5), (8, 100)]);
        // Its parent has waited for it: of 130, 100 were counted before.
        assert_eq!(used(&[shell, (2, 1, 7, 100)], &[(1, 0, 7, 140)]), [(7, 30)]);
        // Parent and child have ended, and the grandparent has waited for both.
        assert_eq!(used(&[shell, (2, 1, 7, 100), (3, 2, 7, 50)], &[(1, 0, 7, 165)]), [(7, 5)]);
        // Nobody has waited.
        assert_eq!(used(&[shell, (2, 1, 7, 100)], &[(1, 0, 7, 12)]), []);
        assert_eq!(used(&[(2, 9, 7, 100)], &[]), []);
    }

    #[test]
    fn another_process_of_the_same_number_counts_from_its_beginning() {
        let mut now = seen(&[(2, 1, 7, 30)]);
        now.get_mut(&2).unwrap().began = 2;
        assert_eq!(used_between(&seen(&[(2, 1, 7, 100)]), &now)[&7], 30);
    }

    #[test]
    fn accounts_do_not_grow_without_bound() {
        let mut accounts = Accounts::default();
        for day in 0..2 * DAYS_MAX as u32 {
            accounts.add(day, 7, "n2", Used { cpu_ms: 5, ..Used::default() });
            accounts.add(day, 7, "n2", Used { placed: 1, ..Used::default() });
            accounts.spend(day, State::Idle, 10);
        }
        let rows = accounts.rows(0);
        assert_eq!(rows.len(), DAYS_MAX);
        let used = Used { cpu_ms: 5, placed: 1, ..Used::default() };
        assert_eq!(rows[0], Row { day: DAYS_MAX as u32, user: 7, host: "n2".into(), used });
        assert_eq!(accounts.hours(799), [(799, Hours { idle_ms: 10, ..Hours::default() })]);
        (0..2 * ROWS_MAX as u32).for_each(|user| accounts.add(799, user, "n2", used));
        assert_eq!(accounts.rows(799).len(), ROWS_MAX);
        let text = serde_json::to_string(&accounts).unwrap();
        assert_eq!(serde_json::from_str::<Accounts>(&text).unwrap(), accounts);
    }
}
