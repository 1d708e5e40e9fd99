//! Admission at the target node. The target knows its own load best, so it may refuse a process
//! that another node wants to send.

use serde::{Deserialize, Serialize};

use crate::decide::{Offer, crowd, has_room, weight};
use crate::utility::{Crowd, Site};
use crate::{Cause, Mode, NodeView, Params, ProcessView};

/// A request to let a process come to this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// The process that would move.
    pub process: ProcessView,
    /// The node on which the process runs now.
    pub from: NodeView,
    /// Why the process would move.
    pub cause: Cause,
    /// Milliseconds of lag by which a process' weight grows e times.
    pub scale_ms: u32,
}

impl Ask {
    /// Gives the asking node as it will be once the process has left.
    pub fn without(&self) -> NodeView {
        let NodeView { load_milli, free_mib, .. } = self.from;
        let load_milli = load_milli.saturating_sub(self.process.demand_milli);
        NodeView { load_milli, free_mib: free_mib.saturating_add(self.process.memory_mib), ..self.from }.bounded()
    }
}

/// Why the target refuses a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    /// The owner of the target takes no guests.
    #[error("its owner takes no guests now")]
    NoGuests,
    /// Too little memory is free, with promised memory counted as used.
    #[error("the node has too little free memory")]
    Memory,
    /// Too many processes have arrived so recently that the target does not know its load yet.
    #[error("too many processes have just arrived")]
    Flood,
    /// The move gains nothing at the target's present load.
    #[error("the node's load is higher than the asking node knew")]
    NoGain,
}

/// Factor on the margins at the target. The asker and the target see nearly the same loads; half of
/// the asker's margin keeps the small difference from causing a refusal.
const STRICTNESS: f64 = 0.5;

/// Judges a request by this node's own load, in which promised processes are counted. `arrivals` is
/// the number of processes that are promised or arrived within `arrivals_ms`.
///
/// # Errors
/// A [`Refusal`] if the process may not come.
pub fn admit(own: &NodeView, ask: &Ask, arrivals: usize, params: &Params) -> Result<(), Refusal> {
    let comes_home = ask.process.home == own.id;
    if !own.guests && !comes_home {
        return Err(Refusal::NoGuests);
    }
    let must_take = comes_home && ask.cause == Cause::Evict;
    if !must_take && !has_room(own, ask.process.memory_mib, params) {
        return Err(Refusal::Memory);
    }
    if ask.cause == Cause::Evict {
        return Ok(());
    }
    // A node with less than one core counts as one slow core.
    if arrivals > own.cores_milli.div_ceil(1000) as usize {
        return Err(Refusal::Flood);
    }
    if ask.cause == Cause::Usher {
        return Ok(());
    }
    if params.mode == Mode::Opportunity {
        return if own.load_milli < ask.from.bounded().load_milli { Ok(()) } else { Err(Refusal::NoGain) };
    }
    let from = ask.from.bounded();
    let process = &ask.process;
    let lone = Site { load: Site::of(&from).load.max(f64::from(process.demand_milli) / 1e3), ..Site::of(&from) };
    let base_ms = from.lag_ms;
    let offer = Offer {
        process,
        weight: weight(process.lag_ms, base_ms, ask.scale_ms),
        from: Crowd { site: lone, weight: lone.load },
        from_id: from.id,
        to: crowd(own, base_ms, ask.scale_ms),
        to_id: own.id,
    };
    if ask.cause == Cause::Exchange {
        // The target does not know by how much its own processes lag, so it checks the loads alone.
        return if offer.is_even() { Ok(()) } else { Err(Refusal::NoGain) };
    }
    offer.worth(&Params { mode: Mode::Rotate, ..*params }, STRICTNESS).map(drop).ok_or(Refusal::NoGain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: u64, load_milli: u32) -> NodeView {
        NodeView {
            id,
            load_milli,
            cores_milli: 1000,
            speed_milli: 1000,
            free_mib: 900,
            memory_mib: 1000,
            guests: true,
            ..NodeView::default()
        }
    }

    fn ask(from_load_milli: u32, cause: Cause) -> Ask {
        let process = ProcessView {
            home: 1,
            age_ms: 60_000,
            demand_milli: 1000,
            memory_mib: 100,
            in_scope: true,
            ..ProcessView::default()
        };
        Ask { process, from: node(1, from_load_milli), cause, scale_ms: 8000 }
    }

    #[test]
    fn the_target_judges_by_its_own_load() {
        let params = Params::default();
        let asked = |own: &NodeView, from, cause, arrivals| admit(own, &ask(from, cause), arrivals, &params);
        assert_eq!(asked(&node(2, 0), 2000, Cause::Balance, 0), Ok(()));
        assert_eq!(asked(&node(2, 1000), 2000, Cause::Balance, 0), Err(Refusal::NoGain));
        assert_eq!(asked(&node(2, 0), 9000, Cause::Balance, 2), Err(Refusal::Flood));
        assert_eq!(asked(&node(2, 5000), 1000, Cause::Usher, 0), Ok(()));
        assert_eq!(asked(&node(2, 5000), 1000, Cause::Usher, 9), Err(Refusal::Flood));
        let part = NodeView { cores_milli: 100, ..node(2, 0) };
        assert_eq!(asked(&part, 9000, Cause::Balance, 1), Ok(()));
        assert_eq!(asked(&part, 9000, Cause::Balance, 2), Err(Refusal::Flood));
        let slow = NodeView { speed_milli: 300, ..node(2, 1000) };
        assert_eq!(asked(&slow, 1000, Cause::Exchange, 0), Ok(()));
        let promised = NodeView { load_milli: 2000, ..slow };
        assert_eq!(asked(&promised, 1000, Cause::Exchange, 1), Err(Refusal::NoGain), "another comes already");
        let full = NodeView { free_mib: 150, ..node(2, 0) };
        assert_eq!(asked(&full, 2000, Cause::Usher, 0), Err(Refusal::Memory));
        let shut = NodeView { guests: false, ..node(2, 0) };
        assert_eq!(asked(&shut, 2000, Cause::Usher, 0), Err(Refusal::NoGuests));
        let home = NodeView { guests: false, free_mib: 0, ..node(1, 0) };
        assert_eq!(asked(&home, 2000, Cause::Evict, 0), Ok(()), "home takes its own back");
    }
}
