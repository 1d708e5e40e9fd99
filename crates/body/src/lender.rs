//! Post-copy, where the process came from: its memory stays until all of it was sent; what the other end asks for goes first.

use crate::collect::registers;
use crate::error::BodyError;
use crate::pages::{Run, without_zeros};
use image::{Area, Content, Thread};
use os::inject::Memory;
use os::pages::{intersect, subtract};
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use strategy::{Push, Range, Ranges};

const PAGE: u64 = 4096;

/// What of these runs goes at once, and what may follow: anonymous memory, but for stacks that grow, locked memory, and pages that the threads use first. The
/// kernel does not watch missing pages of files' copies.
pub fn part_later(runs: &[Run], areas: &[Area], threads: &[Thread]) -> (Vec<Run>, Ranges) {
    let can = |a: &&Area| a.content == Content::Anonymous && !a.shared && !a.grows_down && !a.locked;
    let ranges: Vec<Range> = runs.iter().map(|(at, bytes)| (*at, at + bytes)).collect();
    let waiting = intersect(&ranges, &areas.iter().filter(can).map(|a| (a.start, a.end)).collect::<Vec<_>>());
    let mut hot: Vec<Range> = threads.iter().flat_map(used_first).collect();
    hot.sort_unstable();
    let later: Ranges =
        subtract(&waiting, &hot.iter().copied().collect::<Ranges>().iter().collect::<Vec<_>>()).into_iter().collect();
    let now = subtract(&ranges, &later.iter().collect::<Vec<_>>());
    (now.into_iter().map(|(start, end)| (start, end - start)).collect(), later)
}

/// Pages that a thread or the kernel needs for its first instruction.
fn used_first(thread: &Thread) -> Vec<Range> {
    const STACK_BYTES: u64 = 2 * PAGE;
    let page = |at: u64| (at & !(PAGE - 1), (at & !(PAGE - 1)).saturating_add(PAGE));
    let registers = registers(&thread.registers);
    let stack = page(registers.rsp);
    let mut all = vec![(stack.0, stack.1.saturating_add(STACK_BYTES)), page(registers.rip)];
    all.push(page(registers.fs_base));
    all.extend([thread.clear_tid, thread.robust.0, thread.rseq.area].into_iter().filter(|at| *at != 0).map(page));
    all
}

/// Sends what may follow.
#[derive(Debug)]
pub struct Lender {
    state: Mutex<State>,
    changed: Condvar,
    begun: Instant,
}

#[derive(Debug)]
struct State {
    push: Push,
    /// Not only what was asked for.
    pushing: bool,
    stopped: bool,
}

/// Those at work, by process.
#[derive(Debug, Default)]
pub struct Lenders(Mutex<HashMap<i32, Arc<Lender>>>);

impl Lenders {
    fn lock(&self) -> MutexGuard<'_, HashMap<i32, Arc<Lender>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One for this process' pages.
    pub fn begin(&self, pid: i32, later: Ranges) -> Arc<Lender> {
        let lender = Arc::new(Lender::new(later));
        self.lock().insert(pid, lender.clone());
        lender
    }

    /// Tells that of a process, if there is one.
    pub fn with(&self, pid: i32, tell: impl FnMut(&Lender)) {
        let lender = self.lock().get(&pid).cloned();
        lender.as_deref().into_iter().for_each(tell);
    }

    /// Nobody takes pages any more.
    pub fn stop(&self) {
        self.lock().values().for_each(|lender| lender.stop());
    }

    /// It has done its work.
    pub fn end(&self, pid: i32) {
        self.lock().remove(&pid);
    }
}

/// A batch: pages that are sent (with their bytes), and pages that are zero.
#[derive(Debug)]
pub struct Batch<'a> {
    /// Address and bytes of each run.
    pub runs: &'a [Run],
    /// Likewise.
    pub zeros: &'a [Run],
    /// All of the first.
    pub bytes: &'a [u8],
}

impl Lender {
    /// Of these pages; nothing goes unasked before [`Lender::push`].
    pub fn new(later: Ranges) -> Lender {
        let state = State { push: Push::new(later), pushing: false, stopped: false };
        Lender { state: Mutex::new(state), changed: Condvar::new(), begun: Instant::now() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Somebody waits for these.
    pub fn ask(&self, ranges: &[Range]) {
        self.change(|s| ranges.iter().for_each(|r| s.push.ask(*r)));
    }

    /// The rest goes too from now on.
    pub fn push(&self) {
        self.change(|s| s.pushing = true);
    }

    /// A batch is in place.
    pub fn arrived(&self) {
        let now_us = self.now_us();
        self.change(|s| s.push.arrived(now_us));
    }

    /// No more of it is needed.
    pub fn stop(&self) {
        self.change(|s| s.stopped = true);
    }

    /// Bytes in all, bytes that are not sent yet, bytes that were asked for.
    pub fn progress(&self) -> (u64, u64, u64) {
        self.lock().push.progress()
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Sends until all is in place there or no more is needed.
    pub fn run(
        &self,
        memory: &Memory,
        areas: &[Area],
        mut send: impl FnMut(&Batch<'_>) -> Result<(), BodyError>,
    ) -> Result<(), BodyError> {
        let mut buffer = Vec::new();
        while let Some(ranges) = self.next() {
            let batch: Vec<Run> = ranges.iter().map(|(start, end)| (*start, end - start)).collect();
            buffer.resize(batch.iter().map(|r| r.1 as usize).sum(), 0);
            memory.read_runs(&batch, &mut buffer)?;
            let (runs, bytes) = without_zeros(&batch, areas, &mut buffer);
            let sent: Vec<Range> = runs.iter().map(|(at, n)| (*at, at + n)).collect();
            let zeros: Vec<Run> =
                subtract(&ranges, &sent).into_iter().map(|(start, end)| (start, end - start)).collect();
            send(&Batch { runs: &runs, zeros: &zeros, bytes: &buffer[..bytes] })?;
        }
        Ok(())
    }

    fn next(&self) -> Option<Vec<Range>> {
        let mut state = self.lock();
        loop {
            if state.stopped || state.push.is_done() {
                return None;
            }
            let pushing = state.pushing;
            let batch = state.push.next(self.now_us(), pushing);
            if !batch.is_empty() {
                return Some(batch);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(start: u64, end: u64) -> Area {
        Area {
            start,
            end,
            protection: 3,
            content: Content::Anonymous,
            shared: false,
            grows_down: false,
            no_reserve: false,
            accounted: true,
            locked: false,
            advice: [0; 4],
        }
    }

    #[test]
    fn what_threads_use_first_goes_at_once() {
        let mib = 1 << 20;
        let stack = Area { grows_down: true, ..area(8 * mib, 9 * mib) };
        let file = Area { content: Content::File { file: 0, offset: 0 }, ..area(4 * mib, 5 * mib) };
        let areas = [area(mib, 3 * mib), file, stack];
        let runs = [(mib, mib), (4 * mib, PAGE), (8 * mib, PAGE)];
        const RSP: usize = 19;
        const FS_BASE: usize = 21;
        let mut registers = [0; 27];
        (registers[RSP], registers[FS_BASE]) = (mib + 5 * PAGE + 8, mib);
        let thread = Thread { registers, ..Thread::default() };
        let (now, later) = part_later(&runs, &areas, &[thread]);
        assert_eq!(now, [(mib, PAGE), (mib + 5 * PAGE, 3 * PAGE), (4 * mib, PAGE), (8 * mib, PAGE)]);
        assert_eq!(later.bytes(), mib - 4 * PAGE);
    }
}
