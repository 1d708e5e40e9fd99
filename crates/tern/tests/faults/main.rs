//! Faults at every step of a move (`os::fault`): afterwards exactly one body runs, wherever, and
//! what the program says is right; or, where the node that has it is lost, it is dead as if killed.
//! Only in builds with the feature `faults`, as `cargo xtask test` makes them.
#![cfg(feature = "faults")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod cases;
mod early;
mod edges;
mod exec;
mod filtered;
mod half;
mod killed;
mod last_words;
mod let_go;
mod opened;
mod queued;
mod sharing;
mod told;
mod unmade;
mod unseen;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cases::{Case, End, Kind};
use gossip::Draw;
use lab::{Lab, Options};

/// How long the ordinary run goes on, and how many faults it tries at least, however long they
/// take.
const SHORT: Duration = Duration::from_secs(75);
const SHORT_TRIES: usize = 40;
const SEED: u64 = 2026;

/// Checks its memory all the time, and says in lines how far it is; ends when it has been told
/// three times.
const PROGRAM: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static volatile int signals, shares, *common;
static int ends[2], pair[2], child;
static const struct timespec rest = {0, 1000000};
static void got(int signal) { signals++; }
/* A child that ends with its parent, and has its open files. */
static void bear(int signal) {
    char bytes[8] = {0};
    if (shares) {
        int parent = getpid();
        common = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (fork()) return;
        while (!common[0] && getppid() == parent) { common[1]++; nanosleep(&rest, 0); }
        common[2] = common[0] + 1;
        _exit(0);
    }
    pipe(ends);
    socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair);
    write(pair[0], "down", 4);
    if ((child = fork())) { close(ends[0]); close(pair[1]); return; }
    close(ends[1]); close(pair[0]);
    write(pair[1], "up", 2);
    read(ends[0], bytes, 1);
    _exit(read(pair[1], bytes, 8) == 4 && !strcmp(bytes, "down") ? 3 : 4);
}
/* Each gets what the other sent before the move; or the child was killed. */
static int family(void) {
    char bytes[8] = {0};
    int status, got = read(pair[0], bytes, 8);
    close(ends[1]);
    if (waitpid(child, &status, 0) != child) return 1;
    if (WIFSIGNALED(status)) return 7;
    if (got == 2 && !strcmp(bytes, "up") && WEXITSTATUS(status) == 3) return 7;
    printf("lost: %d %s %x\n", got, bytes, status);
    return 1;
}
/* The child sees what is written here, and the other way about; or it was killed. */
static int together(void) {
    int status = 0;
    common[0] = 41;
    for (int tries = 0; tries < 3000 && common[2] != 42; tries++) nanosleep(&rest, 0);
    if (common[2] == 42 && common[1] > 0) return 7;
    if (waitpid(-1, &status, WNOHANG) > 0 && WIFSIGNALED(status)) return 8;
    puts("apart");
    return 1;
}
int main(int count, char **words) {
    enum { SIZE = 1 << 18 };
    /* What is the same when it comes back. */
    unsigned stills = count > 1 && strstr(words[1], "again") ? 1 << 18 : 1;
    shares = count > 1 && (!strcmp(words[1], "together") || !strcmp(words[1], "groupout"));
    unsigned char *memory = malloc(SIZE);
    unsigned *still = malloc(stills * sizeof *still);
    signal(SIGUSR1, got);
    signal(SIGUSR2, bear);
    for (int i = 0; i < SIZE; i++) memory[i] = i * 7;
    for (unsigned i = 0; i < stills; i++) still[i] = i * 2654435761u;
    for (int round = 0; signals < 3; round++) {
        for (int i = 0; i < SIZE; i++)
            if (memory[i]++ != (unsigned char)(i * 7 + round)) { puts("corrupt"); return 1; }
        for (unsigned i = 0; i < stills; i++)
            if (still[i] != i * 2654435761u) { puts("another"); return 1; }
        nanosleep(&rest, 0);
        printf("%d\n", round); fflush(stdout);
    }
    return common ? together() : child ? family() : 7;
}
"#;

/// `$1` the program, `$2` the way, `$3` a directory in which the fault `$4` is set, and told
/// ([`relay`]). What is said: whether the fault came, how the move ended, and how the program.
const SCRIPT: &str = r#"
cd $(mktemp -d)
grown() {
    from=$(wc -l < said); tries=0
    while [ $(wc -l < said) -lt $((from + 5)) ] && kill -0 $pid 2> /dev/null; do
        sleep 0.01; tries=$((tries + 1))
        if [ $tries -gt 1500 ]; then echo "stands still: $(grep State /proc/$pid/status)"; kill -KILL $pid; fi
    done
}
: > said
$1 $2 > said 2> errors < /dev/null & pid=$!
grown
rate='--rate 150M'
case $2 in
again) tern move $pid n2 $rate && tern move $pid home $rate || echo 'not back';;
homeagain) tern move $pid n2 $rate || echo 'not away';;
onagain) tern move $pid n2 && tern move $pid n3 $rate && tern move $pid n2 $rate || echo 'not away';;
home*|on*|around|family|together) tern move $pid n2 || echo 'not away';;
esac
if [ $2 = family ] || [ $2 = together ] || [ $2 = groupout ]; then
    kill -USR2 $pid; tries=0
    until pgrep -P $pid > /dev/null || [ $tries -gt 500 ]; do sleep 0.01; tries=$((tries + 1)); done
fi
echo "$4" > $3/fault; tries=0
until [ -e $3/set ] || [ $tries -gt 500 ]; do sleep 0.01; tries=$((tries + 1)); done
case $2 in out|groupout) to=n2;; pre) to='n2 --how pre';; again) to="n2 --how pre $rate";; on) to=n3;; onagain) to="n3 --how pre $rate";; onpre) to='n3 --how pre';; onpost) to='n3 --how post';; around) to='n3 --by-home';; homepre) to='home --how pre';; homeagain) to="home --how pre $rate";; home|family|together) to=home;; esac
timeout -s KILL 40 tern move $pid $to > moved 2>&1 & mover=$!
tries=0
while kill -0 $mover 2> /dev/null && [ $tries -lt 600 ]; do
    sleep 0.01; tries=$((tries + 1))
    # A hang lasts longer than anybody waits for it.
    if [ -e $3/done ] && [ $tries -gt 120 ]; then touch $3/over; fi
done
wait $mover; echo "move $?"
touch $3/over
tries=0
until [ -e $3/done ] || [ $tries -gt 200 ]; do sleep 0.01; tries=$((tries + 1)); done
if [ -e $3/done ]; then echo reached; fi
grown; kill -USR1 $pid 2> /dev/null; grown; kill -USR1 $pid 2> /dev/null
if kill -0 $pid 2> /dev/null; then
    # Nothing is left over that stands in the way of other moves.
    # Of those that share memory any brings the others.
    node=n2; then=$pid; if [ $2 = together ] || [ $2 = groupout ]; then then=$(pgrep -P $pid); fi
    tries=0
    until tern move $pid $node > again 2>&1 || grep -q "runs on $node already" again || [ $tries -gt 160 ]; do sleep 0.25; tries=$((tries + 1)); done
    tern move $then home > then 2>&1 || grep -q 'runs on n1 already' then || { echo 'no further move:'; cat again then; }
    kill -USR1 $pid; grown
fi
wait $pid; echo "end $?"
awk '{ if ($1 != NR - 1) { print "line", NR, $0; exit } }' said
cat moved >&2
"#;

fn program(lab: &Lab) -> String {
    let place = |ending: &str| PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("faulty{ending}"));
    let (from, to) = (place(".c"), place(""));
    std::fs::write(&from, PROGRAM).unwrap();
    assert!(Command::new("cc").args(["-O1", "-o"]).args([&to, &from]).status().unwrap().success());
    let there = lab.root("n1").unwrap().join("tmp/faulty");
    std::fs::copy(&to, &there).unwrap();
    std::fs::set_permissions(there, std::fs::Permissions::from_mode(0o755)).unwrap();
    "/tmp/faulty".into()
}

/// Sets the fault on its node, says that it came, and ends its hang, as files in `shared` want:
/// other nodes have no files in common with this one.
fn relay(lab: &Lab, node: &str, shared: &Path, ended: &AtomicBool) {
    let there = lab.root(node).unwrap().join("run/tern");
    let (fault, done, over) = (there.join("fault"), there.join("fault.done"), there.join("fault.over"));
    // Of a room's threads some are not the superuser there.
    std::fs::set_permissions(&there, std::fs::Permissions::from_mode(0o777)).unwrap();
    let patience = lab.root("n1").unwrap().join("run/tern/fault.patience");
    [&fault, &done, &over].into_iter().for_each(|file| drop(std::fs::remove_file(file)));
    std::fs::write(&patience, "1").unwrap();
    while !ended.load(Ordering::Relaxed) {
        if let Ok(text) = std::fs::read_to_string(shared.join("fault"))
            && text.ends_with('\n')
        {
            std::fs::write(&fault, text).unwrap();
            std::fs::rename(shared.join("fault"), shared.join("set")).unwrap();
        }
        if done.exists() {
            std::fs::write(shared.join("done"), "").unwrap();
        }
        if shared.join("over").exists() {
            std::fs::write(&over, "").unwrap();
            drop(std::fs::remove_file(&fault));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    drop(std::fs::remove_file(patience));
}

/// What is wrong after this fault, if anything.
fn complaint(lab: &Lab, program: &str, case: &Case) -> Option<String> {
    let node = case.node();
    let shared = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let fault = format!("{}:{}", case.phase.name, case.kind.name());
    let words = ["bash", "-c", SCRIPT, "bash", program, case.way.name(), shared.path().to_str().unwrap(), &fault];
    let ended = AtomicBool::new(false);
    let output = std::thread::scope(|scope| {
        scope.spawn(|| relay(lab, node, shared.path(), &ended));
        let output = lab.exec("n1", ["timeout", "-s", "KILL", "100"].iter().chain(&words)).unwrap();
        ended.store(true, Ordering::Relaxed);
        output
    });
    let said = output.text();
    let lines: Vec<&str> = said.lines().collect();
    let ends = match case.end() {
        End::Goes => vec!["end 7"],
        End::MayDie => vec!["end 7", "end 137"],
        End::MayTrap => vec!["end 7", "end 8", "end 133", "end 137", "end 139"],
    };
    let right = lines.len() == 3 && lines[0].starts_with("move ") && lines[1] == "reached" && ends.contains(&lines[2]);
    let left = if right { left_behind(lab) } else { None };
    (!right || left.is_some())
        .then(|| format!("{case:?}: {lines:?} {left:?}; {}", output.errors().lines().next().unwrap_or_default()))
}

/// A body of the program that is still on another node.
fn left_behind(lab: &Lab) -> Option<String> {
    let begun = Instant::now();
    loop {
        let is_it =
            |pid: &i32| std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == "faulty");
        let found = ["n1", "n2", "n3"].into_iter().find(|node| lab.processes(node).unwrap().iter().any(is_it))?;
        if begun.elapsed() > Duration::from_secs(10) {
            return Some(format!("a body is left on {found}"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn run(time: Option<Duration>) {
    let number = |name: &str| std::env::var(name).ok().and_then(|s| s.parse::<u64>().ok());
    let seed = number("TERN_SEED").unwrap_or(SEED);
    let only = std::env::var("TERN_FAULT").unwrap_or_default();
    let mut draw = Draw::new(seed);
    let mut cases = cases::all();
    for n in (1..cases.len()).rev() {
        cases.swap(n, draw.below(n + 1));
    }
    cases.retain(|case| format!("{case:?}").contains(&only));
    let lab = Lab::up(env!("CARGO_BIN_EXE_tern"), &Options::new(Lab::fresh_name("faults").unwrap(), 3)).unwrap();
    let program = program(&lab);
    let (since, mut complaints, mut tried) = (Instant::now(), Vec::new(), 0);
    for case in &cases {
        // Those that hang take their time: a few in the short run.
        if time.is_some_and(|time| {
            since.elapsed() > time && tried >= SHORT_TRIES || (case.kind == Kind::Hang && !draw.one_in(6))
        }) {
            continue;
        }
        tried += 1;
        let begun = Instant::now();
        let found = complaint(&lab, &program, case);
        if std::env::var_os("TERN_FAULT").is_some() {
            eprintln!("{case:?}: {} ms", begun.elapsed().as_millis());
        }
        found.iter().for_each(|complaint| eprintln!("{complaint}"));
        complaints.extend(found);
    }
    eprintln!("seed {seed}: {tried} of {} faults in {:?}", cases.len(), since.elapsed());
    assert!(!only.is_empty() || tried >= SHORT_TRIES.min(cases.len()), "only {tried} faults were tried");
    assert!(complaints.is_empty(), "{} of {tried}\n{}", complaints.len(), complaints.join("\n"));
}

#[test]
fn one_body_runs_after_faults() {
    run(Some(SHORT));
}

#[test]
#[ignore = "ten minutes"]
fn one_body_runs_after_every_fault() {
    run(None);
}

/// A child ends while its parent, which blocks SIGCHLD and does not handle it, is put together at
/// home.
const ORPHAN_SIGNAL: &str = r#"
cd $(mktemp -d); faults=/run/tern/fault; rm -f $faults.*
until_() { tries=0; until eval "$1" || [ $tries -gt 1000 ]; do sleep 0.01; tries=$((tries + 1)); done; }
python3 -c "
import os, signal, time
def until(name):
    while not os.path.exists(name): time.sleep(0.01)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
child = os.fork()
if child == 0:
    until('go'); os._exit(3)
open('up', 'w').close(); until('take')
info = signal.sigtimedwait([signal.SIGCHLD], 5)
print('told' if info and info.si_pid == child else 'not told')" > said & pid=$!
until_ '[ -e up ]'; child=$(cat /proc/$pid/task/$pid/children)
tern move $pid n2 && echo away
echo dismissed:hang > $faults; tern move $pid home & mover=$!
until_ '[ -e $faults.done ]'; touch go; until_ 'grep -q "State:.Z" /proc/${child% }/status'
touch $faults.over; wait $mover && echo home
touch take; wait $pid; cat said; rm -f $faults.*
"#;

#[test]
fn a_child_that_ends_meanwhile_is_told() {
    let lab = Lab::up(env!("CARGO_BIN_EXE_tern"), &Options::new(Lab::fresh_name("faults").unwrap(), 2)).unwrap();
    let output = lab.exec("n1", ["timeout", "-s", "KILL", "60", "bash", "-c", ORPHAN_SIGNAL]).unwrap();
    assert_eq!(output.text(), "away\nhome\ntold", "{}", output.errors());
}
