//! From node to node: straight there, home's deputy being neither filled nor woken; by way of home
//! where that cannot be.

use std::time::{Duration, Instant};

use crate::{at_home, common, program, shared};
use lab::Lab;

/// `on PID NODE` moves, and prints where the process went, and whether by way of home.
const TOOLS: &str = r#"
on() { tern move --how stop --json $1 $2 | python3 -c '
import json, sys
legs = json.load(sys.stdin)
print(*(leg["to"] for leg in legs), legs[0]["detour"] or "")'; }
"#;

/// Says in lines how far it is, and counts what it is sent: signals that are not merged. Ends when
/// it has got as many as its argument or the file `sent` says.
const COUNTER: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
static volatile int signals;
static void got(int signal) { signals++; }
static int wanted(const char *word) {
    int number = atoi(word);
    FILE *sent = number ? 0 : fopen("sent", "r");
    if (sent && fscanf(sent, "%d", &number) != 1) number = 0;
    if (sent) fclose(sent);
    return number ? number : 1 << 30;
}
int main(int count, char **words) {
    enum { SIZE = 1 << 20 };
    unsigned char *memory = malloc(SIZE);
    struct sigaction action = {.sa_handler = got, .sa_flags = SA_RESTART};
    sigaction(SIGRTMIN + 1, &action, 0);
    for (int i = 0; i < SIZE; i++) memory[i] = i * 7;
    for (int round = 0; signals < wanted(words[1]); round++) {
        for (int i = 0; i < SIZE; i++)
            if (memory[i]++ != (unsigned char)(i * 7 + round)) { puts("corrupt"); return 1; }
        struct timespec rest = {0, 1000000};
        nanosleep(&rest, 0);
        printf("%d\n", round); fflush(stdout);
    }
    return 7;
}
"#;

fn bodies(lab: &Lab, node: &str, name: &str) -> usize {
    let is_it = |pid: &i32| std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == name);
    lab.processes(node).unwrap().iter().filter(|pid| is_it(pid)).count()
}

#[test]
fn straight_there_and_home_sleeps() {
    let lab = shared();
    let counter = program(&lab, "onward", COUNTER, &[]);
    let text = at_home(
        &lab,
        &format!(
            r#"{TOOLS}
        {counter} 1 > said 2>&1 < /dev/null & pid=$!
        lines said 2; tern move $pid n2; lines said $(($(wc -l < said) + 3))
        woken() {{ cat /proc/$pid/status | grep -e ctxt -e VmRSS; }}
        woken > before
        on $pid n3; lines said $(($(wc -l < said) + 3)); on $pid n2; lines said $(($(wc -l < said) + 3)); on $pid n3
        woken > after; diff before after && echo slept
        tern ps | awk -v pid=$pid '$1 == pid {{ print "away on", $3 }}'
        kill -$(($(kill -l RTMIN) + 1)) $pid; wait $pid; echo $?
        awk '{{ if ($1 != NR - 1) {{ print "line", NR, $0; exit }} }}' said"#
        ),
    )
    .text();
    assert_eq!(text, "n3 \nn2 \nn3 \nslept\naway on n3\n7");
}

/// No signal is lost or comes twice, whoever has the deputy.
#[test]
fn signals_meanwhile() {
    let lab = shared();
    let counter = program(&lab, "onward", COUNTER, &[]);
    let text = at_home(
        &lab,
        &format!(
            r#"{TOOLS}
        {counter} 0 > said 2>&1 < /dev/null & pid=$!
        lines said 2; tern move $pid n2
        python3 -c "
import os, signal, time
sent = 0
while not os.path.exists('moved'): os.kill($pid, signal.SIGRTMIN + 1); sent += 1; time.sleep(0.0003)
open('sent.new', 'w').write(str(sent)); os.rename('sent.new', 'sent')" & sender=$!
        for round in 1 2 3 4 5 6; do for node in n3 n2; do on $pid $node; done; done | sort | uniq -c
        touch moved; wait $sender; wait $pid; echo $?"#
        ),
    )
    .text();
    let words: Vec<&str> = text.split_whitespace().collect();
    assert_eq!(words, ["6", "n2", "6", "n3", "7"]);
}

/// What it got in the first room, under other numbers than at home, is its own in the second; what
/// it has in common with its child, too.
#[test]
fn connections_and_children() {
    let lab = shared();
    let text = at_home(
        &lab,
        &format!(
            r#"{TOOLS}
        cat > server.py <<'END'
import os, socket, time
def until(name):
    while not os.path.exists(name): time.sleep(0.01)
until('go')
server = socket.socket(socket.AF_UNIX); server.bind('socket'); server.listen()
spare = [os.dup(2) for _ in range(3)]
one, _ = server.accept(); [os.close(fd) for fd in spare]
two, _ = server.accept()
read, write = os.pipe()
if os.fork() == 0:
    one.close(); os.close(read); until('moved'); os.write(write, b'child'); two.sendall(b'from the child'); os._exit(0)
os.close(write); two.close()
print('ready', flush=True)
while True:
    data = one.recv(100)
    if not data: break
    one.sendall(data.upper())
print(os.read(read, 100).decode(), os.read(read, 100), os.wait()[1], flush=True)
END
        python3 server.py > said 2>&1 < /dev/null & pid=$!
        tern move $pid n2; touch go
        python3 -c "
import os, socket, time
def until(name):
    while not os.path.exists(name): time.sleep(0.01)
until('socket')
one = socket.socket(socket.AF_UNIX)
while one.connect_ex('socket'): time.sleep(0.01)
two = socket.socket(socket.AF_UNIX); two.connect('socket')
one.sendall(b'first'); print(one.recv(100), flush=True); open('talked', 'w').close()
until('moved'); one.sendall(b'second'); print(one.recv(100), two.recv(100), two.recv(100), flush=True)" & client=$!
        until_ '[ -e talked ]'; lines said 1
        on $pid n3; on $pid n2; on $pid n3; touch moved; wait $client; wait $pid; echo $?; cat said"#
        ),
    )
    .text();
    assert_eq!(text, "b'FIRST'\nn3 \nn2 \nn3 \nb'SECOND' b'from the child' b''\n0\nready\nchild b'' 0");
}

/// Nodes that do not reach each other: by way of home, and that is said.
#[test]
fn a_way_round() {
    let lab = common::lab_of(&common::options(3));
    let counter = program(&lab, "onward", COUNTER, &[]);
    lab.cut("n2", "n3").unwrap();
    let text = at_home(
        &lab,
        &format!(
            r#"{TOOLS}
        {counter} 1 > said 2>&1 < /dev/null & pid=$!
        lines said 2; tern move $pid n2; lines said $(($(wc -l < said) + 3))
        on $pid n3 | cut -d: -f1,2; tern ps | awk -v pid=$pid '$1 == pid {{ print "away on", $3 }}'
        tern log -n 50 | grep -c 'through home'
        kill -$(($(kill -l RTMIN) + 1)) $pid; wait $pid; echo $?
        awk '{{ if ($1 != NR - 1) {{ print "line", NR, $0; exit }} }}' said"#
        ),
    )
    .text();
    assert!(text.starts_with("home n3 the room: reaching n3 at"), "{text}");
    assert!(text.ends_with("away on n3\n1\n7"), "{text}");
}

/// The room that it has left has nothing of it any more, here or there: its end is none of the
/// process'.
#[test]
fn the_room_that_it_left_may_end() {
    let lab = common::lab_of(&common::options(3));
    let counter = program(&lab, "onward", COUNTER, &[]);
    std::thread::scope(|scope| {
        let ran = scope.spawn(|| {
            at_home(
                &lab,
                &format!(
                    r#"{TOOLS}
                {counter} 1 > said 2>&1 < /dev/null & pid=$!
                lines said 2; tern move $pid n2; lines said $(($(wc -l < said) + 3)); on $pid n3
                touch /tmp/moved; until_ '[ -e /tmp/ended ]'
                lines said $(($(wc -l < said) + 3))
                kill -$(($(kill -l RTMIN) + 1)) $pid; wait $pid; echo $?"#
                ),
            )
            .text()
        });
        let home = lab.root("n1").unwrap().join("tmp");
        let wait = |what: &str, is_so: &dyn Fn() -> bool| {
            let begun = Instant::now();
            while !is_so() {
                assert!(begun.elapsed() < Duration::from_secs(30), "in vain: {what}");
                std::thread::sleep(Duration::from_millis(10));
            }
        };
        wait("moved", &|| home.join("moved").exists());
        wait("nothing left", &|| bodies(&lab, "n2", "onward") == 0);
        assert_eq!(bodies(&lab, "n3", "onward"), 1);
        let role = |node: &str, role: &str| -> Vec<i32> {
            let is_it = |pid: &i32| {
                std::fs::read(format!("/proc/{pid}/cmdline"))
                    .is_ok_and(|words| words.split(|b| *b == 0).any(|word| word == role.as_bytes()))
            };
            lab.processes(node).unwrap().into_iter().filter(is_it).collect()
        };
        let stewards = role("n1", "__steward").len();
        let wardens = role("n2", "__warden");
        assert!(!wardens.is_empty());
        for pid in wardens {
            // SAFETY: a process of this test's own lab.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        // Steward and heir of that room.
        wait("the steward's end", &|| role("n1", "__steward").len() + 2 <= stewards);
        std::fs::write(home.join("ended"), "").unwrap();
        assert_eq!(ran.join().unwrap(), "n3 \n7");
    });
}
