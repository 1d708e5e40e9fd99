//! On which processors threads may run: what they asked for, and one for a moment
//! (sched_setaffinity(2)).

use libc::cpu_set_t;
use std::cell::Cell;
use std::marker::PhantomData;

const SET_BYTES: usize = size_of::<cpu_set_t>();

/// Runs `work` in this thread on processor `number`; `None` if the thread may not run there.
pub fn on<T>(number: usize, work: impl FnOnce() -> T) -> Option<T> {
    keep_on(0, number, work)
}

/// Runs `work` while thread `tid` (0: this one) runs on processor `number` alone; `None` if that
/// thread may not run there.
pub fn keep_on<T>(tid: i32, number: usize, work: impl FnOnce() -> T) -> Option<T> {
    let _there = Held::on(tid, number)?;
    Some(work())
}

/// Gives the number of processors that this machine may have.
pub fn configured() -> usize {
    // SAFETY: takes a number.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) }).unwrap_or(1)
}

/// While it lives, the calling thread and a thread that it traces run on the processor where the
/// calling one is.
///
/// Of two that wait for each other only one runs at a time. On processors of their own each wakes
/// another that has gone to sleep meanwhile, which takes longer than what they do for each other.
#[derive(Debug)]
pub struct Together {
    _tracee: Held,
    _own: Option<Held>,
    outer: Option<Companion>,
    /// It is the calling thread's.
    _stays: PhantomData<*const ()>,
}

/// A tracee with which a thread is held.
#[derive(Clone, Copy, Debug)]
struct Companion {
    tid: i32,
    here: usize,
    before: Set,
}

thread_local! {
    /// The last one.
    static COMPANION: Cell<Option<Companion>> = const { Cell::new(None) };
}

impl Together {
    /// With the stopped thread `tid`; `None` if they are together already, or one of them may not
    /// run there: they can do without.
    pub fn with(tid: i32) -> Option<Together> {
        let outer = COMPANION.get();
        let (here, own) = match outer {
            Some(companion) if companion.tid == tid => return None,
            Some(companion) => (companion.here, None),
            None => {
                // SAFETY: takes nothing.
                let here = usize::try_from(unsafe { libc::sched_getcpu() }).ok()?;
                (here, Some(Held::on(0, here)?))
            }
        };
        let tracee = Held::on(tid, here)?;
        COMPANION.set(Some(Companion { tid, here, before: tracee.before }));
        Some(Together { _tracee: tracee, _own: own, outer, _stays: PhantomData })
    }
}

impl Drop for Together {
    fn drop(&mut self) {
        COMPANION.set(self.outer);
    }
}

/// The tracee with which the calling thread is together has made this thread: it got the processors
/// that its maker has at the moment, and is to have those that its maker had.
pub fn made_together(tid: i32) {
    if let Some(Companion { before, .. }) = COMPANION.get() {
        drop(Held { tid, before });
    }
}

/// While it lives, a thread of this process runs on other processors than the one on which it was
/// made: so that the thread that made it and goes on there, and its tracee, have that to
/// themselves.
#[derive(Debug)]
pub struct Elsewhere {
    _thread: Held,
}

impl Elsewhere {
    /// The thread `tid`; `None` if there is no other processor.
    pub fn keep(tid: i32) -> Option<Elsewhere> {
        // SAFETY: takes nothing.
        let here = usize::try_from(unsafe { libc::sched_getcpu() }).ok()?;
        let before = allowed(tid).filter(|_| here < libc::CPU_SETSIZE as usize)?;
        let mut others = before;
        // SAFETY: a number inside the set.
        unsafe { libc::CPU_CLR(here, &mut others) };
        allow(tid, &others).then_some(Elsewhere { _thread: Held { tid, before: Set(before) } })
    }
}

/// Processors, as bits of words: the lowest first, no zeros behind the last.
pub type Processors = Vec<u64>;

/// More words than any kernel's set has that is understood here.
pub const WORDS_MAX: usize = libc::CPU_SETSIZE as usize / u64::BITS as usize;

/// Tells where a stopped thread may run, if that is less than it might if it asked for all.
pub fn chosen(tid: i32) -> Option<Processors> {
    let before = allowed(tid)?;
    // Forgotten at once: what it asked for is set again.
    let held = Held { tid, before: Set(before) };
    let is_less = allow(tid, &all()) && allowed(tid).is_some_and(|most| !is_same(&most, &held.before.0));
    is_less.then(|| words(&held.before.0))
}

/// Tells where the calling thread may run.
pub fn own() -> Option<Processors> {
    allowed(0).as_ref().map(words)
}

/// Has a thread run on those of these processors that there are; `None`: on all. Where there is
/// none of them it may run wherever it might before.
pub fn choose(tid: i32, processors: Option<&[u64]>) {
    let mut set = if processors.is_none() { all() } else { none() };
    for (n, word) in processors.unwrap_or_default().iter().take(WORDS_MAX).enumerate() {
        let bits = (0..u64::BITS as usize).filter(|bit| word >> bit & 1 != 0);
        // SAFETY: the numbers lie inside the set.
        bits.for_each(|bit| unsafe { libc::CPU_SET(n * u64::BITS as usize + bit, &mut set) });
    }
    allow(tid, &set);
}

fn words(set: &cpu_set_t) -> Processors {
    // SAFETY: the numbers lie inside the set.
    let is_set = |n: usize| unsafe { libc::CPU_ISSET(n, set) };
    let word = |n: usize| {
        (0..u64::BITS as usize).filter(|bit| is_set(n * u64::BITS as usize + bit)).fold(0, |w, bit| w | 1 << bit)
    };
    let mut words: Processors = (0..WORDS_MAX).map(word).collect();
    words.truncate(words.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1));
    words
}

/// A thread that may run on one processor only.
#[derive(Debug)]
struct Held {
    tid: i32,
    before: Set,
}

/// As the kernel has it.
#[derive(Clone, Copy)]
struct Set(cpu_set_t);

impl std::fmt::Debug for Set {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(words(&self.0)).finish()
    }
}

impl Held {
    fn on(tid: i32, processor: usize) -> Option<Held> {
        (processor < libc::CPU_SETSIZE as usize).then_some(())?;
        let before = allowed(tid)?;
        let mut one = none();
        // SAFETY: a number inside the set.
        unsafe { libc::CPU_SET(processor, &mut one) };
        allow(tid, &one).then_some(Held { tid, before: Set(before) })
    }
}

impl Drop for Held {
    /// The kernel remembers what was asked for, and not only what came of it: who never asked, or
    /// for all, gets processors that are added later (`user_cpus_ptr` in kernel/sched/core.c).
    fn drop(&mut self) {
        let is_as_before =
            allow(self.tid, &all()) && allowed(self.tid).is_some_and(|now| is_same(&now, &self.before.0));
        if !is_as_before {
            allow(self.tid, &self.before.0);
        }
    }
}

fn none() -> cpu_set_t {
    // SAFETY: all zero is an empty set.
    unsafe { std::mem::zeroed() }
}

fn all() -> cpu_set_t {
    let mut all = none();
    // SAFETY: the numbers lie inside the set.
    (0..libc::CPU_SETSIZE as usize).for_each(|n| unsafe { libc::CPU_SET(n, &mut all) });
    all
}

fn is_same(one: &cpu_set_t, other: &cpu_set_t) -> bool {
    // SAFETY: two sets.
    unsafe { libc::CPU_EQUAL(one, other) }
}

fn allowed(tid: i32) -> Option<cpu_set_t> {
    let mut set = none();
    // SAFETY: a set of the stated size.
    (unsafe { libc::sched_getaffinity(tid, SET_BYTES, &mut set) } == 0).then_some(set)
}

fn allow(tid: i32, set: &cpu_set_t) -> bool {
    // SAFETY: a set of the stated size.
    unsafe { libc::sched_setaffinity(tid, SET_BYTES, set) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(processors: &[usize]) -> cpu_set_t {
        let mut set = none();
        // SAFETY: small numbers.
        processors.iter().for_each(|n| unsafe { libc::CPU_SET(*n, &mut set) });
        set
    }

    #[test]
    fn another_thread_leaves_this_processor_alone() {
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ends) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            // SAFETY: takes nothing.
            tell.send(unsafe { libc::gettid() }).unwrap();
            ends.recv().unwrap_err();
        });
        let tid = told.recv().unwrap();
        let before = allowed(tid).unwrap();
        let elsewhere = Elsewhere::keep(tid);
        // SAFETY: two sets.
        let count = |set: &cpu_set_t| unsafe { libc::CPU_COUNT(set) };
        assert_eq!(elsewhere.is_some(), count(&before) > 1);
        assert_eq!(
            count(&allowed(tid).unwrap()),
            if elsewhere.is_some() { count(&before) - 1 } else { count(&before) }
        );
        drop(elsewhere);
        assert!(is_same(&allowed(tid).unwrap(), &before));
        drop(end);
        other.join().unwrap();
    }

    #[test]
    fn both_run_where_the_first_is_and_then_wherever_they_might() {
        let mut other = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let tid = other.id() as i32;
        let (own, its) = (allowed(0).unwrap(), mask(&[0]));
        assert!(allow(tid, &its));
        let together = Together::with(tid).unwrap();
        // SAFETY: takes nothing.
        let here = mask(&[unsafe { libc::sched_getcpu() } as usize]);
        assert!(is_same(&allowed(tid).unwrap(), &here) && is_same(&allowed(0).unwrap(), &here));
        assert!(Together::with(tid).is_none(), "they are already");
        assert!(is_same(&allowed(tid).unwrap(), &here), "and stay so");
        let mut made = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        assert!(is_same(&allowed(made.id() as i32).unwrap(), &here), "children have what their maker has");
        made_together(made.id() as i32);
        assert!(is_same(&allowed(made.id() as i32).unwrap(), &its));
        made.kill().unwrap();
        made.wait().unwrap();
        drop(together);
        assert!(is_same(&allowed(tid).unwrap(), &its), "what it had asked for");
        assert!(is_same(&allowed(0).unwrap(), &own));
        choose(tid, None);
        let most = words(&allowed(tid).unwrap());
        assert_eq!(chosen(tid), None, "who may run everywhere chose nothing");
        choose(tid, Some(&[1]));
        assert!(is_same(&allowed(tid).unwrap(), &its));
        assert_eq!(chosen(tid), Some(vec![1]).filter(|one| *one != most));
        assert!(is_same(&allowed(tid).unwrap(), &its), "asking changes nothing");
        choose(tid, Some(&[0, 1 << 63]));
        assert!(is_same(&allowed(tid).unwrap(), &its), "there are no such processors");
        other.kill().unwrap();
        other.wait().unwrap();
        assert!(Together::with(tid).is_none(), "nobody is there");
        assert!(is_same(&allowed(0).unwrap(), &own));
    }
}
