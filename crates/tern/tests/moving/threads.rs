//! Threads that take turns, come and go, while their process moves.

use crate::{at_home, program, shared};

/// Eight threads take turns by a condition; the first one makes short-lived threads. Each checks
/// its TID and its thread-local count.
const TURNS: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
enum { THREADS = 8 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static long turns[THREADS], turn;
static volatile int stop;
static __thread long mine;
static void *take_turns(void *number) {
    long me = (long)number, tid = syscall(SYS_gettid);
    mine = me * 1000;
    while (!stop) {
        pthread_mutex_lock(&lock);
        while (turn != me && !stop) pthread_cond_wait(&changed, &lock);
        turns[me]++; mine++; turn = (me + 1) % THREADS;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
        if (me == 0) usleep(1000);
        if (mine != me * 1000 + turns[me] || tid != syscall(SYS_gettid)) { puts("bad"); exit(1); }
    }
    return 0;
}
static void *nothing(void *none) { return none; }
static void got(int signal) { stop = 1; }
int main(void) {
    pthread_t threads[THREADS], short_lived;
    signal(SIGUSR1, got);
    for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], 0, take_turns, (void *)i);
    for (int i = 0; !stop; i++) {
        if (pthread_create(&short_lived, 0, nothing, 0) || pthread_join(short_lived, 0)) { puts("no thread"); return 1; }
        if (i % 10 == 0) { printf("%d\n", i); fflush(stdout); }
        usleep(1000);
    }
    pthread_mutex_lock(&lock); pthread_cond_broadcast(&changed); pthread_mutex_unlock(&lock);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], 0);
    puts("done");
    return 5;
}
"#;

/// Failed once: a thread that another event stopped first forgot that it had been asked to stop.
#[test]
fn threads_go_on_wherever_they_are() {
    let lab = shared();
    let turns = program(&lab, "turns", TURNS, &[]);
    let text = at_home(
        &lab,
        &format!(
            r#"
        {turns} > said 2>&1 < /dev/null & pid=$!
        lines said 2
        for i in 1 2 3 4 5 6; do
            tern move $pid n2 || break; lines said $(($(wc -l < said) + 2))
            tern move $pid home || break; lines said $(($(wc -l < said) + 2))
        done
        kill -USR1 $pid; wait $pid; echo $? $(tail -1 said)"#
        ),
    )
    .text();
    assert_eq!(text, "5 done");
}
