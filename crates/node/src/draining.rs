//! Draining this node: guests leave one after the other, as planned ([`::policy::drain`]), because
//! the node is about to go. From then on it takes no guests, until `tern undrain` or a reboot.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use control_protocol::drain::{DrainOrder, DrainReport, DrainState, DrainedGuest};
use control_protocol::evictions::{Eviction, SentGuest};
use control_protocol::guests::{LeaveReason, Leaving};

use crate::daemon::Daemon;
use crate::drain_state::{Drain, NOTE};
use crate::evict::{Answered, Asking, ask_homes, ask_refuges};
use crate::locks::lock;
use crate::{Error, evictions, guests, history};

/// How far guests are is looked at so often.
const LOOKED_EVERY: Duration = Duration::from_millis(100);
/// Guests that came late are looked for so often.
const LATE_COMERS_EVERY: Duration = Duration::from_secs(1);
/// So many bytes may be under way at once: more would only share the link, and come later.
const WINDOW_BYTES: u64 = 64 << 20;

/// Does what is asked about this node's drain.
pub(crate) fn obey(daemon: &Arc<Daemon>, order: DrainOrder) -> Result<DrainReport, Error> {
    match order {
        DrainOrder::Plan { by_ms } => Ok(planned(daemon, by_ms).report(daemon.me().name)),
        DrainOrder::Begin { by_ms } => begin(daemon, by_ms),
        DrainOrder::Watch => Ok(watched(daemon)),
        DrainOrder::End => {
            *lock(&daemon.drains.now) = None;
            let note = note(&daemon.options.run_dir);
            std::fs::remove_file(&note)
                .or_else(|e| if e.kind() == std::io::ErrorKind::NotFound { Ok(()) } else { Err(e) })
                .map_err(|e| Error::file("remove", note.display().to_string(), e))?;
            tracing::info!("this node takes guests again");
            daemon.swim.news();
            Ok(watched(daemon))
        }
    }
}

fn note(run_dir: &Path) -> PathBuf {
    run_dir.join(NOTE)
}

fn watched(daemon: &Daemon) -> DrainReport {
    let drain = lock(&daemon.drains.now);
    match &*drain {
        Some(drain) => drain.report(daemon.me().name),
        None => DrainReport { node: daemon.me().name, finished: true, ..DrainReport::default() },
    }
}

/// Makes the plan: who is here, where each would go, and when.
fn planned(daemon: &Arc<Daemon>, by_ms: Option<u64>) -> Drain {
    let mut drain = Drain::new(by_ms, u64::from(daemon.policy.params().bandwidth_mib_s) << 20);
    let here = guests::list(daemon);
    drain.see(&here);
    let answers = daemon.runtime.block_on(ask_refuges(daemon, of_homes(drain.guests.iter())));
    for guest in &mut drain.guests {
        let said =
            answers.get(&guest.home).and_then(|taken| taken.as_ref().ok()?.iter().find(|said| said.pid == guest.pid));
        guest.to = said.and_then(|said| said.to.clone());
    }
    drain.plan();
    drain
}

/// Begins to drain, or goes on with another deadline.
fn begin(daemon: &Arc<Daemon>, by_ms: Option<u64>) -> Result<DrainReport, Error> {
    let path = note(&daemon.options.run_dir);
    std::fs::write(&path, "").map_err(|e| Error::file("note the drain in", path.display().to_string(), e))?;
    let plan = planned(daemon, by_ms);
    let report = plan.report(daemon.me().name);
    *lock(&daemon.drains.now) = Some(plan);
    daemon.drains.begun.notify_all();
    daemon.swim.news();
    tracing::info!("this node is drained of {} guests", report.guests.len());
    Ok(report)
}

/// Starts the thread that sends guests away while this node is drained.
pub(crate) fn start(daemon: Arc<Daemon>) -> std::io::Result<()> {
    let work = move || {
        let mut run = Run { daemon, began: None };
        loop {
            run.step();
        }
    };
    std::thread::Builder::new().name("drain".into()).stack_size(512 << 10).spawn(work).map(drop)
}

struct Run {
    daemon: Arc<Daemon>,
    /// When guests began to leave, milliseconds since 1970; none if nobody is on the way.
    began: Option<u64>,
}

impl Run {
    /// Lets the next guests go, and hears how far the others are. A guest that comes later has
    /// been placed by a home that did not know yet, and goes as well.
    fn step(&mut self) {
        let daemon = &self.daemon;
        let waiting = daemon.drains.begun.wait_while(lock(&daemon.drains.now), |drain| drain.is_none());
        drop(waiting.unwrap_or_else(PoisonError::into_inner));
        let here = guests::list(daemon);
        let asked = {
            let mut drain = lock(&daemon.drains.now);
            let Some(drain) = drain.as_mut() else { return };
            drain.see(&here);
            if !drain.is_finished() {
                self.began.get_or_insert_with(history::now_ms);
            } else if let Some(at_ms) = self.began.take() {
                write(daemon, drain.take_news(), at_ms);
            }
            drain.take_turns(WINDOW_BYTES);
            of_homes(drain.guests.iter().filter(|guest| guest.state == DrainState::Goes))
        };
        if asked.is_empty() {
            let rests = if self.began.is_some() { LOOKED_EVERY } else { LATE_COMERS_EVERY };
            let drain = lock(&daemon.drains.now);
            drop(daemon.drains.begun.wait_timeout(drain, rests).unwrap_or_else(PoisonError::into_inner));
            return;
        }
        // Nobody else is waited for while homes answer.
        let asking = Asking { of_homes: asked, again: true, reason: LeaveReason::Drains };
        let answers = daemon.runtime.block_on(ask_homes(daemon, asking));
        if let Some(drain) = lock(&daemon.drains.now).as_mut() {
            hear(drain, &answers);
        }
        std::thread::sleep(LOOKED_EVERY);
    }
}

fn of_homes<'a>(guests: impl Iterator<Item = &'a DrainedGuest>) -> BTreeMap<String, Vec<i32>> {
    let mut of_homes: BTreeMap<String, Vec<i32>> = BTreeMap::new();
    for guest in guests {
        of_homes.entry(guest.home.clone()).or_default().push(guest.pid);
    }
    of_homes
}

/// Takes over what homes say of guests that are on their way.
fn hear(drain: &mut Drain, answers: &HashMap<String, Answered>) {
    for guest in drain.guests.iter_mut().filter(|guest| guest.state == DrainState::Goes) {
        match answers.get(&guest.home) {
            Some(Ok(taken)) => {
                let Some(said) = taken.iter().find(|said| said.pid == guest.pid) else { continue };
                guest.to = said.to.clone().or(guest.to.take());
                if let Some(Leaving::Stays { why }) = &said.leaving {
                    guest.state = DrainState::Stays { why: why.clone() };
                }
            }
            Some(Err(why)) => {
                guest.state = DrainState::Stays { why: format!("its home does not take it back: {why}") };
            }
            None => {}
        }
    }
}

fn write(daemon: &Daemon, news: Vec<DrainedGuest>, at_ms: u64) {
    let sent = |guest: &DrainedGuest| SentGuest {
        home: guest.home.clone(),
        pid: guest.pid,
        command: guest.command.clone(),
        to: guest.to.clone(),
        gone_ms: match guest.state {
            DrainState::Gone { after_ms } => Some(after_ms),
            _ => None,
        },
        stays: match &guest.state {
            DrainState::Stays { why } => Some(why.clone()),
            DrainState::TooLate => Some("it cannot leave before the deadline".into()),
            _ => None,
        },
    };
    let guests: Vec<SentGuest> = news.iter().map(sent).collect();
    if !guests.is_empty() {
        let sent = Eviction::Sent { at_ms, reason: LeaveReason::Drains, frozen_us: None, guests };
        sent.words().iter().for_each(|words| tracing::info!("{words}"));
        evictions::log(&daemon.options.run_dir, &sent);
    }
}

/// Drains this node before its daemon ends, if it was told to ([`crate::Options`]).
pub(crate) fn before_the_end(daemon: &Arc<Daemon>, within: Duration) {
    let by_ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
    let begun = Instant::now();
    if let Err(e) = begin(daemon, Some(by_ms)) {
        return tracing::warn!("this node is not drained: {}", e.chain());
    }
    while !watched(daemon).finished && begun.elapsed() < within {
        std::thread::sleep(LOOKED_EVERY);
    }
    // The next daemon takes guests.
    let _ = std::fs::remove_file(note(&daemon.options.run_dir));
}
