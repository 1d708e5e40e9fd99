//! Semaphores and shared memory by name (sem_open, shm_open) between processes in several places:
//! they meet in the same objects, and whoever has them away comes home when somebody elsewhere
//! opens them.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command};

use lab::Lab;

use crate::{Running, lab};

/// A program that meets another one by names.
const MEET: &str = "/tmp/meet";

fn build(lab: &Lab) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/placing/meet.c");
    let program = lab.root("n1").unwrap().join(MEET.trim_start_matches('/'));
    let built = Command::new("gcc").args(["-O1", "-pthread", "-o"]).args([&program, &source]).status().unwrap();
    assert!(built.success());
}

/// One that has opened the names.
struct Met {
    child: Child,
    out: BufReader<ChildStdout>,
}

/// Starts it at home or on a node.
fn start(lab: &Lab, place: &str, arguments: &[&str]) -> Met {
    let run = ["timeout", "-s", "KILL", "100", "tern", "run", "--on", place, "--", MEET];
    let mut child = lab.spawn("n1", [&run[..], arguments].concat()).unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "there\n", "on {place}");
    Met { child, out }
}

/// What it printed at its end, and what was said of it.
fn end(mut met: Met) -> (String, String) {
    let mut rest = String::new();
    met.out.read_to_string(&mut rest).unwrap();
    let errors = met.child.wait_with_output().unwrap().stderr;
    (rest, String::from_utf8_lossy(&errors).into_owned())
}

/// Two meet: who has to come home for that.
fn meet(lab: &Lab, arguments: &[&str], places: [&str; 2]) -> [bool; 2] {
    let first = start(lab, places[0], arguments);
    let second = start(lab, places[1], arguments);
    [first, second].map(end).map(|(rest, errors)| {
        assert_eq!(rest, "400\n", "{places:?}: {errors}");
        let came = errors.contains("came home");
        let names = errors.contains("/dev/shm/") || errors.contains("/tmp/");
        assert!(!came || names, "it does not say for what: {errors}");
        came
    })
}

#[test]
fn processes_meet_by_names_wherever_they_are() {
    let lab = lab(3);
    build(&lab);
    assert_eq!(meet(&lab, &["one_room"], ["n2", "n2"]), [false, false]);
    assert_eq!(meet(&lab, &["from_home"], ["n2", "home"]), [true, false]);
    assert_eq!(meet(&lab, &["at_home"], ["home", "n2"]), [false, true]);
    assert_eq!(meet(&lab, &["two_rooms"], ["n2", "n3"]), [true, true]);
}

/// The same in a regular file.
#[test]
fn processes_meet_in_a_file_wherever_they_are() {
    let lab = lab(3);
    build(&lab);
    assert_eq!(meet(&lab, &["one", "/tmp/one_room"], ["n2", "n2"]), [false, false]);
    assert_eq!(meet(&lab, &["from", "/tmp/from_home"], ["n2", "home"]), [true, false]);
    assert_eq!(meet(&lab, &["at", "/tmp/at_home"], ["home", "n2"]), [false, true]);
    assert_eq!(meet(&lab, &["two", "/tmp/two_rooms"], ["n2", "n3"]), [true, true]);
}

/// What one that was alone has stored is there when it has ended.
#[test]
fn what_is_stored_in_shared_memory_stays() {
    let lab = lab(2);
    let script = "import mmap, os; f = os.open('/dev/shm/kept', os.O_RDWR | os.O_CREAT, 0o600); os.ftruncate(f, 8192); \
                  m = mmap.mmap(f, 8192); m[5000:5005] = b'value'; print('x', flush=True)";
    let run = ["timeout", "60", "tern", "run", "--strict", "--on", "n2", "--", "python3", "-c", script];
    let placed = lab.exec("n1", run).unwrap();
    assert_eq!((placed.text().as_str(), placed.errors().as_str()), ("x", ""));
    let read = lab.exec("n1", ["sh", "-c", "tail -c +5001 /dev/shm/kept | head -c 5; ls /dev/shm"]).unwrap();
    assert_eq!(read.text(), "valuekept");
    let there = lab
        .exec("n1", ["tern", "run", "--on", "n2", "--", "sh", "-c", "cat /dev/shm/kept | tail -c +5001 | head -c 5"]);
    assert_eq!(there.unwrap().text(), "value");
}

/// One that has a file open, but not mapped any more, stays where it is when somebody at home opens
/// it.
#[test]
fn what_is_not_mapped_any_more_brings_nobody_home() {
    let lab = lab(2);
    let script = "import mmap, os, sys; f = os.open('/dev/shm/left', os.O_RDWR | os.O_CREAT, 0o600); os.ftruncate(f, 8192); \
                  m = mmap.mmap(f, 8192); m[5000:5005] = b'value'; m.close(); print('x', flush=True); sys.stdin.read()";
    let mut running = Running::start(&lab, "n2", &["python3", "-c", script]);
    assert_eq!(running.line(), "x");
    let read = lab.exec("n1", ["sh", "-c", "tail -c +5001 /dev/shm/left | head -c 5"]).unwrap();
    assert_eq!(read.text(), "value");
    drop(running.child.stdin.take());
    let (status, _, errors) = running.end();
    assert!(status.success() && errors.is_empty(), "{status} {errors}");
}
