//! What users have said about single processes: `pins.json` in the run directory, so that the next
//! daemon knows too.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use control_protocol::tool::Pin;
use serde::{Deserialize, Serialize};

use crate::hosted::start_time;
use crate::locks::lock;

/// Name of the file.
const FILE: &str = "pins.json";
/// Most processes of which something is said.
const PINS_MAX: usize = 4096;

/// PID and start time together name one process for ever.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Pinned {
    started: u64,
    pin: Pin,
}

/// What users have said, by PID.
pub(crate) struct Pins {
    file: PathBuf,
    pinned: Mutex<BTreeMap<u32, Pinned>>,
}

impl Pins {
    pub(crate) fn load(run_dir: &Path) -> Pins {
        let file = run_dir.join(FILE);
        let pinned = fs::read(&file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        Pins { file, pinned: Mutex::new(pinned) }
    }

    /// What is said of this process.
    pub(crate) fn get(&self, pid: u32) -> Option<Pin> {
        let pinned = *lock(&self.pinned).get(&pid)?;
        (start_time(pid) == Some(pinned.started)).then_some(pinned.pin)
    }

    /// Says it; nothing of a process that has ended.
    ///
    /// # Errors
    /// There is no such process; too many are pinned; the file cannot be written.
    pub(crate) fn set(&self, pid: u32, pin: Option<Pin>) -> io::Result<()> {
        let started = start_time(pid).ok_or(io::ErrorKind::NotFound)?;
        let mut pinned = lock(&self.pinned);
        let mut changed = pinned.clone();
        changed.retain(|pid, p| start_time(*pid) == Some(p.started));
        match pin {
            Some(_) if changed.len() >= PINS_MAX && !changed.contains_key(&pid) => {
                return Err(io::Error::other(format!("{PINS_MAX} processes are pinned already")));
            }
            Some(pin) => drop(changed.insert(pid, Pinned { started, pin })),
            None => drop(changed.remove(&pid)),
        }
        let new = self.file.with_extension("new");
        fs::write(&new, serde_json::to_vec(&changed)?)?;
        fs::rename(&new, &self.file)?;
        *pinned = changed;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pins_outlive_the_daemon_but_not_the_process() {
        let run_dir = std::env::temp_dir().join(format!("tern-pins-{}", std::process::id()));
        fs::create_dir_all(&run_dir).unwrap();
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let pin = Pin { stay: true, ..Pin::default() };
        Pins::load(&run_dir).set(child.id(), Some(pin)).unwrap();
        let pins = Pins::load(&run_dir);
        assert_eq!(pins.get(child.id()), Some(pin));
        pins.set(child.id(), None).unwrap();
        assert_eq!(pins.get(child.id()), None);
        pins.set(child.id(), Some(pin)).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(pins.get(child.id()), None);
        assert!(pins.set(child.id(), Some(pin)).is_err());
        fs::remove_dir_all(&run_dir).unwrap();
    }
}
