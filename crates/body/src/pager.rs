//! Post-copy, where the process goes on: brings pages that it touches and that are not there yet, and puts those in place that come by themselves.
//!
//! A thread of its own reads what happens in the process' memory; whoever receives pages puts them in place. If something fails, whoever needs a page goes on waiting
//! for it, and can be killed: nothing goes on with a page that is not the right one.

use crate::error::BodyError;
use crate::pages::Run;
use os::userfault::{Happening, Put, Userfault};
use std::collections::HashSet;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use strategy::{Absent, Range, Ranges};

const PAGE: u64 = 4096;
/// Between two tries to put pages into memory that is being changed: the change is read meanwhile.
const CHANGING: Duration = Duration::from_micros(20);
/// No memory of a process lies there (the last page of the lower half is never mapped), but the question tells whether it has memory at all.
const NOWHERE: u64 = 0x7fff_ffff_e000;

/// The memory of a process, and of the children that it makes meanwhile, until all of it is there.
pub struct Pager {
    state: Mutex<State>,
    bell: OwnedFd,
    want: Box<dyn Fn(Range) + Send + Sync>,
}

struct State {
    spaces: Vec<Space>,
    asked: HashSet<u64>,
    faults: u64,
    brought_bytes: u64,
    end: Option<Result<(), String>>,
}

/// One memory.
struct Space {
    memory: Arc<Userfault>,
    absent: Absent,
    /// Faults of pages that are nowhere, and could not be answered yet.
    again: Vec<u64>,
}

/// Whether pages could be put.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tried {
    Done,
    Changing,
}

impl Pager {
    /// Brings these pages. `want` asks for a page, and is called without a lock; `ended` is told when nothing is missing any more, or why it will be for ever:
    /// then the processes must have ended before the pager is dropped, lest they go on with zeros.
    pub fn start(
        memory: Userfault,
        absent: Ranges,
        want: impl Fn(Range) + Send + Sync + 'static,
        ended: impl FnOnce(Result<(), String>) + Send + 'static,
    ) -> Result<Arc<Pager>, BodyError> {
        let space = Space { memory: Arc::new(memory), absent: Absent::new(absent), again: Vec::new() };
        let state = State { spaces: vec![space], asked: HashSet::new(), faults: 0, brought_bytes: 0, end: None };
        let pager = Arc::new(Pager { state: Mutex::new(state), bell: os::fds::event()?, want: Box::new(want) });
        let serving = pager.clone();
        let thread = std::thread::Builder::new().name("pager".into()).spawn(move || ended(serving.serve()));
        thread.map_err(|e| os::Error::new("starting a thread", e))?;
        Ok(pager)
    }

    /// Pages that have come: address there and bytes of each, and all bytes in a row.
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

    /// Pages that are zero.
    pub fn put_zeros(&self, runs: &[Run]) {
        self.lock().brought_bytes += runs.iter().map(|(_, bytes)| bytes).sum::<u64>();
        for (at, length) in runs {
            self.place((*at, at + length), |memory, _, at| memory.zero(at.0, at.1 - at.0));
        }
    }

    /// Pages that the process never had: they are not missing.
    pub fn vacate(&self, runs: &[Run]) {
        let mut state = self.lock();
        let before = state.spaces.len();
        for (at, length) in runs {
            state.spaces.iter_mut().for_each(|space| space.vacate((*at, at + length)));
        }
        state.spaces.retain(|s| !s.absent.is_empty());
        self.tell_if(state.spaces.len() < before);
    }

    /// Nobody waits for it any more, or will.
    pub fn retire(&self) {
        self.lock().end.get_or_insert(Ok(()));
        os::fds::wake(self.bell.as_fd());
    }

    /// It will not come.
    pub fn fail(&self, why: &str) {
        self.lock().end.get_or_insert_with(|| Err(why.to_owned()));
        os::fds::wake(self.bell.as_fd());
    }

    /// A process has ended; `false`: it was the last that missed pages.
    pub fn look_again(&self) -> bool {
        let mut state = self.lock();
        state.spaces.retain(|space| !matches!(space.memory.zero(NOWHERE, PAGE), Ok(Put::Ended)));
        os::fds::wake(self.bell.as_fd());
        !state.spaces.is_empty()
    }

    /// Bytes that have come, with pages of zeros, and of how many pages somebody had to wait.
    pub fn progress(&self) -> (u64, u64) {
        let state = self.lock();
        (state.brought_bytes, state.faults)
    }

    /// Bytes that the process misses: without its children, and what of it was never there, once that is known.
    pub fn missing_bytes(&self) -> u64 {
        self.lock().spaces.first().map_or(0, |space| space.absent.bytes())
    }

    /// For who must see that nothing is answered wrongly should this process die: the first memory.
    pub fn duplicate(&self) -> Option<OwnedFd> {
        self.lock().spaces.first().and_then(|s| s.memory.as_fd().try_clone_to_owned().ok())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread that serves watches a memory no more when it hears that nothing is missing there; before, it would not be let go.
    fn tell_if(&self, changed: bool) {
        if changed {
            os::fds::wake(self.bell.as_fd());
        }
    }

    /// Puts pages that have these addresses there wherever they are missed. `put`: into a memory, pages with this address there, at these addresses.
    fn place(&self, there: Range, put: impl Fn(&Userfault, u64, Range) -> os::Result<Put>) {
        loop {
            let tried = {
                let mut state = self.lock();
                if state.end.is_some() {
                    return;
                }
                let before = state.spaces.len();
                let mut tried = Tried::Done;
                let mut failed = None;
                state.spaces.retain_mut(|space| match space.place(there, &put) {
                    Ok(Some(now)) => {
                        tried = if now == Tried::Changing { now } else { tried };
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
            if tried == Tried::Done {
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

impl State {
    /// Reads and obeys all that has happened; pages that must be asked for.
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
                        children.push(Space {
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

impl Space {
    /// Somebody waits for this page: what must be asked for.
    fn fault(&mut self, page: u64) -> Option<u64> {
        let source = self.absent.source(page);
        if source.is_none() {
            match self.memory.zero(page, PAGE) {
                Ok(Put::Changing) => self.again.push(page),
                Ok(Put::Present) => self.memory.wake(page, PAGE),
                // Nobody waits there any more.
                Ok(Put::Done(_) | Put::Elsewhere | Put::Ended) | Err(_) => {}
            }
        }
        source
    }

    /// Who waits there already, finds that nothing is missing.
    fn vacate(&mut self, there: Range) {
        for place in self.absent.places(there) {
            self.absent.forget(place.at);
            self.memory.wake(place.at.0, place.at.1 - place.at.0);
        }
    }

    /// `None`: the process has ended.
    fn place(
        &mut self,
        there: Range,
        put: &impl Fn(&Userfault, u64, Range) -> os::Result<Put>,
    ) -> os::Result<Option<Tried>> {
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
                    // It has been parted into areas meanwhile, or is gone in part.
                    Put::Elsewhere if step > PAGE => {
                        step = (step / 2).next_multiple_of(PAGE);
                        continue;
                    }
                    Put::Elsewhere => {
                        self.absent.forget((at, at + PAGE));
                        at += PAGE;
                    }
                    Put::Changing => return Ok(Some(Tried::Changing)),
                    Put::Ended => return Ok(None),
                }
            }
        }
        Ok(Some(Tried::Done))
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
