//! The target's side: it knows its own load better than anybody, and may refuse.

use serde::{Deserialize, Serialize};

use crate::decide::{Offer, crowd, has_room, weight};
use crate::utility::{Crowd, Site};
use crate::{Cause, Mode, NodeView, Params, ProcessView};

/// May this process come?
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// The process.
    pub process: ProcessView,
    /// Where it runs now.
    pub from: NodeView,
    /// Why it should come.
    pub cause: Cause,
    /// Scale of lags, milliseconds.
    pub scale_ms: u32,
}

impl Ask {
    /// Where it runs now, as it will be when it has gone.
    pub fn without(&self) -> NodeView {
        let NodeView { load_milli, free_mib, .. } = self.from;
        let load_milli = load_milli.saturating_sub(self.process.demand_milli);
        NodeView { load_milli, free_mib: free_mib.saturating_add(self.process.memory_mib), ..self.from }.bounded()
    }
}

/// Why it may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    /// The owner wants no guests.
    #[error("its owner wants no guests now")]
    NoGuests,
    /// Too little memory, with what has been promised.
    #[error("it has too little memory free")]
    Memory,
    /// So many have just come that its load is not known yet.
    #[error("too many have just come")]
    Flood,
    /// As its load is now, nothing would be gained.
    #[error("its load is higher than the asker knew")]
    NoGain,
}

/// Margins at the target, against the asker's: what both see nearly alike must not be refused for the difference.
const STRICTNESS: f64 = 0.5;

/// Judges a request by the node's own load, with what it has promised counted in. `arrivals`: promised, or come within the time over which they count.
///
/// # Errors
/// The [`Refusal`].
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
    // A part of a core is one that is slower.
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
        // What its own processes have missed a target need not know.
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
