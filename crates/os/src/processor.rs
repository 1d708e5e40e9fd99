//! Running on one processor for a moment (sched_setaffinity(2)).

use libc::cpu_set_t;

const SET_BYTES: usize = size_of::<cpu_set_t>();

/// Runs `work` in this thread on processor `number`; `None` if the thread may not run there.
pub fn on<T>(number: usize, work: impl FnOnce() -> T) -> Option<T> {
    let _here = Held::on(0, number)?;
    Some(work())
}

/// While it lives, the calling thread and a thread that it traces run on the processor where the calling one is.
///
/// Of two that wait for each other only one runs at a time. On processors of their own each wakes another that has gone to sleep meanwhile, which takes longer than what they do for each other.
#[derive(Debug)]
pub struct Together {
    _tracee: Held,
    _own: Held,
}

impl Together {
    /// With the stopped thread `tid`; `None` if one of them may not run there: they can do without.
    pub fn with(tid: i32) -> Option<Together> {
        // SAFETY: takes nothing.
        let here = usize::try_from(unsafe { libc::sched_getcpu() }).ok()?;
        let own = Held::on(0, here)?;
        Some(Together { _tracee: Held::on(tid, here)?, _own: own })
    }
}

/// A thread that may run on one processor only.
struct Held {
    tid: i32,
    before: cpu_set_t,
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Held").field("tid", &self.tid).finish_non_exhaustive()
    }
}

impl Held {
    fn on(tid: i32, processor: usize) -> Option<Held> {
        (processor < libc::CPU_SETSIZE as usize).then_some(())?;
        let before = allowed(tid)?;
        let mut one = none();
        // SAFETY: a number inside the set.
        unsafe { libc::CPU_SET(processor, &mut one) };
        allow(tid, &one).then_some(Held { tid, before })
    }
}

impl Drop for Held {
    /// The kernel remembers what was asked for, and not only what came of it: who never asked, or for all, gets processors that are added later
    /// (`user_cpus_ptr` in kernel/sched/core.c).
    fn drop(&mut self) {
        let mut all = none();
        // SAFETY: the numbers lie inside the set.
        (0..libc::CPU_SETSIZE as usize).for_each(|n| unsafe { libc::CPU_SET(n, &mut all) });
        let is_as_before = allow(self.tid, &all) && allowed(self.tid).is_some_and(|now| is_same(&now, &self.before));
        if !is_as_before {
            allow(self.tid, &self.before);
        }
    }
}

fn none() -> cpu_set_t {
    // SAFETY: all zero is an empty set.
    unsafe { std::mem::zeroed() }
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
    fn both_run_where_the_first_is_and_then_wherever_they_might() {
        let mut other = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let tid = other.id() as i32;
        let (own, its) = (allowed(0).unwrap(), mask(&[0]));
        assert!(allow(tid, &its));
        let together = Together::with(tid).unwrap();
        // SAFETY: takes nothing.
        let here = mask(&[unsafe { libc::sched_getcpu() } as usize]);
        assert!(is_same(&allowed(tid).unwrap(), &here) && is_same(&allowed(0).unwrap(), &here));
        drop(together);
        assert!(is_same(&allowed(tid).unwrap(), &its), "what it had asked for");
        assert!(is_same(&allowed(0).unwrap(), &own));
        other.kill().unwrap();
        other.wait().unwrap();
        assert!(Together::with(tid).is_none(), "nobody is there");
        assert!(is_same(&allowed(0).unwrap(), &own));
    }
}
