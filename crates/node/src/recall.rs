//! Taking this home's processes back: because the owner of the node that hosts them wants them
//! gone, or because this node leaves its cluster. Whoever asks is answered at once, and asks again
//! to hear how it goes on.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use control_protocol::guests::{Leaving, REASON_BYTES, TAKEN_BACK_MAX, TakenBack};
use control_protocol::history::By;
use control_protocol::moves::MoveOptions;
use control_protocol::steward::Guest;

use crate::daemon::Daemon;
use crate::locks::lock;
use crate::recalls::RecallState;
use crate::{moving, rooms};

/// Most processes on their way home at once because of this: moves share the link.
const AT_ONCE_MAX: usize = 16;
/// For so long this home's policy may find another node for a process whose node takes no guests
/// any more.
const POLICY_WITHIN: Duration = Duration::from_secs(10);
/// A process that could not come is not tried again more often than this, whoever asks.
const TRIED_EVERY: Duration = Duration::from_secs(1);

/// A request to take processes back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recall<'a> {
    /// The node that they are to leave; any, if absent.
    pub(crate) from: Option<&'a str>,
    /// Try again what stayed.
    pub(crate) again: bool,
    /// The node takes no guests: the policy may move them first.
    pub(crate) closed: bool,
}

/// A process that is away, and the node that hosts it.
pub(crate) struct Away {
    pub(crate) node: String,
    pub(crate) guest: Guest,
}

/// Lists this home's processes that are away, from rooms that answer.
pub(crate) fn away(daemon: &Daemon) -> Vec<Away> {
    let stewards = rooms::stewards(&daemon.options.run_dir);
    let asked: Vec<_> = stewards.iter().filter(|(_, steward)| steward.ask_for_list().is_ok()).collect();
    let listed = asked.into_iter().filter_map(|(_, steward)| steward.listed().ok());
    listed
        .flat_map(|(node, _, guests)| guests.into_iter().map(move |guest| Away { node: node.clone(), guest }))
        .collect()
}

/// Begins to bring these processes home, or goes on; says how far each is.
pub(crate) fn take_back(daemon: &Arc<Daemon>, recall: Recall<'_>, pids: &[i32]) -> Vec<TakenBack> {
    let is_meant = |a: &Away| recall.from.is_none_or(|from| from == a.node);
    let there: HashSet<i32> = away(daemon).into_iter().filter(is_meant).map(|a| a.guest.pid).collect();
    let mut states = lock(&daemon.recalls.0);
    let mut under_way = states.values().filter(|state| matches!(state, RecallState::UnderWay)).count();
    let settings = daemon.policy.settings();
    let mut answers = Vec::new();
    for &pid in pids.iter().take(TAKEN_BACK_MAX) {
        let is_under_way = matches!(states.get(&pid), Some(RecallState::UnderWay));
        if !is_under_way && !there.contains(&pid) {
            states.remove(&pid);
            answers.push(TakenBack { pid, leaving: None });
            continue;
        }
        let offers = || recall.closed && settings.moves && daemon.balance.placed.has(pid);
        let is_due = match states.get(&pid) {
            None if offers() => {
                states.insert(pid, RecallState::Offered { since: Instant::now() });
                false
            }
            None => true,
            Some(RecallState::Offered { since }) => since.elapsed() > POLICY_WITHIN,
            Some(RecallState::UnderWay) => false,
            Some(RecallState::Failed { at, .. }) => recall.again && at.elapsed() > TRIED_EVERY,
        };
        if is_due && under_way < AT_ONCE_MAX {
            states.insert(pid, RecallState::UnderWay);
            under_way += 1;
            let node = recall.from.map_or_else(|| daemon.me().name, str::to_owned);
            begin(daemon, pid, By::Owner { node }, &mut states);
        }
        let leaving = match states.get(&pid) {
            Some(RecallState::Failed { why, .. }) => Leaving::Stays { why: why.clone() },
            _ => Leaving::Goes,
        };
        answers.push(TakenBack { pid, leaving: Some(leaving) });
    }
    answers
}

/// Starts the thread that brings it home, as `by` wants.
fn begin(daemon: &Arc<Daemon>, pid: i32, by: By, states: &mut HashMap<i32, RecallState>) {
    let moving = Arc::clone(daemon);
    let work = move || {
        let moved = moving::relocate_unasked(&moving, pid, None, MoveOptions::default(), &by);
        let mut states = lock(&moving.recalls.0);
        match moved {
            Ok(_) => drop(states.remove(&pid)),
            Err(e) => {
                tracing::info!("process {pid} is to come home: {}", e.chain());
                states.insert(pid, failed(e.chain()));
            }
        }
    };
    let thread = std::thread::Builder::new().name("recall".into()).stack_size(512 << 10).spawn(work);
    if let Err(e) = thread {
        states.insert(pid, failed(format!("no thread to move it: {e}")));
    }
}

fn failed(mut why: String) -> RecallState {
    why.truncate(why.floor_char_boundary(REASON_BYTES));
    RecallState::Failed { at: Instant::now(), why }
}
