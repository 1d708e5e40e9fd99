//! Signals to the process at home, as its body gets them.

use crate::{PYTHON, at_home, compiled, count, put, shared, wait_for};

/// Says who sent it which signal and how, three times.
const LISTENER: &str = r#"
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static void got(int signal, siginfo_t *info, void *context) {
    dprintf(1, "%d %d %d %d %d\n", signal, info->si_code, info->si_pid, info->si_uid, info->si_value.sival_int);
}
int main(void) {
    struct sigaction action = {.sa_sigaction = got, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &action, 0); sigaction(SIGTERM, &action, 0); sigaction(SIGINT, &action, 0); sigaction(SIGRTMIN + 1, &action, 0);
    dprintf(1, "ready\n");
    for (int i = 0; i < 4; i++) pause();
    return 7;
}
"#;

/// Handlers run in the body, and know exactly who sent the signal and what came with it.
#[test]
fn handlers_run_with_the_senders_own_words() {
    let lab = shared();
    let listener = put(&lab, "n1", "listener", &compiled("listener", LISTENER));
    let text = at_home(
        &lab,
        &format!(
            r#"
        : > said
        placed {listener} > said & pid=$!
        lines() {{ while [ $(wc -l < said) -lt $1 ]; do sleep 0.01; done; }}
        lines 1
        kill -USR1 $pid; lines 2
        kill -INT $pid; lines 3
        setpriv --reuid 0 sh -c "echo \$\$ > sender; kill -TERM $pid"; lines 4
        /usr/bin/env kill -q 4711 -35 $pid; lines 5
        wait $pid; echo $? $$ $(cat sender); cat said"#
        ),
    )
    .text();
    let lines: Vec<&str> = text.lines().collect();
    let ids: Vec<&str> = lines[0].split(' ').collect();
    let (status, shell, sender) = (ids[0], ids[1], ids[2]);
    assert_eq!(status, "7");
    assert_eq!(lines[1], "ready");
    assert!(lines[2].starts_with(&format!("10 0 {shell} 0 ")), "{text}");
    assert!(lines[3].starts_with(&format!("2 0 {shell} 0 ")), "{text}");
    assert!(lines[4].starts_with(&format!("15 0 {sender} 0 ")), "{text}");
    assert!(lines[5].starts_with("35 -1 ") && lines[5].ends_with(" 0 4711"), "{text}");
}

#[test]
fn ignored_signals_stay_ignored() {
    let text = at_home(
        &shared(),
        r#"
        trap '' HUP
        placed sh -c 'echo ready; exec sleep 1000' > said & pid=$!
        while ! grep -q ready said; do sleep 0.01; done
        kill -HUP $pid; kill -HUP $pid
        kill -TERM $pid; wait $pid; echo $?"#,
    )
    .text();
    assert_eq!(text, "143");
}

/// Whatever the body waits in, death of the process at home is the body's too.
#[test]
fn no_body_outlives_its_deputy() {
    let lab = shared();
    let waits = [
        ("reads a pipe", "import os; os.read(0, 1)"),
        ("polls", "import select; select.select([0], [], [])"),
        ("sleeps", "import time; time.sleep(1000)"),
        ("computes", "while True: pass"),
        (
            "has threads",
            "import threading, time, os\nfor _ in range(9): threading.Thread(target=os.read, args=(0, 1)).start()\ntime.sleep(1000)",
        ),
        ("writes to a full pipe", "import os\nwhile True: os.write(3, b'x' * 65536)"),
    ];
    for (what, program) in waits {
        for signal in ["HUP", "KILL"] {
            let text = at_home(
                &lab,
                &format!(
                    r#"
                mkfifo in full; exec 8<> in 9<> full
                ln -s {PYTHON} waiter; placed ./waiter -c "import sys; print('ready', flush=True)
{program}" < in 3> full > said & pid=$!
                while ! grep -q ready said; do sleep 0.01; done
                sleep 0.05
                kill -{signal} $pid; wait $pid; echo $?"#
                ),
            )
            .text();
            assert_eq!(text, if signal == "HUP" { "129" } else { "137" }, "{what}");
            wait_for(&format!("the body to end that {what}"), || count(&lab, "n2", "waiter") == 0);
        }
    }
}
