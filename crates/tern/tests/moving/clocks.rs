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

/// Uses so many milliseconds when it is told to, and says what its clocks show, milliseconds.
const USES: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/resource.h>
#include <sys/times.h>
#include <time.h>
#include <unistd.h>
static long ms(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}
static long usage(int whose) {
    struct rusage u;
    getrusage(whose, &u);
    return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000 + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1000;
}
int main(void) {
    int more;
    while (scanf("%d", &more) == 1) {
        for (long end = ms(CLOCK_PROCESS_CPUTIME_ID) + more; ms(CLOCK_PROCESS_CPUTIME_ID) < end;) continue;
        struct tms t;
        clockid_t own;
        times(&t);
        clock_getcpuclockid(getpid(), &own);
        long ticks[2] = {0};
        FILE *stat = fopen("/proc/self/stat", "r");
        fscanf(stat, "%*d %*s %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %ld %ld", ticks, ticks + 1);
        fclose(stat);
        printf("%ld %ld %ld %ld %ld %ld %ld\n", ms(CLOCK_PROCESS_CPUTIME_ID), ms(CLOCK_THREAD_CPUTIME_ID), ms(own), usage(RUSAGE_SELF),
            usage(RUSAGE_THREAD), (long)(t.tms_utime + t.tms_stime) * 10, (ticks[0] + ticks[1]) * 10);
        fflush(stdout);
    }
    return 0;
}
"#;

/// CPU time is what was used in all places together. At home it is what home's kernel has counted.
#[test]
fn cpu_time_goes_on() {
    let lab = shared();
    let uses = program(&lab, "uses", USES, &[]);
    let text = at_home(
        &lab,
        &format!(
            r#"
        mkfifo orders; {uses} < orders > said & pid=$!
        exec 5> orders
        echo 200 >&5; lines said 1
        tern move $pid n2 && echo 300 >&5; lines said 2
        tern move $pid n3 && echo 100 >&5; lines said 3
        tern move $pid home && echo 10 >&5; lines said 4
        tern move $pid n2 && echo 10 >&5; lines said 5
        exec 5>&-; wait $pid; cat said"#
        ),
    )
    .text();
    let said: Vec<Vec<i64>> =
        text.lines().map(|line| line.split_whitespace().map(|word| word.parse().unwrap()).collect()).collect();
    assert_eq!(said.len(), 5, "{text}");
    for (line, least) in said.iter().zip([200, 500, 600, 210, 620]) {
        assert_eq!(line.len(), 7, "{text}");
        // Ticks are of 10 ms, of each kernel; moving costs some, too.
        assert!(line.iter().all(|ms| (least - 30..least + 150).contains(ms)), "{least}: {line:?}\n{text}");
    }
}
