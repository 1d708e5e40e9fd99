//! Processors that do not go to sleep, for moments in which threads wait for each other: a
//! processor that sleeps takes longer to wake up than what is waited for takes.
//!
//! The whole machine pays for that with power, so nobody keeps it awake for long: each request ends
//! after [`AWAKE_MAX`] by itself, and none is made on a machine that runs from its battery, or
//! whose owner forbids it ([`crate::expenses`]).

use crate::expenses::Expense;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Where a process says how long its wake-ups may take, for as long as it has it open
/// (Documentation/power/pm_qos_interface.rst).
pub const PATH: &str = "/dev/cpu_dma_latency";
/// The longest time for which one request keeps processors awake.
pub const AWAKE_MAX: Duration = Duration::from_millis(20);
/// Where the kernel lists what the machine gets its power from
/// (Documentation/ABI/testing/sysfs-class-power).
const POWER: &str = "/sys/class/power_supply";
/// How long it is believed.
const POWER_AGE: Duration = Duration::from_secs(10);

/// The open file, until it is closed: by its owner, or in its time.
type Asked = Mutex<Option<File>>;
/// To the thread that closes each in its time.
type Ends = Sender<(Instant, Weak<Asked>)>;

/// While it lives, but no longer than [`AWAKE_MAX`], idle processors of this machine wait awake.
#[derive(Debug)]
pub struct Awake {
    asked: Arc<Asked>,
}

impl Awake {
    /// From now on; `None` where that may not be asked for, or costs too much: everybody can do
    /// without.
    pub fn now() -> Option<Awake> {
        if !Expense::Wakefulness.is_allowed() || runs_from_battery() {
            return None;
        }
        let ends = ends()?;
        let mut file = File::options().write(true).open(PATH).ok()?;
        // Microseconds, as the kernel's own integer.
        file.write_all(&0i32.to_ne_bytes()).ok()?;
        let asked = Arc::new(Mutex::new(Some(file)));
        ends.send((Instant::now() + AWAKE_MAX, Arc::downgrade(&asked))).ok()?;
        Some(Awake { asked })
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        close(&self.asked);
    }
}

fn close(asked: &Asked) {
    drop(asked.lock().unwrap_or_else(PoisonError::into_inner).take());
}

/// To the thread that ends requests in their time; `None` if there can be none.
fn ends() -> Option<&'static Ends> {
    static ENDS: OnceLock<Option<Ends>> = OnceLock::new();
    let begin = || {
        let (ends, all) = channel();
        std::thread::Builder::new().name("awake".into()).spawn(move || end_all(&all)).ok().map(|_| ends)
    };
    ENDS.get_or_init(begin).as_ref()
}

/// Ends each request in its time. All last equally long, so they end in the order in which they
/// were made.
fn end_all(all: &Receiver<(Instant, Weak<Asked>)>) {
    for (end, asked) in all {
        std::thread::sleep(end.saturating_duration_since(Instant::now()));
        if let Some(asked) = asked.upgrade() {
            close(&asked);
        }
    }
}

/// Tells whether this machine has a mains supply that gives nothing.
fn runs_from_battery() -> bool {
    static SEEN: Mutex<Option<(Instant, bool)>> = Mutex::new(None);
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    match *seen {
        Some((at, battery)) if at.elapsed() < POWER_AGE => battery,
        _ => {
            let battery = has_dead_mains(Path::new(POWER));
            *seen = Some((Instant::now(), battery));
            battery
        }
    }
}

/// Tells whether there are mains supplies below this directory, and none is on.
fn has_dead_mains(supplies: &Path) -> bool {
    let read = |path: &Path, name: &str| std::fs::read_to_string(path.join(name)).unwrap_or_default();
    let all = std::fs::read_dir(supplies).into_iter().flatten().flatten().map(|entry| entry.path());
    let mains: Vec<bool> = all
        .filter(|path| read(path, "type").trim() == "Mains")
        .map(|path| read(&path, "online").trim() == "1")
        .collect();
    !mains.is_empty() && !mains.contains(&true)
}

/// In so long a program that is placed begins, and ends if it does next to nothing.
const BEGINNING: Duration = Duration::from_millis(10);

/// Keeps processors awake for a while from the last time that it was asked to: for what has no end
/// that one thread sees. For as long as its process lives.
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
            // Each beginning has its own time.
            Some((awake, kept_until)) => {
                *kept_until = end.max(*kept_until);
                Awake::now().into_iter().for_each(|anew| *awake = anew);
            }
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
    fn nobody_keeps_a_machine_awake_for_long() {
        let Some(awake) = Awake::now() else { return };
        let is_open = || awake.asked.lock().unwrap().is_some();
        assert!(is_open());
        let begun = Instant::now();
        while is_open() {
            assert!(begun.elapsed() < Duration::from_secs(10), "it is held for ever");
            std::thread::yield_now();
        }
        assert!(begun.elapsed() + Duration::from_millis(1) >= AWAKE_MAX);
    }

    #[test]
    fn a_battery_is_one_when_no_mains_are_on() {
        let dir = std::env::temp_dir().join(format!("tern-power-{}", std::process::id()));
        let supply = |name: &str, kind: &str, online: &str| {
            let at = dir.join(name);
            std::fs::create_dir_all(&at).unwrap();
            std::fs::write(at.join("type"), kind).unwrap();
            std::fs::write(at.join("online"), online).unwrap();
        };
        assert!(!has_dead_mains(&dir));
        supply("BAT0", "Battery\n", "1\n");
        assert!(!has_dead_mains(&dir));
        supply("AC", "Mains\n", "0\n");
        assert!(has_dead_mains(&dir));
        supply("AC2", "Mains\n", "1\n");
        assert!(!has_dead_mains(&dir));
        std::fs::remove_dir_all(&dir).unwrap();
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
