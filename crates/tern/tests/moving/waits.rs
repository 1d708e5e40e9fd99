//! Calls that wait for a time, from which a program was taken away in the middle: they end when
//! they should.

use crate::{at_home, program, shared};

/// Waits for 2 s in each of these ways, at once, each in a thread of its own, and says how long
/// that took.
const WAITS: &str = r#"
#define _GNU_SOURCE
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static int word;
static void *in_sleep(void *n) { struct timespec t = {2, 0}; syscall(SYS_nanosleep, &t, 0); return n; }
static void *in_rest(void *n) { struct timespec t = {2, 0}; syscall(SYS_nanosleep, &t, &t); return n; }
static void *in_clock(void *n) { struct timespec t = {2, 0}; syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &t, 0); return n; }
static void *in_poll(void *n) { poll(0, 0, 2000); return n; }
static void *in_select(void *n) { struct timeval t = {2, 0}; select(0, 0, 0, 0, &t); return n; }
static void *in_futex(void *n) { struct timespec t = {2, 0}; syscall(SYS_futex, &word, FUTEX_WAIT, 0, &t, 0, 0); return n; }
static void *(*ways[])(void *) = {in_sleep, in_rest, in_clock, in_poll, in_select, in_futex};
enum { WAYS = sizeof ways / sizeof *ways };
static void *timed(void *n) {
    struct timespec before, after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    ways[(long)n](n);
    clock_gettime(CLOCK_MONOTONIC, &after);
    return (void *)((after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000);
}
int main(void) {
    pthread_t threads[WAYS];
    for (long i = 0; i < WAYS; i++) pthread_create(&threads[i], 0, timed, (void *)i);
    puts("waiting"); fflush(stdout);
    for (int i = 0; i < WAYS; i++) { void *took; pthread_join(threads[i], &took); printf("%ld\n", (long)took); }
}
"#;

#[test]
fn waits_end_in_time() {
    let lab = shared();
    let waits = program(&lab, "waits", WAITS, &[]);
    let script = format!(
        "{waits} > said & pid=$!\nlines said 1; sleep 0.7; tern move $pid n2 && sleep 0.5 && tern move $pid home; wait $pid; cat said"
    );
    let text = at_home(&lab, &script).text();
    let took: Vec<u32> = text.lines().skip(1).map(|l| l.parse().unwrap()).collect();
    // The machine may be busy: late by a little, but not by what was waited before.
    assert!(took.len() == 6 && took.iter().all(|ms| (1990..2450).contains(ms)), "{text}");
}
