//! Orders under way: each asks the target and moves its process in a thread of its own, for moves
//! wait mostly.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use ::policy::{Ask, Move};
use control_protocol::history::By;
use control_protocol::moves::{HopReport, MoveOptions};
use control_protocol::peer::PeerRequest;

use crate::daemon::Daemon;
use crate::dial::Session;
use crate::{Error, moving};

/// Most orders at once.
const ORDERS_MAX: usize = 32;

/// What came of an order.
pub(super) struct Done {
    /// Where it was decided for.
    pub source: u64,
    pub order: Move,
    /// For how long the process stood still.
    pub result: Result<Duration, Error>,
}

/// The orders of this home.
pub(super) struct Orders {
    daemon: Arc<Daemon>,
    under_way: usize,
    sender: Sender<Done>,
    receiver: Receiver<Done>,
}

impl Orders {
    pub fn new(daemon: Arc<Daemon>) -> Orders {
        let (sender, receiver) = channel();
        Orders { daemon, under_way: 0, sender, receiver }
    }

    /// May one more go out?
    pub fn has_room(&self) -> bool {
        self.under_way < ORDERS_MAX
    }

    /// Is anybody moved just now?
    pub fn is_any_under_way(&self) -> bool {
        self.under_way > 0
    }

    /// Begins what was decided at `decision_ms`, by the log of decisions; false if it cannot.
    pub fn give(&mut self, source: u64, order: Move, ask: Ask, decision_ms: u64) -> bool {
        let (daemon, sender) = (Arc::clone(&self.daemon), self.sender.clone());
        let work = move || {
            let result = carry_out(&daemon, &order, ask, decision_ms);
            let _ = sender.send(Done { source, order, result });
        };
        let thread = std::thread::Builder::new().name("order".into()).stack_size(512 << 10).spawn(work);
        let begun = thread.map_err(|e| tracing::warn!("no thread to move process {}: {e}", order.process)).is_ok();
        self.under_way += usize::from(begun);
        begun
    }

    /// The next that ends, if one does until then.
    pub fn ended(&mut self, until: Instant) -> Option<Done> {
        let done = self.receiver.recv_timeout(until.saturating_duration_since(Instant::now())).ok()?;
        self.under_way = self.under_way.saturating_sub(1);
        Some(done)
    }
}

fn carry_out(daemon: &Arc<Daemon>, order: &Move, ask: Ask, decision_ms: u64) -> Result<Duration, Error> {
    let pid = i32::try_from(order.process).unwrap_or(0);
    let by = By::Policy { cause: format!("{:?}", order.cause), decision_ms };
    let target = daemon.table().iter().find(|k| k.member.id == order.to).map(|k| k.member.clone());
    let Some(target) = target else {
        return Ok(freeze(&moving::relocate_unasked(daemon, pid, None, MoveOptions::default(), &by)?));
    };
    let mut session = daemon.runtime.block_on(async {
        let mut session = Session::open(daemon, &target).await?;
        session.ask(&PeerRequest::Admit { ask }).await?;
        Ok::<_, Error>(session)
    })?;
    let start = Instant::now();
    let moved = moving::relocate_unasked(daemon, pid, Some(&target.name), MoveOptions::default(), &by);
    let took = start.elapsed();
    let settle = PeerRequest::Settle { process: order.process, has_come: moved.is_ok() };
    if let Err(e) = daemon.runtime.block_on(session.ask(&settle)) {
        tracing::debug!("{} keeps its promise for process {pid} in mind: {}", target.name, e.chain());
    }
    let freeze = freeze(&moved?);
    let cause = order.cause;
    tracing::info!("process {pid} moved to {} in {took:?}, standing still for {freeze:?} ({cause:?})", target.name);
    Ok(freeze)
}

fn freeze(legs: &[HopReport]) -> Duration {
    Duration::from_micros(legs.iter().fold(0, |sum, leg| sum.saturating_add(leg.freeze_us)))
}
