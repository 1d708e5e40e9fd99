//! Memory that goes straight from node to node while the program runs.

use std::time::{Duration, Instant};

use crate::ahead::WRITER;
use crate::following::FAMILY;
use crate::{at_home, common, program, shared};
use lab::{Lab, Options};

/// `on PID NODE WORDS..` moves, and prints how; what did not go straight, wholly. `begin PROGRAM`
/// has it run on n2; `end` has it end at home, and prints what is left of watching there.
const TOOLS: &str = r#"
on() { tern move --json "$@" > leg 2> why || { echo "$@"; cat why; return 1; }
python3 -c '
import json
legs = json.load(open("leg"))
print(legs[0]["how"].split()[0] if len(legs) == 1 else legs)'; }
begin() { "$@" > said 2>&1 < /dev/null & pid=$!; lines said 1; tern move $pid n2; }
end() {
    tern move $pid home
    grep -c -e ' uw' -e ' um' /proc/$pid/smaps; ls -l /proc/$pid/fd | grep -c userfault
    kill -USR1 $pid; wait $pid; echo $? $(tail -1 said)
}
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
        begin {writer}
        for i in 1 2 3 4; do for node in n3 n2; do
            on $pid $node --how pre --max-freeze 5ms
            lines said $(($(wc -l < said) + 1))
        done; done | uniq -c
        lines said $(($(wc -l < said) + 1))
        end"#
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
        moved=0
        for try in $(seq 40); do
            for node in n2 n3 n2; do tern move $pid $node --how pre > why 2>&1 && moved=$((moved + 1)) || cat why >&2; done
            tern move $pid home > why 2>&1 || cat why >&2
            lines said $(($(wc -l < said) + 1))
            [ $moved -lt 7 ] || break
        done
        [ $moved -lt 7 ] || echo moved
        touch stop; wait $pid; echo $? $(tail -1 said)"#
        ),
    )
    .text();
    assert_eq!(text, "moved\n4 whole");
}

/// Post-copy, and what `auto` does with a writer that outruns the link: no page is stale or torn,
/// and none is left behind.
#[test]
fn pages_that_follow() {
    let lab = shared();
    let writer = program(&lab, "straggler", WRITER, &[]);
    let text = at_home(
        &lab,
        &format!(
            r#"{TOOLS}
        begin {writer}
        for i in 1 2 3 4; do for node in n3 n2; do
            on $pid $node --how post
            lines said $(($(wc -l < said) + 1))
        done; done | uniq -c
        for leg in "n3 auto 5ms" "n2 post 5ms" "n3 pre 1ms" "n2 stop 1ms"; do
            set -- $leg
            on $pid $1 --how $2 --max-freeze $3 > how || cat how
            lines said $(($(wc -l < said) + 1))
        done
        end"#
        ),
    )
    .text();
    let words: Vec<&str> = text.split_whitespace().collect();
    assert_eq!(words, ["8", "post", "0", "0", "4", "whole"], "{text}");
}

fn slow_lab() -> Lab {
    common::lab_of(&Options { rate_bits: Some(100_000_000), ..common::options(3) })
}

/// Processes of a node with this word among their arguments.
fn role(lab: &Lab, node: &str, role: &str) -> Vec<i32> {
    let is_it = |pid: &i32| {
        std::fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|words| words.split(|b| *b == 0).any(|word| word == role.as_bytes()))
    };
    lab.processes(node).unwrap().into_iter().filter(is_it).collect()
}

/// While its pages follow, a family grows, a program is replaced, and the process is killed.
#[test]
fn families_and_ends_while_pages_follow() {
    let lab = slow_lab();
    let family = program(&lab, "clan", FAMILY, &[]);
    let text = at_home(
        &lab,
        &format!(
            r#"
        begin() {{ : > said; {family} >> said 2>> errors < /dev/null & pid=$!; lines said 1; tern move $pid n2 --how stop; }}
        begin
        tern move $pid n3 --how post --json > leg 2>&1 & move=$!
        until_ "tern ps | grep $pid | grep -q n3"
        kill -USR1 $pid; wait $pid; echo $? $(tail -1 said)
        wait $move || cat leg
        begin
        tern move $pid n3 --how post > leg 2>&1 & move=$!
        until_ "tern ps | grep $pid | grep -q n3"
        kill -9 $pid; wait $pid; echo killed $?
        wait $move; until_ "[ -z \"\$(tern ps | grep -w $pid)\" ]"; cat errors"#
        ),
    )
    .text();
    assert_eq!(text, "6 1 2 4 5 d 0\nkilled 137");
}

/// Looks at its memory all the time; told to, it has children that do so too. Whoever finds a page
/// that is not what it was says so.
const BEREFT: &str = r#"
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
enum { WORDS = 48 << 17, PAGE = 512 };
static volatile int told;
static void got(int signal) { told = 1; }
int main(void) {
    uint64_t *memory = malloc(8L * WORDS);
    signal(SIGUSR1, got);
    for (uint64_t i = 0, seed = 1; i < WORDS; i++) memory[i] = (seed = seed * 6364136223846793005ULL + 1442695040888963407ULL) ^ 1;
    for (uint64_t page = 0; page < WORDS / PAGE; page++) memory[page * PAGE] = page + 1;
    puts("ready"); fflush(stdout);
    for (uint64_t n = getpid();; n = n * 6364136223846793005ULL + 1) {
        uint64_t page = (n >> 33) % (WORDS / PAGE);
        if (memory[page * PAGE] != page + 1) { puts("torn"); fflush(stdout); _exit(1); }
        if (told) { told = 0; for (int i = 0; i < 3 && fork(); i++); }
        usleep(200);
    }
}
"#;

/// The node that has the pages that follow is lost: who misses them, children too, ends and says
/// why; nobody goes on with other pages.
#[test]
fn pages_that_are_lost() {
    let lab = slow_lab();
    let program = program(&lab, "bereft", BEREFT, &[]);
    std::thread::scope(|scope| {
        let ran = scope.spawn(|| {
            at_home(
                &lab,
                &format!(
                    r#"
                {program} > said 2> errors < /dev/null & pid=$!
                lines said 1; tern move $pid n2 --how stop
                tern move $pid n3 --how post > leg 2>&1 & move=$!
                until_ "tern ps | grep $pid | grep -q n3"; kill -USR1 $pid
                until_ '[ "$(pgrep -c -P $pid)" = 3 ]'; touch /tmp/follows
                wait $pid; echo $?; wait $move; echo $?
                until_ '[ -z "$(pgrep bereft)" ]'
                grep -c "memory of process $pid is lost" errors; grep -c 'still on n2' leg || cat leg
                cat said"#
                ),
            )
            .text()
        });
        let follows = lab.root("n1").unwrap().join("tmp/follows");
        let begun = Instant::now();
        while !follows.exists() && begun.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(2));
        }
        for pid in role(&lab, "n2", "__warden") {
            // SAFETY: a process of this test's own lab.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        assert_eq!(ran.join().unwrap(), "137\n1\n4\n1\nready");
    });
}
