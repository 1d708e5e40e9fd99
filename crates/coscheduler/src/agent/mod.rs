//! The agent: one process of a user on a node, which coschedules the user's jobs.

mod by_arrivals;
mod clock;
mod control;
mod hosted;
mod jobs;
mod members;
mod missing;
mod nodes;
mod registered;

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use os::scheduling::Schedule;
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::protocol::PACKET_MAX;
pub use hosted::for_home;
use jobs::Jobs;
use missing::Missing;
pub use nodes::Cluster;
use nodes::Nodes;

/// The first word of the agent's command line.
pub const ROLE: &str = "__cosched";

/// The name of the agent's socket.
pub const SOCKET: &str = "cosched.sock";
/// The name of the file that is locked by the one agent of a directory.
const LOCK: &str = "cosched.lock";

/// Processes are looked for so often.
const LOOKS: Duration = Duration::from_millis(100);
/// An agent without jobs ends after so long.
const IDLE: Duration = Duration::from_secs(2);
/// The most commands that are served at once.
const CLIENTS_MAX: usize = 16;

/// Why the agent ended.
#[derive(Debug, thiserror::Error)]
enum Error {
    /// The command line has no directory.
    #[error("the agent needs a directory")]
    Usage,
    /// A file or socket of the agent.
    #[error("cannot {doing} in {directory}: {source}")]
    Directory {
        /// The step that failed.
        doing: &'static str,
        /// The agent's directory.
        directory: String,
        /// The system's error.
        source: io::Error,
    },
    /// There is no guardian.
    #[error("the guardian cannot be started: {0}")]
    Guardian(io::Error),
    /// Waiting for events failed.
    #[error("waiting for events: {0}")]
    Wait(io::Error),
}

/// Serves the directory that the only argument names, until there are no jobs any more. `cluster`
/// has other nodes told.
pub fn main(args: &[String], cluster: Cluster) -> ExitCode {
    match args.first().ok_or(Error::Usage).and_then(|directory| serve(Path::new(directory), cluster)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            tracing::error!("cosched: {e}");
            ExitCode::FAILURE
        }
    }
}

fn serve(directory: &Path, cluster: Cluster) -> Result<(), Error> {
    let failed =
        |doing| move |source: io::Error| Error::Directory { doing, directory: directory.display().to_string(), source };
    // The leader of a group already leads a session of no terminal, or its end ends the agent.
    let _ = os::process::lead_session();
    let lock = std::fs::File::create(directory.join(LOCK)).map_err(failed("make a lock"))?;
    if lock.try_lock().is_err() {
        // Another agent serves the directory.
        return Ok(());
    }
    let listener = packet::listen(&directory.join(SOCKET), 0o600, CLIENTS_MAX as i32).map_err(failed("listen"))?;
    let mut missing = BTreeSet::new();
    if Schedule::FIRST.apply(0).is_err() {
        missing.insert(Missing::Agent);
        // Better than nothing, where the superuser has no share of real time.
        let _ = Schedule::LEAST_NICE.apply(0);
    }
    // The owner of a node allows orders of another node's root. No owner has allowed those of
    // other users.
    let is_root = rustix::process::geteuid().is_root();
    let nodes = is_root.then(|| Nodes::start(directory, cluster));
    let jobs = Jobs::new(missing, nodes).map_err(Error::Guardian)?;
    Agent { listener, clients: Vec::new(), jobs, looks_at: Instant::now(), idle_since: Instant::now() }.run()
}

/// The agent with its commands and jobs.
struct Agent {
    listener: OwnedFd,
    clients: Vec<OwnedFd>,
    jobs: Jobs,
    looks_at: Instant,
    idle_since: Instant,
}

impl Agent {
    fn run(mut self) -> Result<(), Error> {
        loop {
            if Instant::now() >= self.looks_at {
                self.jobs.look().map_err(Error::Guardian)?;
                self.looks_at = Instant::now() + LOOKS;
            }
            self.jobs.switch().map_err(Error::Guardian)?;
            self.jobs.step();
            if !self.jobs.is_empty() || !self.clients.is_empty() {
                self.idle_since = Instant::now();
            } else if self.idle_since.elapsed() >= IDLE {
                return Ok(());
            }
            let ready = self.wait().map_err(Error::Wait)?;
            self.serve(&ready).map_err(Error::Guardian)?;
        }
    }

    /// Waits for a command, or until something is due. Tells which descriptors are ready: the
    /// listener's first.
    fn wait(&self) -> io::Result<Vec<bool>> {
        let until_look = self.looks_at.saturating_duration_since(Instant::now());
        let until_switch = self.jobs.next_switch_us().map(|us| us.saturating_sub(clock::wall_us()));
        let until_step = self.jobs.next_step_us().map(|us| us.saturating_sub(clock::monotonic_us()));
        let until_due = until_switch.into_iter().chain(until_step).map(Duration::from_micros);
        let wait = until_due.fold(until_look, Duration::min);
        let own = std::iter::once(&self.listener).chain(&self.clients).map(|fd| fd.as_fd());
        let all = own.chain(self.jobs.arrivals());
        let mut fds: Vec<PollFd<'_>> = all.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let timeout = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() };
        match rustix::event::poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        Ok(fds.iter().map(|fd| !fd.revents().is_empty()).collect())
    }

    /// Serves the commands that have come. A failure to answer is the command's affair.
    fn serve(&mut self, ready: &[bool]) -> io::Result<()> {
        let (is_new, ready) = ready.split_first().map_or((false, ready), |(first, rest)| (*first, rest));
        let clients = std::mem::take(&mut self.clients);
        for (client, is_ready) in clients.into_iter().zip(ready) {
            if !is_ready {
                self.clients.push(client);
                continue;
            }
            let Ok(packet) = packet::receive(&client, PACKET_MAX) else { continue };
            let Ok(request) = serde_json::from_slice(&packet.bytes) else { continue };
            let answer = self.jobs.answer(&request)?;
            let bytes = serde_json::to_vec(&answer).unwrap_or_default();
            if let Err(e) = packet::send(&client, &bytes, &[]) {
                tracing::info!("cosched: answering: {e}");
            }
        }
        if is_new && self.clients.len() < CLIENTS_MAX {
            let client = packet::accept(&self.listener)?;
            // The agent acts for its own user alone.
            if packet::peer(&client)?.uid == rustix::process::geteuid().as_raw() {
                self.clients.push(client);
            }
        }
        Ok(())
    }
}
