//! Costs of a move, and of running far from the nodes with which a process communicates.

use crate::{Hint, Params, ProcessView};

/// The least number of forwarded calls per second that counts for a process with the hint `io`.
const IO_CALLS_PER_S: u32 = 20_000;

/// Estimates the freeze time of a move, milliseconds.
pub(crate) fn move_ms(process: &ProcessView, params: &Params) -> u64 {
    let travel_ms = u64::from(process.carried_mib) * 1000 / u64::from(params.bandwidth_mib_s.max(1));
    u64::from(params.move_ms) + travel_ms
}

/// Estimates how much forwarded calls slow the process down on `node`, as a factor of its run time
/// (at least 1).
pub(crate) fn distance(process: &ProcessView, node: u64, params: &Params) -> f64 {
    let far = process.ties.iter().filter(|t| t.node != node).map(|t| u64::from(t.calls_per_s)).sum::<u64>();
    let hinted = if process.hint == Hint::Io && process.home != node { u64::from(IO_CALLS_PER_S) } else { 0 };
    1.0 + far.max(hinted) as f64 * f64::from(params.call_us) / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tie;

    #[test]
    fn calls_home_keep_a_process_home() {
        let params = Params::default();
        let mut process =
            ProcessView { home: 1, ties: vec![Tie { node: 1, calls_per_s: 10_000 }], ..ProcessView::default() };
        assert!((distance(&process, 1, &params) - 1.0).abs() < 1e-9);
        assert!((distance(&process, 2, &params) - 1.6).abs() < 1e-9);
        process.hint = Hint::Io;
        assert!(distance(&process, 2, &params) > 2.0);
        process.carried_mib = 200;
        assert_eq!(move_ms(&process, &params), 2020);
    }
}
