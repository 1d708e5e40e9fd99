//! What was chosen lately: of many programs that are placed at once not all go to the same node.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use ::policy::{NodeView, Params, Placement, ProcessView};
use control_protocol::facts::Load;

use crate::locks::lock;

/// A choice counts as load at most for so long, ...
const CHOICE_AGE: Duration = Duration::from_secs(15);
/// ... and until a reading comes that was made so long after it.
const SHOWS_AFTER: Duration = Duration::from_millis(1500);
/// Most choices remembered.
const CHOICES_MAX: usize = 4096;
/// Demand of a program of which nothing is known: one core, thousandths.
const DEMAND_MILLI: u32 = 1000;

/// A node that might be taken.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) name: String,
    pub(crate) id: u64,
    /// Newest load, and when it was read.
    pub(crate) load: Option<(Load, Instant)>,
}

/// What was chosen lately: nodes, and when.
#[derive(Default)]
pub(crate) struct Choices(Mutex<VecDeque<(Instant, String)>>);

impl Choices {
    /// Takes the best of the candidates and counts it at once, so that of many who choose together
    /// not all choose the same.
    pub(crate) fn take_best(
        &self,
        candidates: &[Candidate],
        process: &ProcessView,
        params: &Params,
        at_ms: u64,
    ) -> Option<(String, Placement)> {
        let mut choices = lock(&self.0);
        while choices.front().is_some_and(|(at, _)| at.elapsed() > CHOICE_AGE) || choices.len() > CHOICES_MAX {
            choices.pop_front();
        }
        let stale = Duration::from_millis(params.stale_ms.into());
        let candidates: Vec<Candidate> = candidates
            .iter()
            .map(|c| Candidate { load: c.load.filter(|(_, read)| read.elapsed() <= stale), ..c.clone() })
            .collect();
        let middle = middle(&candidates);
        let views = candidates.iter().map(|c| {
            let (load, read) = c.load.map_or((middle, None), |(load, read)| (load, Some(read)));
            let is_new = |at: &Instant| read.is_none_or(|read| *at + SHOWS_AFTER > read);
            let chosen = choices.iter().filter(|(at, name)| *name == c.name && is_new(at)).count();
            let chosen_milli = u32::try_from(chosen).unwrap_or(u32::MAX).saturating_mul(DEMAND_MILLI);
            view(c.id, &load, chosen_milli)
        });
        let placement = Placement::new(at_ms, *params, process.clone(), views.collect());
        // Short of memory is better than nowhere.
        let roomy = placement.order.first().map(|(id, _)| *id);
        let best = roomy.or_else(|| placement.candidates.iter().max_by_key(|n| n.free_mib).map(|n| n.id))?;
        let best = candidates.iter().find(|c| c.id == best)?.name.clone();
        choices.push_back((Instant::now(), best.clone()));
        Some((best, placement))
    }

    pub(crate) fn add(&self, name: &str) {
        lock(&self.0).push_back((Instant::now(), name.to_owned()));
    }

    /// Nothing was placed there after all.
    pub(crate) fn take_back(&self, name: &str) {
        let mut choices = lock(&self.0);
        if let Some(at) = choices.iter().rposition(|(_, n)| n == name) {
            choices.remove(at);
        }
    }
}

/// A program of which nothing is known but its home.
pub(crate) fn program_of(home: u64) -> ProcessView {
    ProcessView { home, demand_milli: DEMAND_MILLI, in_scope: true, ..ProcessView::default() }
}

/// Most cores that are believed (as `policy::NodeView`).
const CORES_MAX: u32 = 8192;

/// A node's load for the policy, with so much that was just placed there.
pub(crate) fn view(id: u64, load: &Load, chosen_milli: u32) -> NodeView {
    as_told(id, load, chosen_milli).bounded()
}

/// As much of it as a machine can be.
pub(crate) fn bounded(load: &Load) -> Load {
    let believed = view(0, load, 0);
    Load {
        runnable_milli: believed.load_milli,
        cores: load.cores.min(CORES_MAX),
        available_mib: believed.free_mib,
        memory_mib: believed.memory_mib,
        capacity_milli: believed.cores_milli,
        speed_milli: believed.speed_milli,
        pressure_milli: believed.pressure_milli,
        lag_ms: believed.lag_ms,
        ..*load
    }
}

fn as_told(id: u64, load: &Load, chosen_milli: u32) -> NodeView {
    NodeView {
        id,
        load_milli: load.runnable_milli.saturating_add(chosen_milli),
        cores_milli: load.capacity_milli,
        speed_milli: load.speed_milli,
        lag_ms: load.lag_ms,
        free_mib: load.available_mib,
        memory_mib: load.memory_mib,
        pressure_milli: load.pressure_milli,
        guests: load.rooms_max > 0,
        age_ms: 0,
    }
}

/// The load in the middle of those that are known: stands for one that is not.
fn middle(candidates: &[Candidate]) -> Load {
    let mut known: Vec<Load> = candidates.iter().filter_map(|c| c.load.map(|(load, _)| load)).collect();
    known.sort_by_key(|l| u64::from(l.runnable_milli) * 1000 / u64::from(l.capacity_milli.max(1)));
    let unknown = Load { rooms_max: 1, cores: 1, capacity_milli: 1000, speed_milli: 1000, ..Load::default() };
    known.get(known.len() / 2).copied().unwrap_or(unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(runnable_milli: u32, cores: u32) -> Load {
        Load {
            runnable_milli,
            cores,
            capacity_milli: cores * 1000,
            speed_milli: 1000,
            rooms_max: 1,
            memory_mib: 1000,
            available_mib: 900,
            ..Load::default()
        }
    }

    fn candidate(name: &str, load: Option<Load>) -> Candidate {
        Candidate { name: name.into(), id: name.bytes().map(u64::from).sum(), load: load.map(|l| (l, Instant::now())) }
    }

    fn best(choices: &Choices, candidates: &[Candidate]) -> Option<String> {
        choices.take_best(candidates, &program_of(0), &Params::default(), 0).map(|(name, _)| name)
    }

    #[test]
    fn who_choose_together_spread() {
        for known in [None, Some(load(0, 1))] {
            let choices = Choices::default();
            let all = ["a", "b", "c"].map(|name| candidate(name, known));
            let mut taken: Vec<_> = (0..6).filter_map(|_| best(&choices, &all)).collect();
            taken.sort();
            assert_eq!(taken, ["a", "a", "b", "b", "c", "c"]);
            choices.take_back("b");
            assert_eq!(best(&choices, &all).as_deref(), Some("b"));
            assert_eq!(best(&choices, &[]), None);
        }
    }

    #[test]
    fn least_loaded_for_its_size_and_speed_first() {
        let first = |all: &[Candidate]| best(&Choices::default(), all);
        assert_eq!(
            first(&[candidate("a", Some(load(900, 1))), candidate("b", Some(load(1600, 4)))]).as_deref(),
            Some("b")
        );
        let slow = Load { speed_milli: 400, ..load(0, 1) };
        assert_eq!(first(&[candidate("a", Some(slow)), candidate("b", Some(load(100, 1)))]).as_deref(), Some("b"));
        let unknown = [candidate("x", None), candidate("a", Some(load(9000, 1))), candidate("b", Some(load(0, 1)))];
        assert_eq!(first(&unknown).as_deref(), Some("b"));
        let short = Load { available_mib: 10, ..load(0, 1) };
        assert_eq!(first(&[candidate("a", Some(short)), candidate("b", Some(load(5000, 1)))]).as_deref(), Some("b"));
        assert_eq!(
            first(&[candidate("a", Some(short))]).as_deref(),
            Some("a"),
            "short of memory is better than nowhere"
        );
    }

    #[test]
    fn what_is_old_is_not_believed() {
        let mut all = [candidate("a", Some(load(0, 1))), candidate("b", Some(load(500, 1)))];
        assert_eq!(best(&Choices::default(), &all).as_deref(), Some("a"));
        let old = Instant::now().checked_sub(Duration::from_secs(20)).unwrap();
        all[0].load = Some((load(0, 1), old));
        all.reverse();
        let known = best(&Choices::default(), &all);
        all[1].load = None;
        assert_eq!(known, best(&Choices::default(), &all), "as one of which nothing is known");
    }

    #[test]
    fn a_choice_counts_until_the_load_shows_it() {
        let choices = Choices::default();
        let now = Instant::now();
        let mut all = [candidate("a", Some(load(0, 1))), candidate("b", Some(load(500, 1)))];
        assert_eq!(best(&choices, &all).as_deref(), Some("a"));
        assert_eq!(best(&choices, &all).as_deref(), Some("b"));
        all[0].load = Some((load(0, 1), now + Duration::from_secs(5)));
        assert_eq!(best(&choices, &all).as_deref(), Some("a"), "it has ended: its node is idle");
    }
}
