//! Post-copy and flush: programs that run on while their memory is still on its way.

use lab::{Lab, Options};

use crate::ahead::WRITER;
use crate::{at_home, common, program, shared};

/// No page is stale or torn, whichever way it goes, wherever it is; and nothing of the watching is
/// left.
#[test]
fn pages_that_follow_by_every_way() {
    let lab = shared();
    let writer = program(&lab, "follower", WRITER, &[]);
    let text = at_home(
        &lab,
        &format!(
            r#"
        {writer} > said 2>&1 < /dev/null & pid=$!
        lines said 1
        for leg in "n2 post" "home post" "n3 pre" "n2 post" "n3 flush" "home flush" "n3 flush" "n2 stop" "home post" "n2 stop" "home auto" "n2 post"; do
            set -- $leg
            tern move $pid $1 --how $2 --json > leg 2>&1 || {{ echo $leg; cat leg; break; }}
            [ $2 != post ] || grep -q '"how": "post"' leg || cat leg
            lines said $(($(wc -l < said) + 1))
            [ $1 != home ] || {{ grep -c ' um' /proc/$pid/smaps; ls -l /proc/$pid/fd | grep -c userfault; }} >> counts
        done
        tr '\n' ' ' < counts
        kill -USR1 $pid; wait $pid; echo $? $(tail -1 said)"#
        ),
    )
    .text();
    assert_eq!(text, format!("{}4 whole", "0 ".repeat(8)));
}

/// A family that is made while the pages of its first member are on their way: each looks at all of
/// the memory that it got, writes its own part, and ends before or after its parent. Another
/// program in the place of one needs no pages.
pub(crate) const FAMILY: &str = r#"
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
enum { PAGE = 4096, WORDS = PAGE / 8, PAGES = 4096 };
static uint64_t *memory;
static volatile int go;
static void got(int signal) { go = 1; }
static int look(int own) {
    uint64_t seed = 9;
    for (long i = 0; i < PAGES; i++) {
        seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
        long page = (i * 1579) % PAGES;
        if (memory[page * WORDS + 1] != (uint64_t)page * 7 || (own && memory[page * WORDS + 2] != 0)) return 1;
        if (own) memory[page * WORDS + 2] = own;
    }
    return 0;
}
static int child(int own) {
    int pid = fork();
    if (pid == 0) _exit(look(own) ? 9 : own);
    return pid;
}
static int status(int pid) { int s; waitpid(pid, &s, 0); return WIFEXITED(s) ? WEXITSTATUS(s) : 100 + WTERMSIG(s); }
int main(void) {
    memory = mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t seed = 3;
    for (long i = 0; i < PAGES * WORDS; i++) memory[i] = seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    for (long page = 0; page < PAGES; page++) { memory[page * WORDS + 1] = page * 7; memory[page * WORDS + 2] = 0; }
    signal(SIGUSR1, got);
    puts("ready"); fflush(stdout);
    while (!go) { struct timespec t = {0, 1000000}; nanosleep(&t, 0); }
    int a = child(1), b = child(2), pipes[2];
    pipe(pipes);
    int c = fork();
    if (c == 0) { /* its child outlives it */
        int own = getpid(), d = fork();
        if (d == 0) { while (getppid() == own) usleep(1000); char ok = look(3) ? 'x' : 'd'; write(pipes[1], &ok, 1); _exit(0); }
        _exit(look(4) ? 9 : 4);
    }
    int e = fork();
    if (e == 0) { execl("/bin/sh", "sh", "-c", "exit 5", NULL); _exit(8); }
    printf("%d %d %d %d ", status(a), status(b), status(c), status(e));
    char d = 0;
    read(pipes[0], &d, 1);
    printf("%c %d\n", d, look(0));
    fflush(stdout);
    return 6;
}
"#;

/// Who writes faster than the link carries is not stopped for all that is left: it follows. And two
/// nodes that send each other processes do not wait for each other.
#[test]
fn writers_that_outrun_the_link_and_swaps() {
    let lab = slow_lab();
    let writer = program(&lab, "outrunner", WRITER, &[]);
    let text = at_home(
        &lab,
        &format!(
            r#"
        {writer} > said-1 2>&1 < /dev/null & one=$!
        {writer} > said-2 2>&1 < /dev/null & two=$!
        lines said-1 1; lines said-2 1
        tern move $two n2 --how post || tern log -n 5
        tern move $one n2 --how auto --max-freeze 20ms --json > leg-1 2>&1 & there=$!
        tern move $two home --how post --json > leg-2 2>&1 & back=$!
        wait $there || cat leg-1
        wait $back || cat leg-2
        grep -o 'then post' leg-1 || {{ cat leg-1; tern log -n 5; }}
        tern move $one home --how auto --json > leg-1 2>&1 & there=$!
        tern move $two n2 --how stop --json > leg-2 2>&1 & back=$!
        wait $there || cat leg-1
        wait $back || cat leg-2
        lines said-1 $(($(wc -l < said-1) + 1)); lines said-2 $(($(wc -l < said-2) + 1))
        kill -USR1 $one $two; wait $one; echo $? $(tail -1 said-1); wait $two; echo $? $(tail -1 said-2)"#
        ),
    )
    .text();
    assert_eq!(
        text,
        "then post
4 whole
4 whole"
    );
}

fn slow_lab() -> Lab {
    common::lab_of(&Options { rate_bits: Some(100_000_000), ..common::options(2) })
}

/// Over a link that takes more than a second for the memory: families grow, calls are served with
/// buffers that are not there yet, programs are replaced; and when the process with the memory is
/// killed, whoever misses pages of it ends, and says why.
#[test]
fn families_and_ends_while_pages_follow() {
    let lab = slow_lab();
    let family = program(&lab, "family", FAMILY, &[]);
    let text = at_home(
        &lab,
        &format!(
            r#"
        begin() {{ : > said; {family} >> said 2>> errors < /dev/null & pid=$!; lines said 1; }}
        begin; tern move $pid n2 --how stop
        for to in home n2; do
            tern move $pid $to --how post --json > leg 2>&1 & move=$!
            if [ $to = home ]; then until_ "grep -q ' um' /proc/$pid/smaps"; else until_ "tern ps | grep -q '^ *'$pid"; fi
            kill -USR1 $pid; wait $pid; echo $? $(tail -1 said)
            wait $move || cat leg
            begin
        done
        tern move $pid n2 --how post > leg 2>&1 & move=$!
        until_ "tern ps | grep -q '^ *'$pid"
        kill -9 $pid; wait $pid; echo killed $?
        wait $move
        begin; tern move $pid n2 --how stop
        tern move $pid home --how post > leg 2>&1 & move=$!
        until_ "grep -q ' um' /proc/$pid/smaps"
        tern ps > /dev/null; kill -9 $(pgrep -f "^tern __steward" | head -1)
        wait $pid; echo orphaned $?
        wait $move; echo $?"#
        ),
    )
    .text();
    assert_eq!(text, "6 1 2 4 5 d 0\n6 1 2 4 5 d 0\nkilled 137\norphaned 137\n1");
}

/// Huge pages stay huge, whatever the way.
#[test]
fn huge_pages() {
    const HUGE: &str = r#"
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
enum { BYTES = 16 << 20, HUGE = 2 << 20 };
static long huge(void) {
    FILE *f = fopen("/proc/self/smaps", "r");
    char line[256];
    long sum = 0, kb;
    while (fgets(line, sizeof line, f)) if (sscanf(line, "AnonHugePages: %ld", &kb) == 1) sum += kb;
    fclose(f);
    return sum >> 10;
}
int main(void) {
    char *memory = mmap(0, BYTES + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memory = (char *)(((uintptr_t)memory + HUGE - 1) & -(uintptr_t)HUGE);
    if (madvise(memory, BYTES, MADV_HUGEPAGE)) puts("none");
    for (uint64_t n = 0; n < BYTES / 8; n++) ((uint64_t *)memory)[n] = n * 0x9e3779b97f4a7c15;
    for (;;) {
        for (uint64_t n = 0; n < BYTES / 8; n += 64) if (((uint64_t *)memory)[n] != n * 0x9e3779b97f4a7c15) { puts("torn"); return 1; }
        printf("%ld MB huge\n", huge()); fflush(stdout);
        struct timespec rest = {0, 10000000};
        nanosleep(&rest, 0);
    }
}
"#;
    let lab = shared();
    let program = program(&lab, "huge", HUGE, &[]);
    let text = at_home(
        &lab,
        &format!(
            r#"
        {program} > said 2>&1 < /dev/null & pid=$!
        lines said 1; before=$(head -1 said)
        for leg in "n2 stop" "home stop" "n2 pre" "n3 post" "home post" "n2 flush"; do
            set -- $leg
            tern move $pid $1 --how $2 --max-freeze 2ms; lines said $(($(wc -l < said) + 1))
            until_ '[ "$(tail -1 said)" = "$before" ]'
        done
        kill $pid; tail -1 said | grep -c huge; grep -c torn said; true"#
        ),
    )
    .text();
    assert_eq!(text, "1\n0");
}
