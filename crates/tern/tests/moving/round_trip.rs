//! There and back: the program goes on as if nothing had been, and nothing of tern is left in it.

use crate::{at_home, program, shared};

/// Checks its memory all the time, counts signals, keeps a file's offset and an environment in
/// registers, and says so in lines.
const COUNTER: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
static volatile int signals;
static void got(int signal) { signals++; }
int main(int count, char **words) {
    enum { SIZE = 1 << 18 };
    unsigned char *memory = malloc(SIZE);
    double sum = 1;
    signal(SIGUSR1, got);
    for (int i = 0; i < SIZE; i++) memory[i] = i * 7;
    for (int round = 0; signals < 3; round++) {
        for (int i = 0; i < SIZE; i++)
            if (memory[i]++ != (unsigned char)(i * 7 + round)) { puts("corrupt"); return 1; }
        sum = sum * 1.0000001 + 0.5;
        struct timespec rest = {0, 1000000};
        nanosleep(&rest, 0);
        if (round % 10 == 0) { printf("round %d\n", round); fflush(stdout); }
    }
    printf("%d %s %d\n", getpid(), words[1], signals);
    return 7;
}
"#;

/// Maps, descriptors, threads and status are the same before and after; signals arrive wherever it
/// is; its parent sees its end.
fn there_and_back(name: &str, flags: &[&str]) {
    let lab = shared();
    let counter = program(&lab, name, COUNTER, flags);
    let text = at_home(
        &lab,
        &format!(
            r#"
        {counter} word > said 2>&1 < /dev/null & pid=$!
        lines said 2; same $pid > before
        tern move $pid n2
        tern ps > ps; tr '\0' ' ' < /proc/$pid/cmdline; echo
        awk -v pid=$pid '$1 == pid {{ print "away on", $3 }}' ps
        kill -USR1 $pid; lines said $(($(wc -l < said) + 3))
        tern move $pid n3; kill -USR1 $pid; lines said $(($(wc -l < said) + 3))
        tern move $pid home; lines said $(($(wc -l < said) + 3))
        same $pid > after; diff before after && echo same
        tern move $pid n2; tern move $pid home
        kill -USR1 $pid; wait $pid; echo $?
        [ "$(tail -1 said)" = "$pid word 3" ] && echo right
        sed -i '$d' said; awk '{{ if ($2 != 10 * (NR - 1)) print "line", NR, $0 }}' said"#
        ),
    )
    .text();
    let expected = format!("{counter} word \naway on n2\nsame\n7\nright");
    assert_eq!(text, expected);
}

#[test]
fn a_dynamic_program() {
    there_and_back("counter", &[]);
}

#[test]
fn a_static_program_at_a_fixed_address() {
    there_and_back("counter-static", &["-static", "-no-pie"]);
}

/// `tern ps` counts what a process has used before it left.
#[test]
fn time_used_at_home_is_not_forgotten() {
    let lab = shared();
    let text = at_home(
        &lab,
        r#"
        python3 -c 'import time
while time.process_time() < 0.5: pass
print("up", flush=True); time.sleep(100)' > said & pid=$!
        lines said 1; tern move $pid n2; tern ps --json; kill $pid"#,
    )
    .text();
    let processes: serde_json::Value = serde_json::from_str(&text).unwrap();
    let used_us = processes.as_array().unwrap().iter().filter_map(|p| p["guest"]["cpu_us"].as_u64()).max();
    // Counted in ticks of 10 ms, user and system apart.
    assert!(used_us >= Some(480_000), "{text}");
}

/// What cannot be moved stays, goes on, and the message says why.
#[test]
fn reasons() {
    let lab = shared();
    let text = at_home(
        &lab,
        r#"
        python3 -c 'import mmap, os, time; m = mmap.mmap(-1, 4096); c = os.fork(); print(c or "up", flush=True); time.sleep(100)' > said & pid=$!
        lines said 2; child=$(grep -v up said)
        tern move --alone $pid n2 2>&1 | sed s/$child/CHILD/
        kill $child; until_ "! [ -e /proc/$child/fd/0 ]"
        for way in "$pid home" "$$ nowhere" "1 n2"; do tern move $way 2>&1 | head -1; done
        kill $pid"#,
    )
    .text();
    let lines: Vec<&str> = text.lines().collect();
    let wanted = ["shares memory with other processes (CHILD)", "already", "no node nowhere", "keeps the machine"];
    assert!(
        lines.len() == wanted.len() && lines.iter().zip(wanted).all(|(said, wanted)| said.contains(wanted)),
        "{text}"
    );
}

/// What the process has had open all the time it need not be allowed to open again.
#[test]
fn a_file_that_may_not_be_opened_any_more() {
    let lab = shared();
    let text = at_home(
        &lab,
        r#"
        touch open; chmod 666 open
        setpriv --reuid=65534 --regid=65534 --clear-groups perl -e '
$| = 1; open(my $file, "+<", "open") or die; print "up\n";
select(undef, undef, undef, 0.01) until -e "go";
syswrite($file, "written"); print "done\n"; sleep 100' > said & pid=$!
        lines said 1; tern move $pid n2 2>&1
        tern ps | awk -v pid=$pid '$1 == pid { print "away on", $3 }'
        chmod 600 open; tern move $pid home 2>&1
        touch go; lines said 2; cat open; basename $(readlink /proc/$pid/fd/3)
        kill $pid"#,
    )
    .text();
    assert_eq!(text, "away on n2\nwrittenopen");
}
