//! Waiting: select(2), poll(2) and epoll_wait(2). Bytes that were read ahead are ready at once.
//! Else the task polls for a short time before it gives its processor up.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicI64, Ordering};

use crate::original::{self, Poll, Sets, Time};
use crate::sys::{self, call};
use crate::{ahead, mode};

/// Words of the largest set of select(2).
const WORDS: usize = 16;
const WORD_BITS: usize = 64;
const POLL_IN: i16 = 1;

/// How often the task's processor was taken from it, at its last wait.
static SWITCHES: AtomicI64 = AtomicI64::new(0);

/// Gives the moment until which the task polls. A task whose processor was taken since its last
/// wait does not: others want the processor, and polling uses up the task's share of it.
fn spins_until_us() -> Option<u64> {
    const OF_THREAD: u64 = 1;
    const WORDS: usize = 18;
    const INVOLUNTARY_AT: usize = 17;
    mode::waits();
    let spin_us = mode::spin_us();
    if spin_us == 0 {
        return None;
    }
    let mut usage = [0i64; WORDS];
    // SAFETY: writes so many numbers.
    unsafe { call(sys::GETRUSAGE, [OF_THREAD, usage.as_mut_ptr() as u64, 0, 0, 0, 0]) };
    let now = usage[INVOLUNTARY_AT];
    let is_contended = SWITCHES.swap(now, Ordering::Relaxed) < now;
    (!is_contended).then(|| original::now_us() + u64::from(spin_us))
}

/// Polls until something is found, fails, or the time to spin is over.
fn spin(mut poll: impl FnMut() -> c_int) -> c_int {
    let Some(until_us) = spins_until_us() else { return 0 };
    loop {
        let found = poll();
        if found != 0 || original::now_us() >= until_us {
            return found;
        }
    }
}

/// select(2).
///
/// # Safety
/// As select(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn select(
    count: c_int,
    read: *mut u64,
    write: *mut u64,
    except: *mut u64,
    timeout: *mut Time,
) -> c_int {
    let sets = Sets { count, read, write, except };
    let words = (count.max(0) as usize).div_ceil(WORD_BITS);
    if words > WORDS {
        // SAFETY: the caller's promise.
        return unsafe { original::select(sets, timeout) };
    }
    // SAFETY: the sets have so many words, and the caller's promise.
    unsafe {
        let held = [copy(read, words), copy(write, words), copy(except, words)];
        let waiting = read_ahead(&held[0], count);
        if waiting.iter().any(|word| *word != 0) {
            return select_waiting(sets, &waiting, is_empty(&held[1]) && is_empty(&held[2]));
        }
        let is_poll = !timeout.is_null() && (*timeout).s == 0 && (*timeout).part == 0;
        // Writing rarely has to wait.
        if !is_poll && is_empty(&held[1]) {
            let found = spin(|| {
                let found = original::select(sets, &mut Time::default());
                if found == 0 {
                    restore(read, &held[0], words);
                    restore(write, &held[1], words);
                    restore(except, &held[2], words);
                }
                found
            });
            if found != 0 {
                return found;
            }
        }
        original::select(sets, timeout)
    }
}

type Set = [u64; WORDS];

/// # Safety
/// The set is null, or has so many words.
unsafe fn copy(set: *const u64, words: usize) -> Set {
    let mut copy = [0; WORDS];
    if !set.is_null() {
        // SAFETY: the caller's promise.
        unsafe { copy.as_mut_ptr().copy_from_nonoverlapping(set, words) };
    }
    copy
}

/// # Safety
/// As for [`copy`].
unsafe fn restore(set: *mut u64, held: &Set, words: usize) {
    if !set.is_null() {
        // SAFETY: the caller's promise.
        unsafe { set.copy_from_nonoverlapping(held.as_ptr(), words) };
    }
}

fn is_empty(set: &Set) -> bool {
    set.iter().all(|word| *word == 0)
}

/// Gives those descriptors of a set for which bytes wait.
fn read_ahead(set: &Set, count: c_int) -> Set {
    let mut waiting = [0; WORDS];
    for (index, word) in set.iter().enumerate().filter(|(_, word)| **word != 0) {
        for bit in (0..WORD_BITS).filter(|bit| word >> bit & 1 != 0) {
            let fd = (index * WORD_BITS + bit) as c_int;
            if fd < count && ahead::waiting(fd) > 0 {
                waiting[index] |= 1 << bit;
            }
        }
    }
    waiting
}

/// Answers for the descriptors for which bytes wait. Looks after others only if it is asked for
/// more than reading: what is readable is found by the next call.
///
/// # Safety
/// As select(2).
unsafe fn select_waiting(sets: Sets, waiting: &Set, reads_only: bool) -> c_int {
    let words = (sets.count.max(0) as usize).div_ceil(WORD_BITS);
    // SAFETY: the caller's promise.
    unsafe {
        let mut found = 0;
        if reads_only {
            restore(sets.read, &[0; WORDS], words);
        } else {
            found = original::select(sets, &mut Time::default());
            if found < 0 {
                return found;
            }
        }
        for (index, bits) in waiting.iter().enumerate().take(words) {
            let word = sets.read.add(index);
            found += (bits & !*word).count_ones() as c_int;
            *word |= bits;
        }
        found
    }
}

/// poll(2).
///
/// # Safety
/// As poll(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn poll(fds: *mut Poll, count: u64, timeout_ms: c_int) -> c_int {
    let waits = |poll: &Poll| poll.wanted & POLL_IN != 0 && ahead::waiting(poll.fd) > 0;
    // SAFETY: the caller's promise; the kernel looks at the same memory in turn.
    unsafe {
        let each = |index: u64| &mut *fds.add(index as usize);
        let is_any = !fds.is_null() && (0..count).any(|index| waits(each(index)));
        if !is_any {
            let found = if timeout_ms == 0 { 0 } else { spin(|| original::poll(fds, count, 0)) };
            return if found != 0 { found } else { original::poll(fds, count, timeout_ms) };
        }
        let mut found = original::poll(fds, count, 0);
        if found < 0 {
            return found;
        }
        for index in 0..count {
            let one = each(index);
            if waits(one) {
                found += c_int::from(one.found == 0);
                one.found |= POLL_IN;
            }
        }
        found
    }
}

/// epoll_wait(2).
///
/// # Safety
/// As epoll_wait(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn epoll_wait(epoll: c_int, events: *mut c_void, most: c_int, timeout_ms: c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let found = if timeout_ms == 0 { 0 } else { spin(|| original::epoll_wait(epoll, events, most, 0)) };
        if found != 0 { found } else { original::epoll_wait(epoll, events, most, timeout_ms) }
    }
}
