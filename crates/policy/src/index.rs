//! Smoothed indices that a node keeps between decisions.

/// The load of a node, smoothed twice. The index for the node's own decisions rises slowly and
/// falls at once, so that a short peak drives nothing away. The index that other nodes are told
/// rises at once and falls slowly, so that a short lull attracts nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadIndex {
    own: f64,
    told: f64,
    last_ms: Option<u64>,
}

/// Time in which the slow side covers 63% of a change, milliseconds.
const SLOW_MS: f64 = 1500.0;

impl LoadIndex {
    /// Takes a sample of the number of runnable processes.
    pub fn sample(&mut self, runnable: f64, now_ms: u64) {
        let runnable = if runnable.is_finite() { runnable.max(0.0) } else { 0.0 };
        let Some(last_ms) = self.last_ms.replace(now_ms) else {
            (self.own, self.told) = (runnable, runnable);
            return;
        };
        let elapsed_ms = now_ms.saturating_sub(last_ms) as f64;
        let step = 1.0 - (-elapsed_ms / SLOW_MS).exp();
        let slow = |index: f64| index + (runnable - index) * step;
        self.own = slow(self.own).min(runnable);
        self.told = slow(self.told).max(runnable);
    }

    /// Adds the demand of a process that has arrived, or takes off that of one that has left
    /// (negative). Both indices change at once.
    pub fn shift(&mut self, demand: f64) {
        self.own = (self.own + demand).max(0.0);
        self.told = (self.told + demand).max(0.0);
    }

    /// Gives the index for the node's own decisions, thousandths.
    pub fn own_milli(&self) -> u32 {
        milli(self.own)
    }

    /// Gives the index that other nodes are told, thousandths.
    pub fn told_milli(&self) -> u32 {
        milli(self.told)
    }
}

fn milli(value: f64) -> u32 {
    (value * 1000.0).round().clamp(0.0, f64::from(u32::MAX)) as u32
}

/// The free memory of a node in the near future, if its use goes on growing as it does. Freeing
/// memory takes seconds, and the kernel of a full node kills processes.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryIndex {
    last: Option<(u32, u64)>,
    /// How fast free memory fell by the last sample, MiB per second.
    fell_mib_s: f64,
    /// How fast free memory falls, MiB per second: the slower of the last two samples.
    falls_mib_s: f64,
}

/// How far the index looks ahead, milliseconds: the time until other nodes have heard of it, a
/// decision is made, and a process has left.
const AHEAD_MS: f64 = 4000.0;

impl MemoryIndex {
    /// Takes a sample of free memory, MiB, and gives the expected free memory, MiB. A fall in one
    /// sample alone is not expected to continue.
    pub fn sample(&mut self, free_mib: u32, now_ms: u64) -> u32 {
        if let Some((last_mib, last_ms)) = self.last {
            let elapsed_ms = now_ms.saturating_sub(last_ms).max(1) as f64;
            let falls_mib_s = f64::from(last_mib.saturating_sub(free_mib)) * 1e3 / elapsed_ms;
            self.falls_mib_s = falls_mib_s.min(self.fell_mib_s);
            self.fell_mib_s = falls_mib_s;
        }
        self.last = Some((free_mib, now_ms));
        (f64::from(free_mib) - self.falls_mib_s * AHEAD_MS / 1e3).max(0.0) as u32
    }
}

/// How much work a process has missed, reference seconds: the mean rate times the time for which it
/// wanted to run, less the work that it got done. A pausing process neither misses nor gains
/// anything, and the age of a reading matters little. Only differences between processes mean
/// something. A new process starts at the mean; old differences are forgotten.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Lag {
    lag_ms: f64,
}

/// The means over all known processes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    /// Mean of the lags, milliseconds.
    pub lag_ms: f64,
    /// Mean rate of a process that wants a core, reference seconds per second.
    pub rate: f64,
}

impl Default for Mean {
    fn default() -> Mean {
        Mean { lag_ms: 0.0, rate: 1.0 }
    }
}

/// Time after which 63% of a difference is forgotten, in units of the lag's scale.
const MEMORY: f64 = 30.0;

impl Lag {
    /// Creates the lag of a new process: the mean.
    pub fn of_newcomer(mean_ms: i32) -> Lag {
        Lag { lag_ms: f64::from(mean_ms) }
    }

    /// Takes a sample. Over `elapsed_ms` the process wanted a core for `wanted_ms` and did
    /// `done_ms` of work, while the means were `all`. `scale_ms` is the scale of lags.
    pub fn advance(&mut self, elapsed_ms: f64, wanted_ms: f64, done_ms: f64, all: Mean, scale_ms: f64) {
        self.lag_ms += wanted_ms * all.rate - done_ms;
        self.lag_ms += (all.lag_ms - self.lag_ms) * (1.0 - (-elapsed_ms / (MEMORY * scale_ms)).exp());
    }

    /// Gives the lag in milliseconds, rounded and bounded by an hour.
    pub fn ms(&self) -> i32 {
        self.lag_ms.round().clamp(-3.6e6, 3.6e6) as i32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_do_not_drive_away_and_lulls_do_not_attract() {
        let mut index = LoadIndex::default();
        index.sample(1.0, 0);
        index.sample(3.0, 1000);
        assert!(index.own_milli() < 2100 && index.told_milli() == 3000, "{index:?}");
        index.sample(0.0, 2000);
        assert!(index.own_milli() == 0 && index.told_milli() > 1400, "{index:?}");
        (3..30).for_each(|s| index.sample(2.0, s * 1000));
        assert_eq!((index.own_milli(), index.told_milli()), (2000, 2000));
        index.sample(f64::NAN, 30_000);
        assert_eq!(index.own_milli(), 0);
    }

    #[test]
    fn memory_that_goes_on_falling_is_seen_to_run_out() {
        let mut index = MemoryIndex::default();
        assert_eq!(index.sample(1000, 0), 1000);
        assert_eq!(index.sample(600, 1000), 600, "once");
        assert_eq!(index.sample(600, 2000), 600);
        assert_eq!(index.sample(550, 3000), 550);
        assert_eq!(index.sample(500, 4000), 300, "50 a second");
        assert_eq!(index.sample(400, 5000), 200);
        assert_eq!(index.sample(100, 6000), 0);
        assert_eq!(index.sample(800, 7000), 800);
    }

    #[test]
    fn waiting_processes_lag() {
        let (mut half, mut full) = (Lag::default(), Lag::default());
        let all = Mean { lag_ms: 2500.0, rate: 0.75 };
        for _ in 0..10 {
            half.advance(1000.0, 1000.0, 500.0, all, 8000.0);
            full.advance(1000.0, 1000.0, 1000.0, all, 8000.0);
        }
        assert!((4500..=5200).contains(&(half.ms() - full.ms())), "{} {}", half.ms(), full.ms());
    }

    #[test]
    fn pausing_processes_neither_miss_nor_gain() {
        // On nodes of a tenth of a core each process gets a tenth.
        let (mut runs, mut pauses) = (Lag::default(), Lag::default());
        for second in 0..60 {
            let all = Mean { lag_ms: f64::from(runs.ms()), rate: 0.1 };
            let wanted_ms = if second % 30 < 15 { 1000.0 } else { 0.0 };
            pauses.advance(1000.0, wanted_ms, wanted_ms / 10.0, all, 10_000.0);
            runs.advance(1000.0, 1000.0, 100.0, all, 10_000.0);
        }
        assert!((runs.ms() - pauses.ms()).abs() < 500, "{} and {}", runs.ms(), pauses.ms());
    }
}
