//! The owner of a node has the last word: guests are listed and sent home, whoever brought them,
//! and a node leaves.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use common::eventually;
use lab::{Lab, Output};
use serde_json::Value;

fn tern(lab: &Lab, node: &str, args: &[&str]) -> Output {
    lab.exec(node, [&["tern"], args].concat()).unwrap()
}

fn ok(lab: &Lab, node: &str, args: &[&str]) -> String {
    let output = tern(lab, node, args);
    assert!(output.status.success(), "tern {args:?} on {node}: {}", output.errors());
    output.text()
}

fn json(lab: &Lab, node: &str, args: &[&str]) -> Vec<Value> {
    let output = tern(lab, node, &[args, &["--json"]].concat());
    serde_json::from_slice::<Value>(&output.stdout).unwrap().as_array().unwrap().clone()
}

fn guests(lab: &Lab, node: &str) -> Vec<Value> {
    json(lab, node, &["guests"])
}

/// A program of n1's that counts, so that its life is seen wherever it is.
struct Program {
    child: Child,
    pid: i64,
    lines: BufReader<std::process::ChildStdout>,
}

const COUNTS: &str = "echo $$; n=0; while :; do n=$((n+1)); echo $n; sleep 0.1; done";

impl Program {
    fn start(lab: &Lab, prefix: &[&str]) -> Program {
        let mut command = lab.in_node("n1", [prefix, &["sh", "-c", COUNTS]].concat());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut pid = String::new();
        lines.read_line(&mut pid).unwrap();
        Program { child, pid: pid.trim().parse().unwrap(), lines }
    }

    /// Placed by name.
    fn placed(lab: &Lab) -> Program {
        Program::start(lab, &["tern", "run", "--on", "n2", "--"])
    }

    /// Started at home, and moved by hand.
    fn moved(lab: &Lab) -> Program {
        let program = Program::start(lab, &[]);
        ok(lab, "n1", &["move", &program.pid.to_string(), "n2"]);
        program
    }

    /// Goes on counting without a gap.
    fn counts(&mut self) {
        let mut line = || {
            let mut line = String::new();
            self.lines.read_line(&mut line).unwrap();
            line.trim().parse::<u64>().unwrap()
        };
        let first = line();
        (1..4).for_each(|further| assert_eq!(line(), first + further));
    }

    fn is_away(&self, lab: &Lab) -> bool {
        json(lab, "n1", &["ps"]).iter().any(|row| row["guest"]["pid"] == self.pid)
    }

    fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// PID here of the guest that is this at home.
fn here(lab: &Lab, node: &str, program: &Program) -> Option<String> {
    let found = guests(lab, node).into_iter().find(|g| g["home_pid"] == program.pid && g["home"] == "n1");
    found.map(|g| g["pid"].to_string())
}

#[test]
fn guests_are_listed_and_evicted_whoever_brought_them() {
    let lab = common::lab_of(&common::options(2));
    let (mut placed, mut moved) = (Program::placed(&lab), Program::moved(&lab));
    eventually("both are listed", || [&placed, &moved].iter().all(|p| here(&lab, "n2", p).is_some()));
    let listed = guests(&lab, "n2");
    let of_moved = listed.iter().find(|g| g["home_pid"] == moved.pid).unwrap();
    assert_eq!((of_moved["uid"].as_u64(), of_moved["threads"].as_u64()), (Some(0), Some(1)));
    assert_eq!(of_moved["leaving"], Value::Null);
    assert!(of_moved["rss_bytes"].as_u64() > Some(0) && of_moved["here_s"].as_u64() < Some(100), "{of_moved}");
    assert!(of_moved["command"].as_str().unwrap().contains("while"), "{of_moved}");
    assert!(guests(&lab, "n1").is_empty(), "a home's own processes are no guests");
    let shown = ok(&lab, "n2", &["ps"]);
    assert!(shown.contains("ITS PID") && shown.contains(&moved.pid.to_string()), "{shown}");

    let gone = ok(&lab, "n2", &["evict", &here(&lab, "n2", &moved).unwrap()]);
    assert!(gone.contains(&format!("{} of n1", moved.pid)) && gone.contains("has gone"), "{gone}");
    assert!(!moved.is_away(&lab) && placed.is_away(&lab));
    moved.counts();
    ok(&lab, "n2", &["evict", "n1"]);
    assert!(!placed.is_away(&lab) && !placed.has_ended());
    placed.counts();
    ok(&lab, "n2", &["evict", "all"]);
    for (whom, said) in [("1", "process 1 is no guest here"), ("n7", "no guest here is of home n7")] {
        let refused = tern(&lab, "n2", &["evict", whom]);
        assert!(!refused.status.success() && refused.errors().contains(said), "{}", refused.errors());
    }
    let as_user = ["setpriv", "--reuid=4711", "--regid=4711", "--clear-groups", "tern", "evict", "all"];
    assert!(lab.exec("n1", as_user).unwrap().errors().contains("tern evict is for root"));
}

#[test]
fn guests_off_sends_away_those_that_are_there() {
    let lab = common::lab_of(&common::options(2));
    let (mut placed, mut moved) = (Program::placed(&lab), Program::moved(&lab));
    ok(&lab, "n2", &["policy", "set", "guests=off"]);
    eventually("both are home", || guests(&lab, "n2").is_empty() && !placed.is_away(&lab) && !moved.is_away(&lab));
    placed.counts();
    moved.counts();
}

#[test]
fn a_node_leaves_when_its_guests_and_its_own_have_gone_home() {
    let lab = common::lab_of(&common::options(3));
    let (mut placed, mut moved) = (Program::placed(&lab), Program::moved(&lab));
    ok(&lab, "n2", &["leave"]);
    placed.counts();
    moved.counts();
    eventually("n2 is forgotten", || !ok(&lab, "n1", &["nodes"]).contains("n2"));
    ok(&lab, "n1", &["move", &moved.pid.to_string(), "n3"]);
    // And with processes of its own that are away.
    ok(&lab, "n1", &["leave"]);
    moved.counts();
}

#[test]
fn a_home_that_does_not_answer_keeps_nobody_from_leaving() {
    let lab = common::lab_of(&common::options(3));
    // As long as the room is not given up, its guest is there.
    ok(&lab, "n1", &["policy", "set", "link_timeout_ms=60000"]);
    let mut moved = Program::moved(&lab);
    eventually("it is listed", || here(&lab, "n2", &moved).is_some());
    lab.cut("n1", "n2").unwrap();
    let stays = tern(&lab, "n2", &["evict", "all"]);
    let text = stays.text();
    assert!(
        !stays.status.success() && text.contains(&moved.pid.to_string()) && text.contains("stays: its home"),
        "{text}"
    );
    let stays = tern(&lab, "n2", &["leave"]);
    let errors = stays.errors();
    assert!(errors.contains("cannot go home") && errors.contains("tern leave --force"), "{errors}");
    assert!(!moved.has_ended());
    ok(&lab, "n2", &["leave", "--force"]);
    lab.heal("n1", "n2").unwrap();
    eventually("its home learns that it has ended", || moved.has_ended());
}
