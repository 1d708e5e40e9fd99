//! A crowd on a machine: many processes with many descriptors, as on a desktop.

use crate::Error;
use rustix::event::{EventfdFlags, eventfd};
use std::fmt;
use std::process::{Child, Command, Stdio};

const PROCESSES: usize = 300;
const EVENTFDS: usize = 60;

/// The processes, which only sleep.
#[derive(Debug)]
pub struct Crowd(Vec<Child>);

impl Crowd {
    /// Starts the processes.
    pub fn start() -> Result<Crowd, Error> {
        let failed = || Error::system("making eventfds");
        // The children must inherit them.
        let all = (0..EVENTFDS).map(|_| eventfd(0, EventfdFlags::empty())).collect::<Result<Vec<_>, _>>();
        let _inherited = all.map_err(|e| failed()(e.into()))?;
        let mut crowd = Crowd(Vec::new());
        for _ in 0..PROCESSES {
            let mut sleep = Command::new("sleep");
            sleep.arg("infinity").stdin(Stdio::null()).stdout(Stdio::null());
            crowd.0.push(sleep.spawn().map_err(Error::system("running sleep"))?);
        }
        Ok(crowd)
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl fmt::Display for Crowd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PROCESSES} processes with {} descriptors", PROCESSES * (EVENTFDS + 3))
    }
}
