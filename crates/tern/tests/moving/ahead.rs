//! Pre-copy: the memory of programs that write it, and change what is mapped, while it is sent.

use crate::{at_home, program, shared};

/// Writes pages with numbers that it knows, in an order that jumps about, and looks at each before
/// it writes it again. Beside that it maps, unmaps, moves, protects and gives back memory, and
/// knows what must be there then.
pub(crate) const WRITER: &str = r#"
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
enum { PAGE = 4096, WORDS = PAGE / 8, PAGES = 6144, SPANS = 24, SPAN = 32 };
static volatile int stop;
static void got(int signal) { stop = 1; }
static uint32_t seed = 7;
static uint32_t chance(uint32_t below) { seed = seed * 1664525 + 1013904223; return (seed >> 8) % below; }
static void fail(const char *what, long page) { printf("%s: page %ld\n", what, page); fflush(stdout); _exit(1); }
static uint64_t *fresh(void) {
    uint64_t *at = mmap(0, SPAN * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) fail("mmap", 0);
    return at;
}
static uint64_t *spans[SPANS], values[SPANS][SPAN];
static void look(int n) { for (int i = 0; i < SPAN; i++) if (spans[n][i * WORDS + 5] != values[n][i]) fail("span", n); }
static void change(int n) {
    look(n);
    switch (chance(6)) {
    case 0: munmap(spans[n], SPAN * PAGE); spans[n] = fresh(); memset(values[n], 0, sizeof values[n]); break;
    case 1: { uint64_t *to = fresh(); if (mremap(spans[n], SPAN * PAGE, SPAN * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to) != to) fail("mremap", n); spans[n] = to; break; }
    case 2: { int i = chance(SPAN); madvise(spans[n] + i * WORDS, PAGE, MADV_DONTNEED); values[n][i] = 0; break; }
    case 3: mprotect(spans[n], SPAN * PAGE, PROT_READ); look(n); mprotect(spans[n], SPAN * PAGE, PROT_READ | PROT_WRITE); break;
    default: { int i = chance(SPAN); spans[n][i * WORDS + 5] = values[n][i] = chance(1 << 20) + 1; break; }
    }
    look(n);
}
int main(void) {
    uint64_t *memory = malloc(PAGES * PAGE), *seen = calloc(PAGES, 8);
    memory = (uint64_t *)(((uintptr_t)memory + PAGE - 1) & -PAGE);
    signal(SIGUSR1, got);
    for (long i = 0; i < (PAGES - 1) * WORDS; i++) memory[i] = i % WORDS == 0 || i % WORDS == WORDS - 1 ? 0 : i;
    for (int n = 0; n < SPANS; n++) spans[n] = fresh();
    struct timespec rest = {0, 200000};
    for (long round = 0; !stop; round++) {
        for (int i = 0; i < 64; i++) {
            long page = chance(PAGES - 1);
            uint64_t *at = memory + page * WORDS;
            if (at[0] != seen[page] || at[WORDS - 1] != seen[page] || at[9] != page * WORDS + 9) fail("page", page);
            at[0] = at[WORDS - 1] = ++seen[page];
        }
        change(chance(SPANS));
        nanosleep(&rest, 0);
        if (round % 100 == 0) { printf("%ld\n", round); fflush(stdout); }
    }
    for (long page = 0; page < PAGES - 1; page++)
        if (memory[page * WORDS] != seen[page] || memory[page * WORDS + 9] != page * WORDS + 9) fail("page", page);
    for (int n = 0; n < SPANS; n++) look(n);
    puts("whole");
    return 4;
}
"#;

/// No page is stale or torn, and nothing of the watching is left at home.
#[test]
fn pages_that_are_written_meanwhile() {
    let lab = shared();
    let writer = program(&lab, "writer", WRITER, &[]);
    let text = at_home(
        &lab,
        &format!(
            r#"
        {writer} > said 2>&1 < /dev/null & pid=$!
        lines said 1
        for i in 1 2 3 4 5 6; do
            tern move $pid n2 --how pre --max-freeze 5ms --json > leg 2>&1 || {{ cat leg; break; }}
            grep -q '"how": "pre (' leg || cat leg
            cp leg leg-$i
            lines said $(($(wc -l < said) + 1))
            way=; if [ $((i % 2)) = 0 ]; then way='--how pre --max-freeze 5ms'; fi
            tern move $pid home $way --json > leg 2>&1 || {{ cat leg; break; }}
            grep -q '"how": "pre (' leg || cat leg
            {{ grep -c ' dc' /proc/$pid/smaps; grep -c ' uw' /proc/$pid/smaps; ls -l /proc/$pid/fd | grep -c userfault; }} >> counts
        done
        tr '\n' ' ' < counts
        kill -USR1 $pid; wait $pid; echo $? $(tail -1 said)"#
        ),
    )
    .text();
    assert_eq!(text, format!("{}4 whole", "0 ".repeat(18)));
}

/// What cannot be done is said, and what makes no sense too.
#[test]
fn wishes_that_cannot_be_met() {
    let lab = shared();
    let text = at_home(
        &lab,
        r#"
        sleep 100 & pid=$!
        until_ "grep -q sleep /proc/$pid/comm"
        until_ "tern move $pid n2 2> /dev/null"
        for more in "home --how pony" "home --max-freeze 5"; do tern move $pid $more 2>&1 | head -1; done
        kill $pid"#,
    )
    .text();
    let lines: Vec<&str> = text.lines().collect();
    let wanted = ["pony", "50ms"];
    assert!(
        lines.len() == wanted.len() && lines.iter().zip(wanted).all(|(said, wanted)| said.contains(wanted)),
        "{text}"
    );
}

/// Protects areas and unprotects them all the time, and writes each.
const FLIPPER: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
enum { PAGE = 4096, AREAS = 16, BYTES = 4 * PAGE };
static volatile int stop;
static void got(int signal) { stop = 1; }
int main(void) {
    char *at[AREAS];
    for (int i = 0; i < AREAS; i++) {
        at[i] = (char *)mmap(0, 3 * BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) + BYTES;
        mprotect(at[i], BYTES, PROT_READ | PROT_WRITE);
    }
    signal(SIGUSR1, got);
    for (long round = 0; !stop; round++) {
        mprotect(at[round % AREAS], BYTES, PROT_READ);
        mprotect(at[round % AREAS], BYTES, PROT_READ | PROT_WRITE);
        for (int i = 0; i < AREAS; i++) at[i][round % BYTES] = 1;
        if (round % 5000 == 0) { printf("%ld\n", round); fflush(stdout); }
    }
    puts("whole");
    return 4;
}
"#;

/// What was seen of the memory while the program ran is used only if it was all of one moment, and
/// is so still: an area that is what it was before may have been something else in between.
#[test]
fn areas_that_change_there_and_back() {
    let lab = shared();
    let flipper = program(&lab, "flipper", FLIPPER, &[]);
    let text = at_home(
        &lab,
        &format!(
            r#"
        {flipper} > said 2>&1 < /dev/null & pid=$!
        lines said 1
        for leg in "n2 stop" "home stop" "n3 pre" "home auto" "n2 post" "n3 stop" "home post" "n2 pre" "n3 post" "n2 stop" "n3 auto" "n2 auto"; do
            set -- $leg
            tern move $pid $1 --how $2 > leg 2>&1 || {{ echo $leg; cat leg; break; }}
            lines said $(($(wc -l < said) + 2))
        done
        kill -USR1 $pid; wait $pid; echo $? $(tail -1 said)"#
        ),
    )
    .text();
    assert_eq!(text, "4 whole");
}
