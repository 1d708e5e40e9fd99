//! Where to place: the node asked for, or the least loaded one that will have it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::Error;
use crate::daemon::{Daemon, lock};
use crate::placement::{self, Candidate, Refusal};
use crate::rooms;
use crate::steward::Steward;

/// A choice counts as load for so long: until load averages show it.
const CHOICE_AGE: Duration = Duration::from_secs(15);
/// Most choices remembered.
const CHOICES_MAX: usize = 4096;
/// A node that refused is not asked again for so long, if others will do.
const REFUSAL_AGE: Duration = Duration::from_secs(10);
/// Most reasons given when nobody will do.
const REASONS_MAX: usize = 5;

/// What was chosen lately: nodes, and when.
#[derive(Default)]
pub(crate) struct Choices(Mutex<VecDeque<(Instant, String)>>);

impl Choices {
    /// Takes the best of the candidates and counts it at once, so that of many who choose together not all choose the same.
    fn take_best(&self, mut candidates: Vec<Candidate>) -> Option<String> {
        let mut choices = lock(&self.0);
        while choices.front().is_some_and(|(at, _)| at.elapsed() > CHOICE_AGE) || choices.len() > CHOICES_MAX {
            choices.pop_front();
        }
        for candidate in &mut candidates {
            candidate.chosen = choices.iter().filter(|(_, name)| *name == candidate.name).count() as u64;
        }
        let best = placement::rank(candidates).into_iter().next()?.name;
        choices.push_back((Instant::now(), best.clone()));
        Some(best)
    }

    fn add(&self, name: &str) {
        lock(&self.0).push_back((Instant::now(), name.to_owned()));
    }

    /// Nothing was placed there after all.
    fn take_back(&self, name: &str) {
        let mut choices = lock(&self.0);
        if let Some(at) = choices.iter().rposition(|(_, n)| n == name) {
            choices.remove(at);
        }
    }
}

/// The node, and a connection to the steward of the room there.
pub(crate) fn choose(daemon: &Arc<Daemon>, on: Option<&str>) -> Result<(String, Steward), Error> {
    let me = daemon.me().name;
    match on {
        Some(name) if name == me => Err(Refusal::Here { name: me }.into()),
        Some(name) => {
            let member = daemon.living_soon(name)?;
            let steward = rooms::steward_on(daemon, &member)?;
            daemon.choices.add(name);
            Ok((member.name, steward))
        }
        None => choose_least_loaded(daemon, &me),
    }
}

fn choose_least_loaded(daemon: &Arc<Daemon>, me: &str) -> Result<(String, Steward), Error> {
    while daemon.is_settling() && daemon.table().iter().all(|k| !k.alive) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let (mut candidates, mut reasons) = candidates(daemon);
    while let Some(best) = daemon.choices.take_best(candidates.clone()) {
        let steward = daemon.living(&best).map_err(Error::from).and_then(|member| rooms::steward_on(daemon, &member));
        match steward {
            Ok(steward) => return Ok((best, steward)),
            Err(e) => {
                daemon.choices.take_back(&best);
                candidates.retain(|c| c.name != best);
                reasons.push(e.chain());
            }
        }
    }
    if reasons.is_empty() {
        reasons.push(format!("{me} is alone"));
    }
    reasons.truncate(REASONS_MAX);
    Err(Refusal::Nobody { reasons: reasons.join("; ") }.into())
}

/// The living nodes that have not refused lately, and why the others are none.
fn candidates(daemon: &Daemon) -> (Vec<Candidate>, Vec<String>) {
    let living = daemon.table().iter().filter(|k| k.alive).map(|k| (k.member.name.clone(), k.load)).collect::<Vec<_>>();
    let (mut candidates, mut reasons) = (Vec::new(), Vec::new());
    for (name, load) in living {
        let load = load.map(|(load, _)| load);
        if load.is_some_and(|l| l.rooms_max == 0) {
            reasons.push(Refusal::NoGuests { name }.to_string());
        } else if let Some(refusal) = daemon.rooms.refused_lately(&name, REFUSAL_AGE) {
            reasons.push(refusal.to_string());
        } else {
            candidates.push(Candidate { name, load, chosen: 0 });
        }
    }
    (candidates, reasons)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_choose_together_spread() {
        let choices = Choices::default();
        let candidates = |names: &[&str]| {
            names.iter().map(|n| Candidate { name: (*n).into(), load: None, chosen: 0 }).collect::<Vec<_>>()
        };
        let mut taken: Vec<_> = (0..6).filter_map(|_| choices.take_best(candidates(&["a", "b", "c"]))).collect();
        taken.sort();
        assert_eq!(taken, ["a", "a", "b", "b", "c", "c"]);
        choices.take_back("b");
        assert_eq!(choices.take_best(candidates(&["a", "b", "c"])).as_deref(), Some("b"));
        assert_eq!(choices.take_best(Vec::new()), None);
    }
}
