//! `tern netmon --all`: samples the queues of this node for another one, whose root is allowed to
//! see them (`netmon-by`), and asks other nodes to do so.
//!
//! The sampler is `tern netmon`, a process of its own that writes its recording into a pipe. It
//! ends if nobody reads that any more.

use std::collections::HashMap;
use std::io::{ErrorKind, Read as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use control_protocol::peer::{PeerAnswer, PeerRequest};
use control_protocol::sampling::{PART_BYTES, Sampled, Sampling, SamplingOrder};
use identity::NodeName;

use crate::Error;
use crate::daemon::Daemon;
use crate::dial::Session;
use crate::locks::lock;

/// The most samplers at once.
const SAMPLERS_MAX: usize = 4;
/// A sampler ends if it is not asked for so long: nobody reads its pipe, and it could not end by
/// itself.
const ASKED_WITHIN: Duration = Duration::from_secs(10);
/// Bytes that the pipe of a sampler holds.
const PIPE_BYTES: usize = 1 << 20;

/// Samplers of this node that work for other ones.
#[derive(Debug, Default)]
pub(crate) struct Samplers {
    running: Mutex<HashMap<u64, Sampler>>,
}

#[derive(Debug)]
struct Sampler {
    /// Name of the node that it works for.
    whom: String,
    child: Child,
    recording: ChildStdout,
    asked: Instant,
}

impl Drop for Sampler {
    fn drop(&mut self) {
        // One that has ended is only waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Obeys another node.
///
/// # Errors
/// In words: the owner of this node does not allow it, or the sampler cannot be had.
pub(crate) fn obey(daemon: &Arc<Daemon>, name: &NodeName, sampling: Sampling) -> Result<Sampled, String> {
    if !daemon.policy.settings().netmon_by.includes(name.as_str()) {
        return Err(format!("its owner does not let {name} see its queues (there: tern policy set netmon-by={name})"));
    }
    let mut running = lock(&daemon.samplers.running);
    match sampling {
        Sampling::Begin(order) => {
            if running.len() >= SAMPLERS_MAX {
                return Err(format!("{SAMPLERS_MAX} samplers run there already"));
            }
            let sampler = begin(&daemon.options.run_dir, name, &order)?;
            tracing::info!("{name} samples the queues of this node for {} s", order.time_ms / 1000);
            let id = rand::random();
            if running.insert(id, sampler).is_none() && running.len() == 1 {
                daemon.runtime.spawn(end_forgotten(Arc::clone(daemon)));
            }
            Ok(Sampled { id, ..Sampled::default() })
        }
        Sampling::Read { id } => {
            let sampler = running.get_mut(&id).filter(|sampler| sampler.whom == name.as_str());
            let part = sampler.ok_or("the sampler has ended there")?.read(id);
            if part.is_over {
                running.remove(&id);
            }
            Ok(part)
        }
        Sampling::End { id } => {
            let sampler = running.get_mut(&id).filter(|sampler| sampler.whom == name.as_str());
            sampler.ok_or("the sampler has ended there")?.end();
            Ok(Sampled { id, ..Sampled::default() })
        }
    }
}

/// Ends samplers whose node does not ask any more, as long as there are samplers.
async fn end_forgotten(daemon: Arc<Daemon>) {
    loop {
        tokio::time::sleep(ASKED_WITHIN).await;
        let mut running = lock(&daemon.samplers.running);
        running.retain(|_, sampler| sampler.asked.elapsed() < ASKED_WITHIN);
        if running.is_empty() {
            return;
        }
    }
}

fn begin(run_dir: &Path, name: &NodeName, order: &SamplingOrder) -> Result<Sampler, String> {
    if !order.is_sound() {
        return Err("the order is beyond its bounds".into());
    }
    let mut command = Command::new("/proc/self/exe");
    let period_ms = order.period_us as f64 / 1000.0;
    command.args(["netmon", "-f=-", "--max-size=1048576"]);
    command.arg(format!("-d{period_ms}")).arg(format!("-t{}", order.time_ms as f64 / 1000.0));
    command.arg(format!("--layers={}", order.layers.join(",")));
    command.args(order.processes.iter().map(|process| format!("--process={process}")));
    command.args(order.jobs.iter().map(|job| format!("--job={job}")));
    command.arg("--").args(&order.interfaces);
    command.env("TERN_RUN", run_dir).current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let failed = |e: std::io::Error| format!("the sampler cannot be started: {e}");
    let mut child = command.spawn().map_err(failed)?;
    let recording = child.stdout.take().ok_or("the sampler has no output")?;
    let sampler = Sampler { whom: name.to_string(), child, recording, asked: Instant::now() };
    // A smaller pipe only loses samples sooner.
    let _ = rustix::pipe::fcntl_setpipe_size(&sampler.recording, PIPE_BYTES);
    rustix::io::ioctl_fionbio(&sampler.recording, true).map_err(|e| failed(e.into()))?;
    Ok(sampler)
}

impl Sampler {
    /// Has the sampler write its end. The rest of the recording is read as before.
    fn end(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        // Nobody has waited for the sampler, so no other process has its number.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
    }

    fn read(&mut self, id: u64) -> Sampled {
        self.asked = Instant::now();
        let mut part = Sampled { id, ..Sampled::default() };
        let mut piece = [0; 16 << 10];
        while part.bytes.len() + piece.len() <= PART_BYTES {
            match self.recording.read(&mut piece) {
                Ok(0) => {
                    part.is_over = true;
                    break;
                }
                Ok(count) => part.bytes.extend(&piece[..count]),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) => {
                    tracing::warn!("reading a sampler: {e}");
                    part.is_over = true;
                    break;
                }
            }
        }
        part
    }
}

/// Passes an order of this node's root to another node. If it begins a sampler, the clocks are
/// compared, too.
///
/// # Errors
/// The node is not there, or refuses.
pub(crate) fn ask(daemon: &Arc<Daemon>, node: &str, sampling: Sampling) -> Result<Sampled, Error> {
    let member = daemon.living_soon(node)?;
    let begins = matches!(sampling, Sampling::Begin(_));
    let asked = async {
        let mut session = Session::open(daemon, &member).await?;
        let skew_us = if begins { session.survey(daemon).await?.skew_us } else { 0 };
        match session.ask(&PeerRequest::Sample(sampling)).await? {
            PeerAnswer::Sampled(sampled) => Ok(Sampled { skew_us, ..sampled }),
            _ => Err(Error::Refused { node: node.into(), reason: "unexpected answer".into() }),
        }
    };
    daemon.runtime.block_on(asked)
}
