//! For how long this home's processes stand still when they are moved.

use policy::{Mode, Params};

/// Moves over which that is smoothed, and the most that counts, milliseconds.
const MOVES: f64 = 4.0;
const MAX_MS: f64 = 60_000.0;

/// Smoothed, milliseconds, when one has been made.
#[derive(Debug, Default)]
pub(super) struct FreezeEstimate(Option<f64>);

impl FreezeEstimate {
    /// A move was made.
    pub(super) fn note(&mut self, took_ms: u64) {
        let took_ms = took_ms as f64;
        self.0 = Some(self.0.map_or(took_ms, |before| before + (took_ms - before) / MOVES));
    }

    /// The policy's numbers, by that: no move is expected to take less. What is gained by rotation,
    /// and by exchange above all, depends on it: as long as nobody knows, one is made at a time.
    pub(super) fn applied(&self, params: Params, any_under_way: bool) -> Params {
        let is_blind = self.0.is_none() && any_under_way && params.mode == Mode::Rotate;
        let mode = if is_blind { Mode::Balance } else { params.mode };
        Params { mode, move_ms: params.move_ms.max(self.0.unwrap_or(0.0).min(MAX_MS) as u32), ..params }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_counts_whole() {
        let mut estimate = FreezeEstimate::default();
        assert_eq!(estimate.applied(Params::default(), false), Params::default());
        estimate.note(1000);
        assert_eq!(estimate.applied(Params::default(), false).move_ms, 1000);
        estimate.note(200);
        assert_eq!(estimate.applied(Params::default(), false).move_ms, 800);
        estimate.note(u64::MAX);
        assert_eq!(estimate.applied(Params::default(), false).move_ms, 60_000);
    }

    #[test]
    fn one_alone_is_tried() {
        let (mut estimate, shipped) = (FreezeEstimate::default(), Params::default());
        let mode = |estimate: &FreezeEstimate, params, any| estimate.applied(params, any).mode;
        assert_eq!((mode(&estimate, shipped, false), mode(&estimate, shipped, true)), (Mode::Rotate, Mode::Balance));
        let other = Params { mode: Mode::Opportunity, ..shipped };
        assert_eq!(mode(&estimate, other, true), Mode::Opportunity);
        estimate.note(5);
        assert_eq!(mode(&estimate, shipped, true), Mode::Rotate);
    }
}
