//! Taking this home's processes back: because the owner of the node that hosts them wants them
//! gone, or uses the node, or because this node leaves its cluster. Whoever asks is answered at
//! once, and asks again to hear how it goes on.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use control_protocol::evictions::Eviction;
use control_protocol::guests::{LeaveReason, Leaving, REASON_BYTES, TAKEN_BACK_MAX, TakenBack};
use control_protocol::history::By;
use control_protocol::steward::Guest;

use crate::daemon::Daemon;
use crate::locks::lock;
use crate::recalls::RecallState;
use crate::refuge::{self, Departing};
use crate::{evictions, history, rooms};

/// Most processes on their way at once because of this: moves share the link.
const AT_ONCE_MAX: usize = 16;
/// The same where somebody is at the machine: those that wait would run on there.
const AT_ONCE_IN_USE_MAX: usize = 64;
/// Where a process has gone is remembered for so long.
const REMEMBERED_FOR: Duration = Duration::from_secs(60);
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
    /// Why they must leave.
    pub(crate) reason: LeaveReason,
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
    states.retain(|_, state| !matches!(state, RecallState::Gone { at, .. } if at.elapsed() > REMEMBERED_FOR));
    let mut under_way = states.values().filter(|state| matches!(state, RecallState::UnderWay)).count();
    let under_way_max = if recall.reason == LeaveReason::InUse { AT_ONCE_IN_USE_MAX } else { AT_ONCE_MAX };
    let settings = daemon.policy.settings();
    let mut answers = Vec::new();
    for &pid in pids.iter().take(TAKEN_BACK_MAX) {
        let is_under_way = matches!(states.get(&pid), Some(RecallState::UnderWay));
        if !is_under_way && !there.contains(&pid) {
            let to = match states.get(&pid) {
                Some(RecallState::Gone { to, .. }) => Some(to.clone()),
                _ => states.remove(&pid).and(None),
            };
            answers.push(TakenBack { pid, leaving: None, to });
            continue;
        }
        let offers = || recall.reason == LeaveReason::Closed && settings.moves && daemon.balance.placed.has(pid);
        let is_due = match states.get(&pid) {
            None | Some(RecallState::Gone { .. }) if offers() => {
                states.insert(pid, RecallState::Offered { since: Instant::now() });
                false
            }
            None | Some(RecallState::Gone { .. }) => true,
            Some(RecallState::Offered { since }) => since.elapsed() > POLICY_WITHIN,
            Some(RecallState::UnderWay) => false,
            Some(RecallState::Failed { at, .. }) => recall.again && at.elapsed() > TRIED_EVERY,
        };
        if is_due && under_way < under_way_max {
            under_way += 1;
            let departing = Departing { pid, from: recall.from.map(str::to_owned), reason: recall.reason };
            begin(daemon, departing, &mut states);
        }
        answers.push(answer(pid, states.get(&pid)));
    }
    answers
}

fn answer(pid: i32, state: Option<&RecallState>) -> TakenBack {
    let leaving = match state {
        Some(RecallState::Failed { why, .. }) => Leaving::Stays { why: why.clone() },
        _ => Leaving::Goes,
    };
    TakenBack { pid, leaving: Some(leaving), to: None }
}

/// Starts the thread that moves a process away.
fn begin(daemon: &Arc<Daemon>, departing: Departing, states: &mut HashMap<i32, RecallState>) {
    let pid = departing.pid;
    // The log tells once that a process stays, however often this node tries.
    let is_news = !matches!(states.get(&pid), Some(RecallState::Failed { .. }));
    states.insert(pid, RecallState::UnderWay);
    let moving = Arc::clone(daemon);
    let work = move || {
        let at_ms = history::now_ms();
        let node = departing.from.clone().unwrap_or_else(|| moving.me().name);
        let left = refuge::leave(&moving, &departing, &By::Owner { node: node.clone() });
        let (to, stays) = match &left {
            Ok(to) => (to.clone(), None),
            Err(e) => (moving.me().name, Some(e.chain())),
        };
        let state = match &left {
            Ok(to) => RecallState::Gone { at: Instant::now(), to: to.clone() },
            Err(e) => failed(e.chain()),
        };
        lock(&moving.recalls.0).insert(pid, state);
        let Departing { reason, from: Some(_), .. } = departing else { return };
        let lost = Eviction::Lost { at_ms, node, reason, pid, to, stays };
        lost.words().iter().for_each(|words| tracing::info!("{words}"));
        if is_news || left.is_ok() {
            evictions::log(&moving.options.run_dir, &lost);
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
