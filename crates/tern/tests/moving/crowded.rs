//! A move beside many processes with many descriptors, of which none has to do with it.

use crate::common;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Makes processes with many descriptors each, says so, and ends them when it is told to.
const CROWD: &str = "
import os, signal, sys
for _ in range(680): os.open('/proc/self/exe', os.O_RDONLY)
children = []
for _ in range(150):
    child = os.fork()
    if child == 0: signal.pause()
    children.append(child)
print('ready', flush=True)
sys.stdin.read()
for child in children: os.kill(child, 9)
";

/// Moves a process that has a pipe to itself to n2, and home again; how long the quickest of three
/// ways there took, and the process.
const MOVES: &str = r#"
cd /tmp
python3 -c "
import os, time
ends = os.pipe()
while True: time.sleep(0.01)" < /dev/null > /dev/null 2>&1 & pid=$!
until [ -e /proc/$pid/fd/4 ]; do sleep 0.01; done
quickest() {
    least=999999999999
    for n in 1 2 3; do
        from=$(date +%s%N); tern move $pid n2 > said || { cat said; exit 1; }
        took=$(($(date +%s%N) - from)); tern move $pid home > said || { cat said; exit 1; }
        if [ $took -lt $least ]; then least=$took; fi
    done
    echo $least
}
quickest; read -r; quickest
kill $pid
"#;

/// How long a look at all descriptors of the node takes by /proc; every move took longer than that
/// before.
fn look(lab: &lab::Lab) -> Duration {
    let begun = Instant::now();
    let mut seen = 0;
    for process in lab.processes("n1").unwrap() {
        let Ok(all) = std::fs::read_dir(format!("/proc/{process}/fd")) else { continue };
        seen += all.flatten().filter(|entry| std::fs::metadata(entry.path()).is_ok()).count();
    }
    assert!(seen > 100_000, "{seen} descriptors");
    begun.elapsed()
}

#[test]
fn the_machines_descriptors_are_not_looked_through() {
    let lab = common::lab_of(&common::options(2));
    let piped = |argv: &[&str]| lab.in_node("n1", argv).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut moves = piped(&["timeout", "-s", "KILL", "120", "bash", "-c", MOVES]);
    let mut told = BufReader::new(moves.stdout.take().unwrap()).lines();
    let mut took = || {
        let line = told.next().unwrap().unwrap();
        Duration::from_nanos(line.parse().unwrap_or_else(|_| panic!("{line}")))
    };
    let alone = took();
    let mut crowd = piped(&["timeout", "-s", "KILL", "120", "python3", "-c", CROWD]);
    let mut ready = BufReader::new(crowd.stdout.take().unwrap()).lines();
    assert_eq!(ready.next().unwrap().unwrap(), "ready");
    let before = look(&lab);
    writeln!(moves.stdin.as_mut().unwrap()).unwrap();
    let crowded = took();
    let looking = before.min(look(&lab));
    println!("alone {alone:?}, in the crowd {crowded:?}, a look at all descriptors {looking:?}");
    drop(crowd.stdin.take());
    crowd.wait().unwrap();
    moves.wait().unwrap();
    assert!(crowded < alone + looking, "{crowded:?} in the crowd, {alone:?} alone; a look takes {looking:?}");
}
