//! The utility of a node: the sum of `ln(rate)` over its processes, weighted or not.

use crate::NodeView;

/// The least rate that is told apart from zero.
const RATE_MIN: f64 = 1e-6;

/// The load and power of a node, as floating-point numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site {
    pub load: f64,
    pub cores: f64,
    pub speed: f64,
}

impl Site {
    pub fn of(view: &NodeView) -> Site {
        Site {
            load: f64::from(view.load_milli) / 1e3,
            cores: f64::from(view.cores_milli.max(1)) / 1e3,
            speed: f64::from(view.speed_milli.max(1)) / 1e3,
        }
    }

    /// Computes the rate of one runnable process at this load, reference seconds per second.
    pub fn rate(&self, load: f64) -> f64 {
        self.speed * if load > self.cores { self.cores / load } else { 1.0 }
    }

    pub fn ln_rate(&self, load: f64) -> f64 {
        self.rate(load).max(RATE_MIN).ln()
    }

    /// Computes the runnable processes per core. A node with less than one core counts as one slow
    /// core.
    pub fn crowding(&self) -> f64 {
        self.load / self.cores.max(1.0)
    }
}

/// The demand and weight of the processes on a node. `weight` is the sum of demand times weight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crowd {
    pub site: Site,
    pub weight: f64,
}

/// Computes the change of both nodes' utility if a process of this demand and weight moves from one
/// to the other.
pub(crate) fn gain(from: Crowd, to: Crowd, demand: f64, weight: f64) -> f64 {
    let moved = demand * weight;
    let left = (from.site.load - demand).max(0.0);
    let from_before = from.weight * from.site.ln_rate(from.site.load);
    let from_after = (from.weight - moved).max(0.0) * from.site.ln_rate(left);
    let to_before = to.weight * to.site.ln_rate(to.site.load);
    let to_after = (to.weight + moved) * to.site.ln_rate(to.site.load + demand);
    from_after - from_before + to_after - to_before
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crowd(load: f64, cores: f64, speed: f64) -> Crowd {
        Crowd { site: Site { load, cores, speed }, weight: load }
    }

    #[test]
    fn equal_nodes_gain_at_a_difference_of_two_and_not_of_one() {
        for (from, to, gains) in [(2.0, 0.0, true), (2.0, 1.0, false), (3.0, 1.0, true), (12.0, 11.0, false)] {
            let gain = gain(crowd(from, 1.0, 1.0), crowd(to, 1.0, 1.0), 1.0, 1.0);
            assert_eq!(gain > 1e-9, gains, "{from} to {to}: {gain}");
        }
        assert!(gain(crowd(5.0, 4.0, 1.0), crowd(3.0, 4.0, 1.0), 1.0, 1.0) > 1.0);
        assert!(gain(crowd(4.0, 4.0, 1.0), crowd(0.0, 4.0, 1.0), 1.0, 1.0).abs() < 1e-9);
    }

    #[test]
    fn speed_counts_and_a_slow_node_is_not_left_idle() {
        assert!(gain(crowd(1.0, 1.0, 0.33), crowd(0.0, 1.0, 1.0), 1.0, 1.0) > 1.0);
        assert!(gain(crowd(1.0, 1.0, 0.33), crowd(1.0, 1.0, 1.0), 1.0, 1.0) < 0.0);
        assert!(gain(crowd(2.0, 1.0, 1.0), crowd(0.0, 1.0, 0.33), 1.0, 1.0) > 0.2);
    }

    #[test]
    fn scale_of_cores_does_not_matter() {
        let whole = gain(crowd(3.0, 1.0, 1.0), crowd(1.0, 1.0, 1.0), 1.0, 1.0);
        let tenth = gain(crowd(3.0, 0.1, 1.0), crowd(1.0, 0.1, 1.0), 1.0, 1.0);
        assert!((whole - tenth).abs() < 1e-9);
    }
}
