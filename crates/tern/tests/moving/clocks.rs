//! A program that does nothing but read the clock, and so is nearly always stopped inside the vDSO.

use crate::{at_home, program, shared};

/// Until SIGUSR1; says if time went back.
const READS: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <time.h>
static volatile int stop;
static void got(int signal) { stop = 1; }
int main(void) {
    struct timespec last = {0, 0}, now;
    signal(SIGUSR1, got);
    puts("up"); fflush(stdout);
    while (!stop) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_sec < last.tv_sec || (now.tv_sec == last.tv_sec && now.tv_nsec < last.tv_nsec)) { puts("back"); return 1; }
        last = now;
    }
    puts("done");
    return 3;
}
"#;

/// Failed once with SIGBUS: at home there is no page where a room's time namespace has one.
#[test]
fn clocks_are_read_without_a_pause() {
    let lab = shared();
    let reads = program(&lab, "reads", READS, &[]);
    let text = at_home(
        &lab,
        &format!(
            r#"
        {reads} > said & pid=$!
        lines said 1
        for i in 1 2 3 4 5 6 7 8; do tern move $pid n2 && tern move $pid home || break; done
        kill -USR1 $pid; wait $pid; echo $? $(tail -1 said)"#
        ),
    )
    .text();
    assert_eq!(text, "3 done");
}
