//! Post-copy at the source: the memory of the process stays until all of it was sent. Requested
//! pages are sent first.

use crate::error::BodyError;
use crate::pages::{Run, without_zeros};
use crate::thread_words::registers;
use image::{Area, Content, Thread};
use migration_plan::{Pace, Push, Range, Ranges};
use os::inject::Memory;
use os::pages::{Own, subtract};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const PAGE: u64 = 4096;
/// The longest time of one search for present pages. Requests wait for it.
const LOOK: Duration = Duration::from_micros(500);
/// Bytes that are searched at first, and at least.
const LOOK_BYTES: u64 = 32 << 20;
const LOOK_BYTES_MIN: u64 = 2 << 20;
/// The most runs that are reported as vacant at once.
const VACANT_RUNS: usize = 16 << 10;

/// Divides memory into ranges that are sent at the stop, and ranges that may follow. Anonymous
/// memory may follow, except for growing stacks, locked memory, and pages that the threads use
/// first. Missing pages of private file mappings cannot be tracked by the kernel. Whether pages are
/// present is not checked yet, because that would lengthen the freeze. `word` reads the process'
/// memory.
pub fn part_later(areas: &[Area], threads: &[Thread], word: impl Fn(u64) -> Option<u64>) -> (Vec<Range>, Ranges) {
    let can = |a: &Area| a.content == Content::Anonymous && !a.shared && !a.grows_down && !a.locked;
    let mut later: Ranges = areas.iter().filter(|a| can(a)).map(|a| (a.start, a.end)).collect();
    threads.iter().flat_map(used_first).for_each(|hot| drop(later.remove(hot)));
    threads.iter().flat_map(|thread| locks(thread, &word)).for_each(|lock| drop(later.remove(lock)));
    let private: Vec<Range> = areas.iter().filter(|a| !a.shared).map(|a| (a.start, a.end)).collect();
    (subtract(&private, &later.iter().collect::<Vec<_>>()), later)
}

/// Finds the runs of private pages in these ranges, which are searched one by one: much other
/// memory may lie between them.
pub fn own_in(own: &Own, ranges: &[Range]) -> Result<Vec<Run>, BodyError> {
    let mut runs = Vec::new();
    for (start, end) in ranges {
        runs.extend(own.between(*start, *end)?.into_iter().map(|(start, end)| (start, end - start)));
    }
    Ok(runs)
}

fn page(at: u64) -> Range {
    (at & !(PAGE - 1), (at & !(PAGE - 1)).saturating_add(PAGE))
}

/// Gives the pages that a thread or the kernel needs for the thread's first instruction.
fn used_first(thread: &Thread) -> Vec<Range> {
    const STACK_BYTES: u64 = 2 * PAGE;
    let registers = registers(&thread.registers);
    let stack = page(registers.rsp);
    let mut all = vec![(stack.0, stack.1.saturating_add(STACK_BYTES)), page(registers.rip)];
    all.push(page(registers.fs_base));
    all.extend([thread.clear_tid, thread.robust.0, thread.rseq.area].into_iter().filter(|at| *at != 0).map(page));
    all
}

/// Gives the pages of the robust futexes that a thread holds. The kernel marks them at the thread's
/// end, and does not wait for pages then (handle_userfault in fs/userfaultfd.c, exit_robust_list in
/// kernel/futex/core.c). A thread that waits for such a futex would wait for ever.
fn locks(thread: &Thread, word: impl Fn(u64) -> Option<u64>) -> Vec<Range> {
    /// The kernel follows no more entries either (ROBUST_LIST_LIMIT).
    const LOCKS_MAX: usize = 2048;
    const OFFSET_AT: u64 = 8;
    const PENDING_AT: u64 = 16;
    /// Flag of an entry whose lock inherits priorities.
    const INHERITS: u64 = 1;
    let head = thread.robust.0;
    if head == 0 {
        return Vec::new();
    }
    let offset = word(head.wrapping_add(OFFSET_AT)).unwrap_or(0);
    let next = |at: u64| word(at).map(|entry| entry & !INHERITS).filter(|entry| *entry != head && *entry != 0);
    let entries = std::iter::successors(next(head), |entry| next(*entry)).take(LOCKS_MAX);
    let pending = next(head.wrapping_add(PENDING_AT));
    entries.chain(pending).flat_map(|entry| [page(entry), page(entry.wrapping_add(offset))]).collect()
}

/// Sends the pages that follow a process.
#[derive(Debug)]
pub struct Lender {
    loan: u32,
    state: Mutex<LenderState>,
    changed: Condvar,
    begun: Instant,
}

#[derive(Debug)]
struct LenderState {
    push: Push,
    /// Whether unrequested pages are sent, too.
    pushing: bool,
    /// Ranges of which it is not known yet which pages are present. They are searched in parts of
    /// this many bytes.
    unlooked: Ranges,
    look_bytes: u64,
    stopped: bool,
    /// Why the destination takes no more pages, in words.
    cut: Option<String>,
}

/// The lenders at work, by process.
#[derive(Debug, Default)]
pub struct Lenders {
    last: AtomicU32,
    all: Mutex<HashMap<i32, Arc<Lender>>>,
}

impl Lenders {
    fn lock(&self) -> MutexGuard<'_, HashMap<i32, Arc<Lender>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates the lender of a process' pages.
    pub fn begin(&self, pid: i32, later: Ranges, pace: Pace) -> Arc<Lender> {
        let loan = 1 + self.last.fetch_add(1, Ordering::Relaxed);
        let lender = Arc::new(Lender { loan, ..Lender::new(later, pace) });
        self.lock().insert(pid, lender.clone());
        lender
    }

    /// Calls `tell` with the lender of a process, if there is one.
    pub fn with(&self, pid: i32, tell: impl FnMut(&Lender)) {
        let lender = self.lock().get(&pid).cloned();
        lender.as_deref().into_iter().for_each(tell);
    }

    /// Stops the lender of this number. The process may have another one by now.
    pub fn enough(&self, pid: i32, loan: u32) {
        self.with(pid, |lender| {
            if lender.loan == loan {
                lender.stop();
            }
        });
    }

    /// Stops all lenders: no destination takes pages any more.
    pub fn stop(&self) {
        self.lock().values().for_each(|lender| lender.stop());
    }

    /// Removes a lender that has finished.
    pub fn end(&self, pid: i32) {
        self.lock().remove(&pid);
    }
}

/// A message that a lender sends.
#[derive(Debug)]
pub enum Lent<'a> {
    /// Pages of memory.
    Pages(Batch<'a>),
    /// Pages that were requested, or may be, and that the process does not have.
    Vacant(&'a [Run]),
}

/// A batch of pages with content, and pages that are zero.
#[derive(Debug)]
pub struct Batch<'a> {
    /// Address and size of each run of pages with content.
    pub runs: &'a [Run],
    /// Address and size of each run of zeros.
    pub zeros: &'a [Run],
    /// The content of `runs`.
    pub bytes: &'a [u8],
}

impl Lender {
    /// Creates a lender of these ranges. Nothing is sent without a request before [`Lender::push`].
    pub fn new(later: Ranges, pace: Pace) -> Lender {
        let (unlooked, push) = (later.clone(), Push::new(later, pace));
        let state = LenderState { push, pushing: false, unlooked, look_bytes: LOOK_BYTES, stopped: false, cut: None };
        Lender { loan: 0, state: Mutex::new(state), changed: Condvar::new(), begun: Instant::now() }
    }

    /// Gives the lender's number. A process that moves again has a lender with another number.
    pub fn loan(&self) -> u32 {
        self.loan
    }

    fn lock(&self) -> MutexGuard<'_, LenderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut LenderState)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Notes that a thread waits for these pages.
    pub fn ask(&self, ranges: &[Range]) {
        self.change(|s| ranges.iter().for_each(|r| s.push.ask(*r)));
    }

    /// Starts to send unrequested pages, too.
    pub fn push(&self) {
        self.change(|s| s.pushing = true);
    }

    /// Notes that a batch is in place.
    pub fn arrived(&self) {
        let now_us = self.now_us();
        self.change(|s| s.push.arrived(now_us));
    }

    /// Ends the lender: no more pages are needed.
    pub fn stop(&self) {
        self.change(|s| s.stopped = true);
    }

    /// Ends the lender: the destination cannot take pages any more, although it may need them.
    pub fn cut(&self, why: &str) {
        self.change(|s| {
            if !std::mem::replace(&mut s.stopped, true) {
                s.cut = Some(why.to_owned());
            }
        });
    }

    /// Gives the total bytes, the bytes not sent yet, and the bytes that were requested.
    pub fn progress(&self) -> (u64, u64, u64) {
        self.lock().push.progress()
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Sends pages until [`Lender::stop`]. The destination decides when, because it must have ended
    /// its tracking of missing pages by then. `own` reads the process' pages.
    ///
    /// # Errors
    /// Sending failed, or the process' memory is gone.
    pub fn run(
        &self,
        memory: &Memory,
        own: &Own,
        areas: &[Area],
        send: impl FnMut(&Lent<'_>) -> Result<(), BodyError>,
    ) -> Result<(), BodyError> {
        let sent = self.send_all(memory, own, areas, send);
        let state = self.lock();
        match &state.cut {
            Some(why) => Err(BodyError::NotMigratable(why.clone())),
            // Memory that is not needed any more may vanish.
            None if state.stopped => Ok(()),
            None => sent,
        }
    }

    fn send_all(
        &self,
        memory: &Memory,
        own: &Own,
        areas: &[Area],
        mut send: impl FnMut(&Lent<'_>) -> Result<(), BodyError>,
    ) -> Result<(), BodyError> {
        let mut buffer = Vec::new();
        while let Some(step) = self.next() {
            let ranges = match step {
                Step::Look(part) => {
                    let begun = Instant::now();
                    let there = own.within(&part)?;
                    let vacant = runs_of(&self.lock().looked(&part, &there, begun.elapsed()));
                    vacant.chunks(VACANT_RUNS).try_for_each(|runs| send(&Lent::Vacant(runs)))?;
                    continue;
                }
                Step::Send(ranges) => ranges,
            };
            let batch = runs_of(&ranges);
            buffer.resize(batch.iter().map(|r| r.1 as usize).sum(), 0);
            memory.read_runs(&batch, &mut buffer)?;
            let (runs, bytes) = without_zeros(&batch, areas, &mut buffer);
            let sent: Vec<Range> = runs.iter().map(|(at, n)| (*at, at + n)).collect();
            let zeros = runs_of(&subtract(&ranges, &sent));
            send(&Lent::Pages(Batch { runs: &runs, zeros: &zeros, bytes: &buffer[..bytes] }))?;
        }
        Ok(())
    }

    fn next(&self) -> Option<Step> {
        let mut state = self.lock();
        loop {
            if state.stopped {
                return None;
            }
            let (pushing, looked) = (state.pushing, state.unlooked.is_empty());
            // Requested pages go first.
            let batch = state.push.next(self.now_us(), pushing && looked);
            if !batch.is_empty() {
                return Some(Step::Send(batch));
            }
            if pushing && !looked {
                return Some(Step::Look(state.next_part()));
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl LenderState {
    /// Gives the part that is searched next.
    fn next_part(&mut self) -> Vec<Range> {
        let (mut part, mut room) = (Vec::new(), self.look_bytes);
        while room > 0
            && let Some((start, end)) = self.unlooked.next_from(0)
        {
            let end = end.min(start.saturating_add(room));
            self.unlooked.remove((start, end));
            room -= end - start;
            part.push((start, end));
        }
        part
    }

    /// Takes the result of a search: only the pages in `there` are present. Gives the pages that
    /// are not. Large parts with few pages are searched quickly, so the next part grows by the time
    /// of this one.
    fn looked(&mut self, part: &[Range], there: &[Range], took: Duration) -> Vec<Range> {
        if took < LOOK / 2 {
            self.look_bytes = self.look_bytes.saturating_mul(2);
        } else if took > LOOK * 2 {
            self.look_bytes = (self.look_bytes / 2).max(LOOK_BYTES_MIN) & !(PAGE - 1);
        }
        self.push.restrict(part, there)
    }
}

/// The next step of a lender.
enum Step {
    /// Find out which of these pages are present.
    Look(Vec<Range>),
    /// Send these pages.
    Send(Vec<Range>),
}

fn runs_of(ranges: &[Range]) -> Vec<Run> {
    ranges.iter().map(|(start, end)| (*start, end - start)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(start: u64, end: u64) -> Area {
        Area::anonymous(start, end, 3)
    }

    #[test]
    fn messages_of_a_cancelled_body_do_not_end_the_next_loan() {
        let lenders = Lenders::default();
        let first = lenders.begin(7, Ranges::default(), Pace::default());
        lenders.end(7);
        let second = lenders.begin(7, Ranges::default(), Pace::default());
        lenders.enough(7, first.loan());
        assert!(!second.lock().stopped);
        lenders.enough(7, second.loan());
        assert!(second.lock().stopped);
    }

    #[test]
    fn a_lender_that_is_cut_off_says_why() {
        let pid = std::process::id() as i32;
        let (memory, own) = (Memory::of(pid).unwrap(), Own::of(pid).unwrap());
        let end = |tell: &dyn Fn(&Lender)| {
            let lender = Lender::new([(PAGE, 2 * PAGE)].into_iter().collect(), Pace::default());
            tell(&lender);
            lender.run(&memory, &own, &[], |_| Ok(())).map_err(|e| e.to_string())
        };
        assert_eq!(end(&|lender| lender.cut("the way is gone")), Err("the way is gone".into()));
        let late = |lender: &Lender| {
            lender.stop();
            lender.cut("the way is gone");
        };
        assert_eq!(end(&late), Ok(()));
    }

    #[test]
    fn memory_is_looked_at_in_parts_that_take_no_long() {
        let (gib, tib) = (1u64 << 30, 1u64 << 40);
        let lender = Lender::new([(0, gib), (2 * gib, tib)].into_iter().collect(), Pace::default());
        let mut state = lender.lock();
        let (mut parts, mut seen) = (0, 0);
        while !state.unlooked.is_empty() {
            let part = state.next_part();
            let bytes: u64 = part.iter().map(|(start, end)| end - start).sum();
            // A present page takes 10 ns to search; an empty gibibyte takes as long.
            let full = part.iter().map(|(start, end)| end.min(&gib).saturating_sub(*start)).sum::<u64>() / PAGE;
            let took = Duration::from_nanos(10 * (full + bytes / gib));
            assert!(took < 4 * LOOK, "{part:?} takes {took:?}");
            let vacant = state.looked(&part, &part[..part.iter().filter(|r| r.1 <= gib).count()], took);
            assert!(vacant.iter().all(|r| r.1 > gib));
            (parts, seen) = (parts + 1, seen + bytes);
        }
        assert_eq!(seen, tib - gib);
        assert!((8..64).contains(&parts), "{parts}");
        assert_eq!(state.push.progress(), (gib, gib, 0));
    }

    #[test]
    fn pages_that_threads_use_first_are_sent_at_once() {
        let mib = 1 << 20;
        let stack = Area { grows_down: true, ..area(8 * mib, 9 * mib) };
        let file = Area { content: Content::File { file: 0, offset: 0 }, ..area(4 * mib, 5 * mib) };
        let areas = [area(mib, 3 * mib), file, stack];
        const RSP: usize = 19;
        const FS_BASE: usize = 21;
        let mut registers = [0; 27];
        (registers[RSP], registers[FS_BASE]) = (mib + 5 * PAGE + 8, mib);
        let thread = Thread { registers, ..Thread::default() };
        let (now, later) = part_later(&areas, &[thread], |_| None);
        let hot = [(mib, mib + PAGE), (mib + 5 * PAGE, mib + 8 * PAGE)];
        assert_eq!(now, [hot[0], hot[1], (4 * mib, 5 * mib), (8 * mib, 9 * mib)]);
        assert_eq!(later.bytes(), 2 * mib - 4 * PAGE);
    }

    #[test]
    fn locks_that_a_thread_has_go_at_once() {
        let mib = 1 << 20;
        let (head, first, second, pending) = (mib, 2 * mib + 64, 2 * mib + 5 * PAGE, 3 * mib - 8);
        let mutex = 0x20u64;
        let memory = HashMap::from([
            (head, first),
            (head + 8, mutex.wrapping_neg()),
            (head + 16, pending),
            (first, second | 1),
            (second, head),
        ]);
        let thread = Thread { robust: (head, 24), ..Thread::default() };
        let found = locks(&thread, |at| memory.get(&at).copied());
        let of = |entry: u64| [page(entry), page(entry - mutex)];
        assert_eq!(found, [of(first), of(second), of(pending)].concat());
        // A list that forms a ring is not followed for ever.
        let ring = |at: u64| Some(if at == head { first } else { at ^ 64 });
        assert_eq!(locks(&thread, ring).len(), 2 * (2048 + 1));
        assert!(locks(&thread, |_| None).is_empty());
        assert!(locks(&Thread::default(), |_| panic!("nothing is read")).is_empty());
    }
}
