//! Programs that are stopped by job control are moved as they are, and go on when they are
//! continued, wherever that is.

use crate::common::eventually;
use crate::{at_home, program, shared};

/// Says a line every few milliseconds, from two threads; says when it was continued.
const TICKS: &str = r#"
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
static void again(int s) { (void)s; write(1, "continued\n", 10); }
static void *other(void *x) { for (;;) pause(); return x; }
int main(void) {
    pthread_t t;
    struct sigaction action = {.sa_handler = again, .sa_flags = SA_RESTART};
    sigaction(SIGCONT, &action, 0);
    pthread_create(&t, 0, other, 0);
    for (int i = 0;; i++) {
        struct timespec moment = {0, 5000000};
        while (nanosleep(&moment, &moment)) ;
        dprintf(1, "%d\n", i);
    }
}
"#;

/// `stops PID`: until it is stopped, and its lines show that its body is, too. `goes_on N`: until
/// there are N lines more.
const TOOLS: &str = r#"
stops() { until_ "grep -q '^State:.T' /proc/$1/status"; n=-1; until_ "[ \$n = \$(wc -l < said) ] || { n=\$(wc -l < said); sleep 0.1; false; }"; }
still() { n=$(wc -l < said); sleep 0.15; [ $n = $(wc -l < said) ] && grep -q '^State:.T' /proc/$1/status && echo "still stopped"; }
goes_on() { lines said $(($(wc -l < said) + $1)); }
"#;

#[test]
fn a_stopped_program_is_moved_as_it_is() {
    let lab = shared();
    let ticks = program(&lab, "ticks", TICKS, &[]);
    let text = at_home(
        &lab,
        &format!(
            r#"{TOOLS}
        {ticks} > said 2>&1 < /dev/null & pid=$!
        lines said 3; kill -STOP $pid; stops $pid
        tern move $pid n2 && still $pid; tern ps | awk -v pid=$pid '$1 == pid {{ print "on", $3 }}'
        kill -CONT $pid; goes_on 5
        kill -STOP $pid; stops $pid; tern move $pid home 2>&1 && still $pid
        tern move $pid n3 2>&1 && still $pid
        tern move $pid n2 2>&1 && still $pid; tern move $pid home 2>&1 && still $pid; tern move $pid n2
        kill -CONT $pid; goes_on 5
        kill -TSTP $pid; stops $pid; tern move $pid n3 2>&1 && still $pid; kill -CONT $pid; goes_on 5
        tern move $pid home; goes_on 5
        kill $pid; wait $pid; echo $?; grep -c continued said
        grep -v continued said | awk '{{ if ($1 != NR - 1) print "line", NR, $0 }}'"#
        ),
    )
    .text();
    let still = "still stopped";
    assert_eq!(text, format!("{still}\non n2\n{still}\n{still}\n{still}\n{still}\n{still}\n143\n3"));
}

/// The job of an interactive shell, stopped by its terminal's key, is moved and put into the
/// foreground again.
#[test]
fn a_stopped_job_is_moved_and_continued_by_its_shell() {
    let lab = shared();
    let ticks = program(&lab, "ticks", TICKS, &[]);
    let text = at_home(
        &lab,
        &format!(
            r#"{TOOLS}
        set -m; {ticks} > said & pid=$!
        lines said 3; kill -TSTP $pid; stops $pid; jobs | grep -o Stopped
        tern move $pid n2 && still $pid
        bg > /dev/null; goes_on 5; jobs | grep -o Running; kill $pid; wait $pid; echo $?"#
        ),
    )
    .text();
    assert_eq!(text, "Stopped\nstill stopped\nRunning\n143");
}

/// What processes of this command line do, at home and away, as this machine sees them.
fn states(command: &[u8]) -> String {
    let all = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let of = |path: std::path::PathBuf| {
        (std::fs::read(path.join("cmdline")).ok()? == command).then_some(())?;
        std::fs::read_to_string(path.join("stat")).ok()?.rsplit_once(") ")?.1.chars().next()
    };
    all.filter_map(of).collect()
}

/// It says nothing that would have home look: neither when it was placed nor when it had come from
/// another node.
#[test]
fn one_that_does_nothing_is_seen_to_be_stopped() {
    let lab = shared();
    let tell = |words: &str| {
        let script = format!("pid=$(tern ps | awk '/sleep 1777/ {{ print $1 }}'); {words}");
        let done = lab.exec("n1", ["sh", "-c", &script]).unwrap();
        assert!(done.status.success(), "{words}: {}", done.errors());
    };
    let are = |wanted: &str| {
        let states = || states(b"sleep\x001777\0").to_uppercase();
        eventually(&format!("both are {wanted}"), || states() == wanted.repeat(2));
    };
    for first in ["true", "tern move $pid n3"] {
        let mut run = lab.spawn("n1", ["tern", "run", "--on", "n2", "--", "sleep", "1777"]).unwrap();
        are("S");
        tell(first);
        are("S");
        tell("kill -STOP $pid");
        are("T");
        tell("tern ps | grep 'sleep 1777' | grep -w T");
        tell("kill -KILL $pid");
        run.wait().unwrap();
    }
}

/// Children that are stopped as soon as they are there: their deputies had not done all that they
/// were told. (Before, one of six was "busy".)
#[test]
fn children_stopped_at_once_come_home() {
    let lab = shared();
    let text = at_home(
        &lab,
        r#"
        tern run --on n2 bash -c 'for n in $(seq 12); do sleep 1000 & echo $! >> kids; kill -STOP $!; done; echo > up; wait' &
        until_ '[ -s up ]'
        for kid in $(cat kids); do
            tern move $kid home 2>&1
            until_ "grep -q 'State:.T' /proc/$kid/status"
            kill -CONT $kid; until_ "grep -q 'State:.S' /proc/$kid/status"
            kill $kid
        done
        wait; echo done"#,
    )
    .text();
    assert_eq!(text, "done");
}
