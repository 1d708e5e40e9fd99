//! The nodes that host tasks of this agent's jobs. A thread of its own has them told, for that may
//! take seconds: it repeats each order, so that a mode ends everywhere when the agent does.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use control_protocol::coscheduling::{JobOnNode, JobOrder, REPEAT};

/// Has the nodes told that host tasks of a job, by the ternd that serves a directory. The failure
/// is in words: there is no ternd, or it does not answer.
pub type Cluster = fn(&Path, &JobOrder) -> Result<Vec<JobOnNode>, String>;

/// The board on which both threads write.
#[derive(Debug, Default)]
struct Board {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The orders that hold now, by job.
    wanted: BTreeMap<u64, JobOrder>,
    /// Something has changed since the last round.
    is_new: bool,
    /// The last reports of the nodes, and the version of the order to which each answers.
    reports: BTreeMap<u64, (u64, Vec<JobOnNode>)>,
}

/// The other nodes, as the agent sees them.
#[derive(Debug)]
pub struct Nodes {
    board: Arc<Board>,
}

impl Board {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Nodes {
    /// Starts the thread. Without it, no node is told.
    pub fn start(directory: &Path, cluster: Cluster) -> Nodes {
        let board = Arc::new(Board::default());
        let (directory, its) = (directory.to_owned(), Arc::clone(&board));
        let started = std::thread::Builder::new().name("nodes".into()).spawn(move || repeat(&its, &directory, cluster));
        if let Err(e) = started {
            tracing::warn!("cosched: other nodes are not told: {e}");
        }
        Nodes { board }
    }

    /// Says which orders hold from now on.
    pub fn want(&self, orders: impl Iterator<Item = JobOrder>) {
        let wanted: BTreeMap<u64, JobOrder> = orders.map(|order| (order.job, order)).collect();
        let mut state = self.board.lock();
        if state.wanted != wanted {
            state.wanted = wanted;
            state.is_new = true;
            self.board.changed.notify_one();
        }
    }

    /// Gives what the nodes have said to this version of an order; `None`: nothing yet.
    pub fn report(&self, job: u64, version: u64) -> Option<Vec<JobOnNode>> {
        let state = self.board.lock();
        state.reports.get(&job).filter(|(to, _)| *to == version).map(|(_, nodes)| nodes.clone())
    }
}

/// Repeats all orders for ever, and tells the end of those that hold no more.
fn repeat(board: &Board, directory: &Path, cluster: Cluster) {
    let mut told: BTreeSet<u64> = BTreeSet::new();
    loop {
        let wanted = {
            let mut state = board.lock();
            state.is_new = false;
            let wanted = state.wanted.clone();
            state.reports.retain(|job, _| wanted.contains_key(job));
            wanted
        };
        for job in told.iter().filter(|job| !wanted.contains_key(job)) {
            let end = JobOrder { job: *job, tasks: Vec::new(), mode: None, version: 0 };
            if let Err(e) = cluster(directory, &end) {
                tracing::debug!("cosched: ending a mode on other nodes: {e}");
            }
        }
        told.retain(|job| wanted.contains_key(job));
        for (job, order) in wanted {
            let nodes = cluster(directory, &order).unwrap_or_else(|e| {
                tracing::debug!("cosched: other nodes are not told: {e}");
                Vec::new()
            });
            told.insert(job);
            board.lock().reports.insert(job, (order.version, nodes));
        }
        let state = board.lock();
        drop(board.changed.wait_timeout_while(state, REPEAT, |state| !state.is_new));
    }
}
