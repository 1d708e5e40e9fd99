//! Processors that do not go to sleep, for moments in which threads wait for each other: a processor that sleeps takes longer to wake up than what is waited for takes.

use std::fs::File;
use std::io::Write;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Where a process says how long its wake-ups may take, for as long as it has it open (Documentation/power/pm_qos_interface.rst).
pub const PATH: &str = "/dev/cpu_dma_latency";

/// While it lives, idle processors of this machine wait awake. For milliseconds: it costs power.
#[derive(Debug)]
pub struct Awake {
    _asked: File,
}

impl Awake {
    /// From now on; `None` where that may not be asked for: everybody can do without.
    pub fn now() -> Option<Awake> {
        let mut file = File::options().write(true).open(PATH).ok()?;
        // Microseconds, as the kernel's own integer.
        file.write_all(&0i32.to_ne_bytes()).ok()?;
        Some(Awake { _asked: file })
    }
}

/// In so long a program that is placed begins, and ends if it does next to nothing.
const BEGINNING: Duration = Duration::from_millis(10);

/// Keeps processors awake for a while from the last time that it was asked to: for what has no end that one thread sees. For as long as its process lives.
#[derive(Debug, Default)]
pub struct Vigil(Arc<Kept>);

#[derive(Debug, Default)]
struct Kept {
    until: Mutex<Until>,
    begun: Condvar,
}

#[derive(Debug, Default)]
struct Until {
    /// Its thread runs.
    watched: bool,
    kept: Option<(Awake, Instant)>,
}

impl Vigil {
    /// While a program begins.
    pub fn over_beginning(&self) {
        self.keep(BEGINNING);
    }

    /// From now on, for that long.
    fn keep(&self, time: Duration) {
        let mut until = self.0.until.lock().unwrap_or_else(PoisonError::into_inner);
        let end = Instant::now() + time;
        match &mut until.kept {
            Some((_, kept_until)) => *kept_until = end.max(*kept_until),
            None => until.kept = Awake::now().map(|awake| (awake, end)),
        }
        if until.kept.is_some() && !until.watched {
            let kept = self.0.clone();
            until.watched = std::thread::Builder::new().name("vigil".into()).spawn(move || kept.watch()).is_ok();
            if !until.watched {
                until.kept = None;
            }
        }
        self.0.begun.notify_one();
    }
}

impl Kept {
    /// Ends each vigil in time; never returns.
    fn watch(&self) {
        let mut until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let rest = until.kept.as_ref().map(|(_, end)| end.saturating_duration_since(Instant::now()));
            until = match rest {
                None => self.begun.wait(until).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => {
                    until.kept = None;
                    until
                }
                Some(rest) => self.begun.wait_timeout(until, rest).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_kept(vigil: &Vigil) -> bool {
        vigil.0.until.lock().unwrap_or_else(PoisonError::into_inner).kept.is_some()
    }

    #[test]
    fn a_vigil_ends_by_itself_and_begins_anew() {
        let vigil = Vigil::default();
        if Awake::now().is_none() {
            return;
        }
        vigil.keep(Duration::ZERO);
        while is_kept(&vigil) {
            std::thread::yield_now();
        }
        vigil.keep(Duration::from_secs(3600));
        vigil.keep(Duration::ZERO);
        assert!(is_kept(&vigil), "the longest is kept");
    }
}
