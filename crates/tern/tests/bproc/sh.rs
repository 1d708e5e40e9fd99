//! `tern sh`: one command on many nodes.

use lab::Lab;

use crate::{at_home, lab};

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

fn sh(lab: &Lab, words: &[&str]) -> lab::Output {
    at_home(lab, &[&["tern", "sh"], words].concat())
}

#[test]
fn every_node_of_sixteen_says_its_name() {
    let lab = lab(16);
    let all: Vec<String> = (2..=16).map(|n| format!("n{n}")).collect();
    let mut expected: Vec<&str> = all.iter().map(String::as_str).collect();
    expected.sort_unstable();
    let output = sh(&lab, &["all", "--", "hostname"]);
    assert!(output.status.success(), "{}", output.errors());
    assert_eq!(sorted(&output.text()), expected);
    // A shell's loop, piped through all of them.
    let script = "for i in 1 2 3; do echo $i; done | tern sh -s -p all,home -- cat | sort | uniq | wc -l";
    assert_eq!(at_home(&lab, &["sh", "-c", script]).text(), "48");
    // Nothing is left.
    crate::common::eventually("no process is away", || {
        at_home(&lab, &["tern", "ps", "--json"]).text().contains("\"processes\": []")
            || !at_home(&lab, &["tern", "ps", "--json"]).text().contains("\"pid\"")
    });
}

#[test]
fn lines_go_where_they_are_wanted_and_the_worst_end_counts() {
    let lab = lab(3);
    let output = sh(&lab, &["-p", "n[2-3],home", "--", "sh", "-c", "echo out; echo error >&2; exit 3"]);
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(sorted(&output.text()), ["n1: out", "n2: out", "n3: out"]);
    for line in ["n2: error", "tern sh: n3: exit status 3"] {
        assert!(output.errors().lines().any(|said| said == line), "{}", output.errors());
    }
    let output = sh(&lab, &["-o", "/tmp/out", "all", "--", "sh", "-c", "echo out; echo error >&2; kill -TERM $$"]);
    assert_eq!(output.status.code(), Some(128 + libc::SIGTERM));
    assert!(output.errors().contains("n2: ended by signal 15"), "{}", output.errors());
    for (file, text) in [("n2", "out\n"), ("n3", "out\n"), ("n2.err", "error\n")] {
        let at = lab.root("n1").unwrap().join("tmp/out").join(file);
        assert_eq!(std::fs::read_to_string(at).unwrap(), text, "{file}");
    }
    // One node alone: the command's end is this one's, also by a signal.
    let alone = lab.exec("n1", ["bash", "-c", "tern sh n2 -- sh -c 'kill -TERM $$'; echo $?"]).unwrap();
    assert_eq!(alone.text(), "143");
    // A node that is not there is named before anything begins.
    assert!(sh(&lab, &["n9,n2", "--", "hostname"]).errors().contains("no node of the cluster is called n9"));
}

#[test]
fn a_node_that_refuses_costs_itself_alone() {
    let lab = lab(3);
    assert!(lab.exec("n3", ["tern", "policy", "set", "local-by=none"]).unwrap().status.success());
    let output = sh(&lab, &["-p", "all", "--", "hostname"]);
    assert_eq!(output.text(), "n2: n2");
    assert_eq!(output.status.code(), Some(125));
    assert!(output.errors().contains("n3: tern: node n3 refused"), "{}", output.errors());
}

#[test]
fn an_interrupt_ends_all() {
    let lab = lab(4);
    // A process group of its own, as a shell gives a job; the terminal's Ctrl-C goes to the group.
    let script = "set -m; tern sh all -- sleep 100 & \
         for i in $(seq 600); do [ $(tern ps --json | grep -c '\"pid\"') = 3 ] && break; sleep 0.1; done; \
         kill -INT -- -$!; wait $!; echo $?";
    let output = at_home(&lab, &["bash", "-c", script]);
    assert_eq!(output.text(), format!("{}", 128 + libc::SIGINT), "{}", output.errors());
    // And one that is sent to the command alone, in a group that has no terminal.
    let script = "perl -e '$SIG{INT} = q(DEFAULT); exec @ARGV' tern sh all -- sleep 100 & \
         for i in $(seq 600); do [ $(tern ps --json | grep -c '\"pid\"') = 3 ] && break; sleep 0.1; done; \
         kill -INT $!; wait $!; echo $?";
    let output = at_home(&lab, &["bash", "-c", script]);
    assert_eq!(output.text(), format!("{}", 128 + libc::SIGINT), "{}", output.errors());
    assert_eq!(output.errors().matches("ended by signal 2").count(), 3, "{}", output.errors());
}
