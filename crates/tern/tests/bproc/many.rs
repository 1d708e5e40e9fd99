//! Many processes: a copy on every node, which forks, as the test program of BProc's paper does.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout};

use lab::Lab;

use crate::libtern::installed;
use crate::{at_home, lab};

/// A job of the example `many` that runs, and what it prints.
pub struct Job {
    pub child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
    pub pid: String,
}

impl Job {
    /// Starts it in a process group of its own, and waits until all are there.
    fn begin(lab: &Lab, nodes: &str, count: u32) -> Job {
        Job::begin_with(lab, nodes, &[&count.to_string()])
    }

    /// The same, with all words behind the nodes.
    pub fn begin_with(lab: &Lab, nodes: &str, words: &[&str]) -> Job {
        let program = installed().join("many");
        let argv = ["setsid", "sh", "-c", "echo $$; exec \"$0\" \"$@\"", program.to_str().unwrap(), nodes];
        let mut child = lab.spawn("n1", [&argv[..], words].concat()).unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let pid = lines.next().unwrap().unwrap();
        Job { child, lines, pid }
    }

    pub fn line(&mut self) -> String {
        self.lines.next().unwrap().unwrap()
    }

    /// Checks the last line, and that nothing is left.
    pub fn ends(mut self, lab: &Lab, nodes: u32) {
        let line = self.line();
        assert!(line.starts_with(&format!("{nodes} nodes reaped all of theirs")), "{line}");
        assert!(self.child.wait().unwrap().success());
        nothing_is_left(lab, 1..=nodes + 1);
    }
}

/// The PIDs that `tern ps` lists.
pub fn listed(lab: &Lab) -> usize {
    at_home(lab, &["tern", "ps", "--json"]).text().matches("\"pid\"").count()
}

pub fn nothing_is_left(lab: &Lab, nodes: impl IntoIterator<Item = u32>) {
    crate::common::eventually("no process is away", || listed(lab) == 0);
    let comm = |pid: i32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    for node in nodes.into_iter().map(|node| format!("n{node}")) {
        let running = || lab.processes(&node).unwrap().into_iter().filter(|pid| comm(*pid) == "many\n").count();
        crate::common::eventually("no body and no deputy is left", || running() == 0);
    }
}

/// All of `count` on each node are listed at home, and end in each of the ways that home has.
fn all_are_homes(nodes: u32, count: u32) {
    let lab = lab(nodes + 1);
    let (all, all_nodes) = (nodes * count, format!("n[2-{}]", nodes + 1));
    let run = |script: &str| at_home(&lab, &["bash", "-c", script]);
    for signal in ["kill -INT -- -PID", "kill -TERM -- -PID", "tern kill --on NODES -s TERM && kill -TERM PID"] {
        let mut job = Job::begin(&lab, &all_nodes, count);
        let line = job.line();
        assert!(line.starts_with(&format!("{all} processes after")), "{line}");
        assert_eq!(listed(&lab), all as usize);
        // The kernel's own list at home: all of them, and the one that has not left.
        assert_eq!(run("ps -e -o comm= | grep -c -x many").text(), (all + 1).to_string());
        let done = run(&signal.replace("PID", &job.pid).replace("NODES", &all_nodes));
        assert!(done.status.success(), "{signal}: {}", done.errors());
        job.ends(&lab, nodes);
    }
    let mut job = Job::begin(&lab, &all_nodes, count);
    job.line();
    assert!(run("killall -KILL many").status.success());
    job.child.wait().unwrap();
    nothing_is_left(&lab, 1..=nodes + 1);
}

#[test]
fn hundreds_on_eight_nodes_are_listed_signalled_and_reaped() {
    all_are_homes(8, 100);
}

#[test]
#[ignore = "fifteen thousand processes take minutes, and 8 GB of memory: --full"]
fn fifteen_thousand_on_a_hundred_nodes_are_listed_signalled_and_reaped() {
    all_are_homes(100, 150);
}

/// A node that dies while all begin costs its own processes alone, and its rank has the error.
#[test]
fn a_node_that_dies_meanwhile_is_named() {
    let lab = lab(6);
    lab.cut("n1", "n4").unwrap();
    let mut job = Job::begin(&lab, "n[2-6]", 20);
    lab.kill_node("n4").unwrap();
    let named = job.line();
    assert!(named.starts_with("n4: "), "{named}");
    let line = job.line();
    assert!(line.starts_with("80 processes after"), "{line}");
    assert_eq!(at_home(&lab, &["tern", "kill", "--on", "n4"]).status.code(), Some(1));
    let done = at_home(&lab, &["bash", "-c", &format!("kill -TERM -- -{}", job.pid)]);
    assert!(done.status.success(), "{}", done.errors());
    let line = job.line();
    assert!(line.starts_with("4 nodes reaped all of theirs"), "{line}");
    job.child.wait().unwrap();
    crate::common::eventually("no process is away", || listed(&lab) == 0);
}

#[test]
fn a_signal_goes_to_those_that_are_named() {
    let lab = lab(3);
    let mut job = Job::begin(&lab, "n[2-3]", 10);
    job.line();
    let kill = |words: &[&str]| at_home(&lab, &[&["tern", "kill"], words].concat());
    let none = kill(&["1"]);
    assert_eq!(none.status.code(), Some(1));
    assert!(none.errors().contains("process 1 is not away"), "{}", none.errors());
    assert!(!kill(&["-s", "NONE", "--on", "n2"]).status.success());
    assert_eq!(kill(&["--user", "65534"]).status.code(), Some(1));
    // The copies of one node, which its first process reaps: all of theirs got the signal.
    let sent = kill(&["--on", "n3", "--user", "root", "-s", "SIGTERM", "--json"]);
    assert!(sent.status.success(), "{}", sent.errors());
    let sent: serde_json::Value = serde_json::from_str(&sent.text()).unwrap();
    assert_eq!(sent["signalled"].as_array().unwrap().len(), 10);
    crate::common::eventually("those of n3 have ended", || listed(&lab) == 10);
    let done = at_home(&lab, &["sh", "-c", &format!("tern kill --on all && kill -TERM {}", job.pid)]);
    assert!(done.status.success(), "{}", done.errors());
    job.ends(&lab, 2);
}
