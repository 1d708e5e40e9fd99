//! Monitoring: two samplers, and the thread that collects, looks for trouble, and writes.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use control_protocol::sampling::SamplingOrder;

use super::args::HoldName;
use super::sinks::Sinks;
use super::{Args, Error};
use crate::book::Book;
use crate::cluster::Cluster;
use crate::diagnosis::Diagnosis;
use crate::layer::Layer;
use crate::record::{Record, Start, Summary};
use crate::sampler::clock::{self, Clock};
use crate::sampler::fast::{Fast, Orders, Shared, Went};
use crate::sampler::remote::{NODES_MAX, Place, Remote};
use crate::sampler::slow::{Plan, Slow};
use crate::sampler::watch_sockets::Hold;
use crate::sampler::watch_tern::TernWatch;
use crate::source::processes::{Choice, Names};

/// Batches of records that wait for the collector.
const WAITING_MAX: usize = 256;
/// How long the collector waits for records at most.
const WAITS: Duration = Duration::from_millis(20);
/// Queues are examined, and the file is written, so often, microseconds.
const CHECK_US: u64 = 100_000;
/// Other nodes have so long to send their last records, microseconds.
const LAST_WORDS_US: u64 = 2_000_000;
/// The table is renewed so often, microseconds.
const SHOW_US: u64 = 1_000_000;
/// So many objects may be gone and still be shown.
const GONE_MAX: usize = 4096;

/// Monitors for the time that the arguments say, or until the user interrupts it.
pub fn monitor(args: &Args, cluster: &Arc<dyn Cluster>) -> Result<(), Error> {
    let mut collector = Collector::new(args)?;
    let interrupted = os::fds::interrupts().ok();
    let (sender, receiver) = mpsc::sync_channel(WAITING_MAX);
    let ends = Arc::new(AtomicBool::new(false));
    let shared = Shared { clock: collector.clock, ends, sender, first: args.real_time };
    let progress = Arc::new(Mutex::new(Went::default()));
    let samplers = start(&shared, plan(args), cluster, Arc::clone(&progress))?;
    if args.all {
        start_remotes(&shared, args, cluster, collector.wall_us);
    }
    let end_us = (args.time_s * 1e6) as u64;
    loop {
        let is_over = collector.clock.now_us() >= end_us || !collector.sinks.has_reader();
        if is_over || interrupted.as_ref().is_some_and(|fd| is_readable(fd.as_fd())) {
            break;
        }
        match receiver.recv_timeout(WAITS) {
            Ok(records) => records.into_iter().for_each(|record| collector.take(record)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        collector.sinks.obey_keys(&collector.book);
        let went = *progress.lock().unwrap_or_else(PoisonError::into_inner);
        collector.check_if_due(went);
    }
    shared.ends.store(true, Ordering::Relaxed);
    drop(shared);
    collector.finish(samplers, &receiver)
}

fn is_readable(fd: BorrowedFd<'_>) -> bool {
    os::fds::ready(fd) & rustix::event::PollFlags::IN.bits() != 0
}

fn plan(args: &Args) -> Plan {
    let names = Names { processes: args.processes.clone(), jobs: args.jobs.clone() };
    let processes = if names == Names::default() { Choice::All } else { Choice::Named(names) };
    let layers = args.layers.iter().copied().filter(|l| *l != Layer::Daemon || !args.no_tickle);
    Plan {
        layers: layers.collect(),
        interfaces: args.interfaces.clone(),
        processes,
        hold: match args.hold {
            HoldName::Auto => Hold::Auto,
            HoldName::Never => Hold::Never,
            HoldName::Always => Hold::Always,
        },
        time: Duration::from_secs_f64(args.time_s),
        fast_period_ns: (args.period_ms * 1e6) as u64,
    }
}

/// The threads of both samplers.
struct Samplers {
    fast: JoinHandle<Went>,
    slow: JoinHandle<Went>,
    tern: JoinHandle<Went>,
}

impl Samplers {
    fn have_ended(&self) -> bool {
        [&self.fast, &self.slow, &self.tern].iter().all(|thread| thread.is_finished())
    }
}

fn start(
    shared: &Shared,
    plan: Plan,
    cluster: &Arc<dyn Cluster>,
    progress: Arc<Mutex<Went>>,
) -> Result<Samplers, Error> {
    let orders = Arc::new(Orders::default());
    let fast = Fast::new(shared.clone(), Arc::clone(&orders), progress, plan.fast_period_ns);
    let tern = TernWatch::new(shared.clone(), Arc::clone(cluster), &plan.layers, plan.processes.clone());
    let slow = Slow::new(shared.clone(), plan, orders);
    let builder = |name: &'static str| std::thread::Builder::new().name(format!("netmon-{name}"));
    let failed = |name| move |_| Error::Sampler { name };
    Ok(Samplers {
        fast: builder("fast").spawn(move || fast.run()).map_err(failed("fast"))?,
        slow: builder("slow").spawn(move || slow.run()).map_err(failed("slow"))?,
        tern: builder("tern").spawn(move || tern.run()).map_err(failed("tern"))?,
    })
}

/// Has all other nodes sample their part. Their threads end with this recording.
fn start_remotes(shared: &Shared, args: &Args, cluster: &Arc<dyn Cluster>, wall_us: u64) {
    let note = |text: String| drop(shared.sender.send(vec![Record::Note { at_us: shared.clock.now_us(), text }]));
    let nodes = match cluster.other_nodes() {
        Ok(nodes) => nodes,
        Err(reason) => return note(format!("only this node is sampled: {reason}")),
    };
    let order = SamplingOrder {
        period_us: ((args.period_ms * 1e3) as u64).max(1),
        time_ms: ((args.time_s * 1e3) as u64).max(1),
        layers: args.layers.iter().map(|layer| layer.name().to_owned()).collect(),
        interfaces: args.interfaces.clone(),
        processes: args.processes.clone(),
        jobs: args.jobs.clone(),
    };
    for (index, node) in nodes.into_iter().take(NODES_MAX).enumerate() {
        let place = Place { node, index, wall_us };
        let remote = Remote::new(shared.clone(), Arc::clone(cluster), order.clone(), place.clone());
        let started = std::thread::Builder::new().name("netmon-remote".into()).spawn(move || remote.run());
        if let Err(e) = started {
            note(format!("node {} is not sampled: {e}", place.node));
        }
    }
}

/// Collects the records of both samplers.
struct Collector {
    clock: Clock,
    /// When it began, microseconds since 1970.
    wall_us: u64,
    book: Book,
    diagnosis: Diagnosis,
    sinks: Sinks,
    check_due_us: u64,
    show_due_us: u64,
}

impl Collector {
    fn new(args: &Args) -> Result<Collector, Error> {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let plan = plan(args);
        let wall_us = u64::try_from(since.as_micros()).unwrap_or(u64::MAX);
        let start = Start {
            wall_us,
            period_ns: plan.fast_period_ns,
            slow_period_ns: plan.period_ns(),
            time_ms: (args.time_s * 1e3) as u64,
            interfaces: plan.interfaces,
        };
        let mut collector = Collector {
            clock: Clock::start(),
            wall_us,
            book: Book::default(),
            diagnosis: Diagnosis::default(),
            sinks: Sinks::open(args)?,
            check_due_us: CHECK_US,
            show_due_us: SHOW_US,
        };
        collector.take(Record::Start(start));
        collector.sinks.flush();
        Ok(collector)
    }

    fn take(&mut self, record: Record) {
        self.book.apply(&record);
        self.sinks.take(&record, &self.book);
    }

    fn check_if_due(&mut self, went: Went) {
        let now_us = self.clock.now_us();
        if now_us < self.check_due_us {
            return;
        }
        self.check_due_us = now_us + CHECK_US;
        self.check();
        self.take(Record::Progress(self.summary(went, Went::default())));
        self.sinks.flush();
        self.sinks.expose(&self.book, false);
        if now_us >= self.show_due_us {
            self.show_due_us = now_us + SHOW_US;
            self.sinks.show(&self.book);
            if self.book.entries().filter(|entry| entry.gone.is_some()).count() > GONE_MAX {
                self.book.forget_gone();
            }
        }
    }

    fn check(&mut self) {
        self.book.now_us = self.clock.now_us();
        for finding in self.diagnosis.check(&mut self.book) {
            self.take(Record::Finding(finding));
        }
    }

    fn summary(&self, fast: Went, slow: Went) -> Summary {
        Summary {
            fast: fast.pace,
            slow: slow.pace,
            cpu_us: clock::cpu_us(),
            elapsed_us: self.clock.now_us(),
            lost: fast.lost,
        }
    }

    /// Waits for the samplers, takes what they sent last, and writes the end.
    fn finish(mut self, samplers: Samplers, receiver: &Receiver<Vec<Record>>) -> Result<(), Error> {
        // All senders are gone when all samplers have ended. Other nodes may not answer any more.
        let mut last_us = self.clock.now_us();
        loop {
            match receiver.recv_timeout(WAITS) {
                Ok(records) => {
                    last_us = self.clock.now_us();
                    records.into_iter().for_each(|record| self.take(record));
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    let silent_us = self.clock.now_us().saturating_sub(last_us);
                    if samplers.have_ended() && silent_us > LAST_WORDS_US {
                        break;
                    }
                }
            }
        }
        let fast = samplers.fast.join().map_err(|_| Error::Sampler { name: "fast" })?;
        let slow = samplers.slow.join().map_err(|_| Error::Sampler { name: "slow" })?;
        samplers.tern.join().map_err(|_| Error::Sampler { name: "tern" })?;
        self.check();
        self.take(Record::End(self.summary(fast, slow)));
        self.sinks.end(&self.book);
        Ok(())
    }
}
