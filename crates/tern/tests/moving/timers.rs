//! Timers that end while their program moves.

use crate::{at_home, program, shared};

/// Each end of a one-shot timer sets the next: one that is lost is the last.
const TICKS: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <unistd.h>
static volatile long ticks, stop;
static void next(int signal) {
    struct itimerval soon = {{0, 0}, {0, 150}};
    ticks++;
    setitimer(ITIMER_REAL, &soon, 0);
}
static void got(int signal) { stop = 1; }
int main(void) {
    signal(SIGALRM, next); signal(SIGUSR1, got);
    next(0);
    for (long said = 0; !stop; pause())
        if (ticks >= said + 200) { printf("%ld\n", said = ticks); fflush(stdout); }
    puts("done");
}
"#;

#[test]
fn no_end_of_a_timer_is_lost() {
    let lab = shared();
    let ticks = program(&lab, "ticks", TICKS, &[]);
    let text = at_home(
        &lab,
        &format!(
            r#"
        {ticks} > said 2>&1 < /dev/null & pid=$!
        for i in $(seq 25); do
            tern move $pid n2 || break; lines said $(($(wc -l < said) + 1))
            tern move $pid home || break; lines said $(($(wc -l < said) + 1))
        done
        kill -USR1 $pid; wait $pid; tail -1 said"#
        ),
    )
    .text();
    assert_eq!(text, "done");
}
