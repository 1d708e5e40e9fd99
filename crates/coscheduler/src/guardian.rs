//! The process that takes back what the agent did, if the agent cannot.
//!
//! The agent starts it with a pipe. Each line that comes is all that must be taken back from then
//! on, and is written before the agent does what it describes. The end of the pipe is the end of
//! the agent, also by SIGKILL: the last line is carried out then.

use std::io::{self, BufRead as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};

use cosched::ProcessKey;
use os::cgroup::Subgroup;
use os::pidfd::PidFd;
use os::scheduling::Schedule;
use serde::{Deserialize, Serialize};

use crate::levers::{Boost, began};

/// The first word of the guardian's command line.
pub const ROLE: &str = "__cosched-guardian";

/// Signal that has a stopped process go on.
const SIGCONT: i32 = 18;

/// How to take back what was done to processes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undo {
    /// Groups to be dissolved.
    pub groups: Vec<PathBuf>,
    /// Threads whose priority may be raised.
    pub threads: Vec<ThreadBefore>,
    /// Processes that were stopped by a signal.
    pub stopped: Vec<ProcessKey>,
}

/// How a thread was scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadBefore {
    /// The thread itself.
    pub thread: ProcessKey,
    /// The policy without flags.
    pub policy: u32,
    /// The flag that children do not inherit it.
    pub resets_on_fork: bool,
    /// The nice value.
    pub nice: i32,
}

impl ThreadBefore {
    /// Notes how a thread is scheduled.
    pub fn new(thread: ProcessKey, schedule: Schedule) -> ThreadBefore {
        let Schedule { policy, resets_on_fork, nice, .. } = schedule;
        ThreadBefore { thread, policy, resets_on_fork, nice }
    }

    /// Gives the thread its schedule back, unless the schedule is another one than ours by now.
    ///
    /// # Errors
    /// The kernel refuses, or the thread has gone.
    pub fn restore(&self) -> os::Result<()> {
        let tid = self.thread.pid;
        if began(tid) != Some(self.thread.began) || !Boost::is_one(Schedule::of(tid)?) {
            return Ok(());
        }
        let Self { policy, resets_on_fork, nice, .. } = *self;
        Schedule { policy, resets_on_fork, nice, priority: 0 }.apply(tid)
    }
}

impl Undo {
    /// Takes all back. Failures are ignored: their processes have mostly ended.
    pub fn carry_out(&self) {
        for group in &self.groups {
            if let Err(e) = Subgroup::at(group.clone()).dissolve() {
                tracing::warn!("cosched: {e}");
            }
        }
        for process in self.stopped.iter().filter(|process| began(process.pid) == Some(process.began)) {
            if let Err(e) = PidFd::open(process.pid).and_then(|held| held.kill(SIGCONT)) {
                tracing::debug!("cosched: {e}");
            }
        }
        for thread in &self.threads {
            if let Err(e) = thread.restore() {
                tracing::debug!("cosched: {e}");
            }
        }
    }
}

/// The agent's end of its guardian.
#[derive(Debug)]
pub struct Guardian {
    child: Child,
    pipe: io::PipeWriter,
    told: Undo,
}

impl Guardian {
    /// Starts one that has nothing to take back.
    ///
    /// # Errors
    /// Those of starting a process.
    pub fn start() -> io::Result<Guardian> {
        Guardian::with(Undo::default())
    }

    /// Starts a guardian that would have to take this back. The guardian knows its duty from its
    /// beginning on, whatever ends the agent meanwhile.
    fn with(undo: Undo) -> io::Result<Guardian> {
        /// A new pipe takes so many bytes while nobody reads.
        const PIPE_BYTES: usize = 32_768;
        let (reader, mut pipe) = io::pipe()?;
        let line = line(&undo)?;
        let (early, late) = if line.len() <= PIPE_BYTES { (line, Vec::new()) } else { (Vec::new(), line) };
        pipe.write_all(&early)?;
        // In a group of its own: what ends the agent's group spares it.
        let child = Command::new("/proc/self/exe")
            .arg0("tern")
            .arg(ROLE)
            .stdin(reader)
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()?;
        pipe.write_all(&late)?;
        Ok(Guardian { child, pipe, told: undo })
    }

    /// Tells the guardian all that it would have to take back. Starts another one if it has ended.
    ///
    /// # Errors
    /// There is no guardian, and none can be started.
    pub fn tell(&mut self, undo: Undo) -> io::Result<()> {
        if undo == self.told {
            return Ok(());
        }
        match self.pipe.write_all(&line(&undo)?) {
            Ok(()) => self.told = undo,
            Err(_) => self.replace(undo)?,
        }
        Ok(())
    }

    /// Starts another guardian if this one has ended.
    ///
    /// # Errors
    /// None can be started.
    pub fn check(&mut self) -> io::Result<()> {
        match self.child.try_wait()? {
            Some(_) => self.replace(self.told.clone()),
            None => Ok(()),
        }
    }

    fn replace(&mut self, undo: Undo) -> io::Result<()> {
        let mut earlier = std::mem::replace(self, Guardian::with(undo)?);
        // The earlier guardian has ended and must be reaped.
        let _ = earlier.child.wait();
        Ok(())
    }
}

fn line(undo: &Undo) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(undo)?;
    line.push(b'\n');
    Ok(line)
}

/// Waits for the end of the agent, and takes back what it did.
pub fn main() -> ExitCode {
    // Under load, an ordinary process may wait for a processor for longer than tasks may stand
    // still. Without the right to it, it does.
    let _ = Schedule::FIRST.apply(0).or_else(|_| Schedule::LEAST_NICE.apply(0));
    let mut last = Undo::default();
    for line in io::stdin().lock().lines() {
        match line.map_err(|e| e.to_string()).and_then(|line| serde_json::from_str(&line).map_err(|e| e.to_string())) {
            Ok(undo) => last = undo,
            // The agent died in the middle of a line, before it did what that describes.
            Err(e) => tracing::debug!("cosched: {e}"),
        }
    }
    last.carry_out();
    ExitCode::SUCCESS
}
