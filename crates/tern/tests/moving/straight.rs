//! Memory that goes straight from node to node while the program runs.

use crate::ahead::WRITER;
use crate::{at_home, program, shared};

/// `on PID NODE WORDS..` moves, and prints how; what did not go straight, wholly.
const TOOLS: &str = r#"
on() { tern move --json "$@" > leg 2> why || { echo "$@"; cat why; return 1; }
python3 -c '
import json
legs = json.load(open("leg"))
print(legs[0]["how"].split()[0] if len(legs) == 1 else legs)'; }
"#;

/// No page is stale or torn, and nothing of the watching is left.
#[test]
fn pages_that_are_written_meanwhile() {
    let lab = shared();
    let writer = program(&lab, "straight", WRITER, &[]);
    let text = at_home(
        &lab,
        &format!(
            r#"{TOOLS}
        {writer} > said 2>&1 < /dev/null & pid=$!
        lines said 1; tern move $pid n2
        for i in 1 2 3 4; do for node in n3 n2; do
            on $pid $node --how pre --max-freeze 5ms
            lines said $(($(wc -l < said) + 1))
        done; done | uniq -c
        lines said $(($(wc -l < said) + 1))
        tern move $pid home
        grep -c -e ' uw' -e ' um' /proc/$pid/smaps; ls -l /proc/$pid/fd | grep -c userfault
        kill -USR1 $pid; wait $pid; echo $? $(tail -1 said)"#
        ),
    )
    .text();
    let words: Vec<&str> = text.split_whitespace().collect();
    assert_eq!(words, ["8", "pre", "0", "0", "4", "whole"], "{text}");
}

/// Looks at its memory, and executes itself.
const EXECUTER: &str = r#"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
int main(int count, char **words) {
    enum { WORDS = 1 << 18 };
    long round = count > 1 ? atol(words[1]) : 0;
    uint64_t *memory = malloc(WORDS * 8);
    for (long i = 0; i < WORDS; i++) memory[i] = i * 7 + round;
    struct timespec rest = {0, 5000000};
    nanosleep(&rest, 0);
    for (long i = 0; i < WORDS; i++) if (memory[i] != i * 7 + round) { puts("corrupt"); return 1; }
    if (round % 20 == 0) { printf("%ld\n", round); fflush(stdout); }
    if (access("stop", F_OK) == 0) { puts("whole"); return 4; }
    char next[20];
    sprintf(next, "%ld", round + 1);
    execl("/proc/self/exe", words[0], next, (char *)0);
    return 2;
}
"#;

/// A program that executes another while its memory goes ahead has other memory then.
#[test]
fn programs_that_are_executed_meanwhile() {
    let lab = shared();
    let executer = program(&lab, "executer", EXECUTER, &[]);
    let text = at_home(
        &lab,
        &format!(
            r#"{TOOLS}
        {executer} > said 2>&1 < /dev/null & pid=$!
        lines said 1
        for i in 1 2 3 4 5 6; do
            for node in n2 n3 n2; do tern move $pid $node --how pre > why 2>&1 && echo moved || cat why >&2; done
            tern move $pid home > why 2>&1 || cat why >&2
            lines said $(($(wc -l < said) + 1))
        done | sort | uniq -c | awk '{{ print ($1 > 6), $2 }}'
        touch stop; wait $pid; echo $? $(tail -1 said)"#
        ),
    )
    .text();
    assert_eq!(text, "1 moved\n4 whole");
}
