//! Post-copy at the destination: fetches missing pages that the process touches, and puts pages in
//! place that arrive unrequested.
//!
//! A thread of its own reads the events of the process' memory; the receiver of pages puts them in
//! place. After a failure, a thread that needs a page goes on waiting for it, and can be killed: no
//! thread continues with a wrong page.

use crate::error::BodyError;
use crate::pages::Run;
use migration_plan::{Absent, Range, Ranges};
use os::userfault::{Happening, Put, Userfault};
use std::collections::HashSet;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const PAGE: u64 = 4096;
/// The time between two attempts to put pages into memory that is being changed. Meanwhile the
/// event of the change is read.
const CHANGING: Duration = Duration::from_micros(20);
/// An address at which no process has memory (the last page of the lower half is never mapped).
/// Asking for it tells whether the process has memory at all.
const NOWHERE: u64 = 0x7fff_ffff_e000;

/// The missing memory of a process, and of the children that it forks meanwhile, until all pages
/// are there.
pub struct Pager {
    state: Mutex<PagerState>,
    bell: OwnedFd,
    want: Box<dyn Fn(Range) + Send + Sync>,
}

struct PagerState {
    spaces: Vec<AddressSpace>,
    asked: HashSet<u64>,
    faults: u64,
    brought_bytes: u64,
    end: Option<Result<(), String>>,
}

/// One address space.
struct AddressSpace {
    memory: Arc<Userfault>,
    absent: Absent,
    /// Faults on pages that are at no source, and that could not be resolved yet.
    again: Vec<u64>,
}

/// The result of putting pages in place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PutResult {
    Done,
    Changing,
}

impl Pager {
    /// Starts to fetch these pages. `want` requests a page, and is called without a lock. `ended`
    /// is called when no page is missing any more, or with the reason why pages will be missing for
    /// ever. In that case the processes must have ended before the pager is dropped; otherwise they
    /// would continue with zeros.
    pub fn start(
        memory: Userfault,
        absent: Ranges,
        want: impl Fn(Range) + Send + Sync + 'static,
        ended: impl FnOnce(Result<(), String>) + Send + 'static,
    ) -> Result<Arc<Pager>, BodyError> {
        let space = AddressSpace { memory: Arc::new(memory), absent: Absent::new(absent), again: Vec::new() };
        let state = PagerState { spaces: vec![space], asked: HashSet::new(), faults: 0, brought_bytes: 0, end: None };
        let pager = Arc::new(Pager { state: Mutex::new(state), bell: os::fds::event()?, want: Box::new(want) });
        let serving = pager.clone();
        let thread = std::thread::Builder::new().name("pager".into()).spawn(move || ended(serving.serve()));
        thread.map_err(|e| os::Error::new("starting a thread", e))?;
        Ok(pager)
    }

    /// Puts arrived pages in place: the source's address and size of each run, and all bytes in a
    /// row.
    pub fn put(&self, runs: &[Run], bytes: &[u8]) {
        let mut rest = bytes;
        self.lock().brought_bytes += bytes.len() as u64;
        for (start, length) in runs {
            let (part, tail) = rest.split_at(rest.len().min(*length as usize));
            rest = tail;
            self.place((*start, start + length), |memory, from, at| {
                let offset = (from - start) as usize;
                let bytes = (at.1 - at.0) as usize;
                memory.copy(at.0, part.get(offset..offset + bytes).unwrap_or_default())
            });
        }
    }

    /// Puts pages of zeros in place.
    pub fn put_zeros(&self, runs: &[Run]) {
        self.lock().brought_bytes += runs.iter().map(|(_, bytes)| bytes).sum::<u64>();
        for (at, length) in runs {
            self.place((*at, at + length), |memory, _, at| memory.zero(at.0, at.1 - at.0));
        }
    }

    /// Notes that the process never had these pages, so they are not missing.
    pub fn vacate(&self, runs: &[Run]) {
        let mut state = self.lock();
        let before = state.spaces.len();
        for (at, length) in runs {
            state.spaces.iter_mut().for_each(|space| space.vacate((*at, at + length)));
        }
        state.spaces.retain(|s| !s.absent.is_empty());
        self.tell_if(state.spaces.len() < before);
    }

    /// Ends the pager: no thread waits for pages, or will.
    pub fn retire(&self) {
        self.lock().end.get_or_insert(Ok(()));
        os::fds::wake(self.bell.as_fd());
    }

    /// Fails the pager: the missing pages will not arrive.
    pub fn fail(&self, why: &str) {
        self.lock().end.get_or_insert_with(|| Err(why.to_owned()));
        os::fds::wake(self.bell.as_fd());
    }

    /// Checks for ended processes. Returns `false` if the last process that missed pages has ended.
    pub fn look_again(&self) -> bool {
        let mut state = self.lock();
        state.spaces.retain(|space| !matches!(space.memory.zero(NOWHERE, PAGE), Ok(Put::Ended)));
        os::fds::wake(self.bell.as_fd());
        !state.spaces.is_empty()
    }

    /// Gives the number of bytes that have arrived, zeros included, and the number of pages for
    /// which a thread had to wait.
    pub fn progress(&self) -> (u64, u64) {
        let state = self.lock();
        (state.brought_bytes, state.faults)
    }

    /// Gives the missing bytes of the process, without its children. Pages that the process never
    /// had count until that is known.
    pub fn missing_bytes(&self) -> u64 {
        self.lock().spaces.first().map_or(0, |space| space.absent.bytes())
    }

    /// Duplicates the userfaultfd of the first address space, for a watchdog that must prevent
    /// wrong answers if this process dies.
    pub fn duplicate(&self) -> Option<OwnedFd> {
        self.lock().spaces.first().and_then(|s| s.memory.as_fd().try_clone_to_owned().ok())
    }

    fn lock(&self) -> MutexGuard<'_, PagerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the serving thread. It ends the tracking of an address space when it learns that
    /// nothing is missing; before that it could not be released.
    fn tell_if(&self, changed: bool) {
        if changed {
            os::fds::wake(self.bell.as_fd());
        }
    }

    /// Puts pages of these source addresses wherever they are missing. `put` puts pages of a source
    /// address into an address space at these addresses.
    fn place(&self, there: Range, put: impl Fn(&Userfault, u64, Range) -> os::Result<Put>) {
        loop {
            let tried = {
                let mut state = self.lock();
                if state.end.is_some() {
                    return;
                }
                let before = state.spaces.len();
                let mut tried = PutResult::Done;
                let mut failed = None;
                state.spaces.retain_mut(|space| match space.place(there, &put) {
                    Ok(Some(now)) => {
                        tried = if now == PutResult::Changing { now } else { tried };
                        !space.absent.is_empty()
                    }
                    Ok(None) => false,
                    Err(e) => {
                        failed = Some(e.to_string());
                        true
                    }
                });
                if let Some(why) = failed {
                    state.end = Some(Err(why));
                }
                self.tell_if(state.spaces.len() < before || state.end.is_some());
                tried
            };
            if tried == PutResult::Done {
                return;
            }
            std::thread::sleep(CHANGING);
        }
    }

    fn serve(&self) -> Result<(), String> {
        loop {
            let watched: Vec<Arc<Userfault>> = {
                let mut state = self.lock();
                if state.spaces.is_empty() {
                    state.end.get_or_insert(Ok(()));
                }
                if let Some(end) = state.end.clone() {
                    return end;
                }
                state.spaces.iter().map(|s| s.memory.clone()).collect()
            };
            let again = self.lock().spaces.iter().any(|s| !s.again.is_empty());
            wait(&self.bell, &watched, again);
            drop(watched);
            let wanted = self.lock().happenings();
            wanted.into_iter().for_each(|page| (self.want)((page, page + PAGE)));
        }
    }
}

impl PagerState {
    /// Reads and applies all events. Gives the pages that must be requested.
    fn happenings(&mut self) -> Vec<u64> {
        let (mut wanted, mut children) = (Vec::new(), Vec::new());
        for space in &mut self.spaces {
            for page in std::mem::take(&mut space.again) {
                wanted.extend(space.fault(page));
            }
            loop {
                match space.memory.next() {
                    Ok(None) => break,
                    Ok(Some(Happening::Fault(page))) => {
                        self.faults += 1;
                        wanted.extend(space.fault(page));
                    }
                    Ok(Some(Happening::Fork(memory))) => {
                        children.push(AddressSpace {
                            memory: Arc::new(memory),
                            absent: space.absent.clone(),
                            again: Vec::new(),
                        });
                    }
                    Ok(Some(Happening::Moved { from, to, bytes })) => {
                        space.absent.move_to((from, from.saturating_add(bytes)), to);
                    }
                    Ok(Some(Happening::Gone(start, end))) => space.absent.forget((start, end)),
                    Err(e) => {
                        self.end.get_or_insert(Err(e.to_string()));
                        break;
                    }
                }
            }
        }
        self.spaces.extend(children);
        self.spaces.retain(|s| !s.absent.is_empty());
        wanted.retain(|page| self.asked.insert(*page));
        wanted
    }
}

impl AddressSpace {
    /// Handles a fault on this page. Gives the source address if the page must be requested.
    fn fault(&mut self, page: u64) -> Option<u64> {
        let source = self.absent.source(page);
        if source.is_none() {
            match self.memory.zero(page, PAGE) {
                Ok(Put::Changing) => self.again.push(page),
                Ok(Put::Present) => self.memory.wake(page, PAGE),
                // No thread waits there any more.
                Ok(Put::Done(_) | Put::Elsewhere | Put::Ended) | Err(_) => {}
            }
        }
        source
    }

    /// Wakes the threads that wait for these pages, which are not missing.
    fn vacate(&mut self, there: Range) {
        for place in self.absent.places(there) {
            self.absent.forget(place.at);
            self.memory.wake(place.at.0, place.at.1 - place.at.0);
        }
    }

    /// Puts pages in place; `None` if the process has ended.
    fn place(
        &mut self,
        there: Range,
        put: &impl Fn(&Userfault, u64, Range) -> os::Result<Put>,
    ) -> os::Result<Option<PutResult>> {
        for place in self.absent.places(there) {
            let (mut at, end) = place.at;
            let mut step = end - at;
            while at < end {
                step = step.min(end - at);
                match put(&self.memory, place.from + (at - place.at.0), (at, at + step))? {
                    Put::Done(bytes) => {
                        self.absent.forget((at, at + bytes));
                        at += bytes;
                    }
                    Put::Present => {
                        self.memory.wake(at, PAGE);
                        self.absent.forget((at, at + PAGE));
                        at += PAGE;
                    }
                    // The area has been split meanwhile, or partly unmapped.
                    Put::Elsewhere if step > PAGE => {
                        step = (step / 2).next_multiple_of(PAGE);
                        continue;
                    }
                    Put::Elsewhere => {
                        self.absent.forget((at, at + PAGE));
                        at += PAGE;
                    }
                    Put::Changing => return Ok(Some(PutResult::Changing)),
                    Put::Ended => return Ok(None),
                }
            }
        }
        Ok(Some(PutResult::Done))
    }
}

fn wait(bell: &OwnedFd, watched: &[Arc<Userfault>], again: bool) {
    let polled = |fd: i32| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut all = vec![polled(bell.as_raw_fd())];
    all.extend(watched.iter().map(|w| polled(w.as_fd().as_raw_fd())));
    // SAFETY: live pollfds.
    unsafe { libc::poll(all.as_mut_ptr(), all.len() as libc::nfds_t, if again { 1 } else { -1 }) };
    os::fds::drain(bell.as_fd());
}
