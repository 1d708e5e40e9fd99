//! What being moved, and being away from what it talks to, costs a process.

use crate::{Hint, Params, ProcessView};

/// Forwarded calls that a process hinted `io` counts as making at least, a second.
const IO_CALLS_PER_S: u32 = 20_000;

/// How long the process stands still if it is moved, milliseconds.
pub(crate) fn move_ms(process: &ProcessView, params: &Params) -> u64 {
    let travel_ms = u64::from(process.carried_mib) * 1000 / u64::from(params.bandwidth_mib_s.max(1));
    u64::from(params.move_ms) + travel_ms
}

/// How much slower its calls make it if it runs on `node`, as a factor of its time (at least 1).
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
