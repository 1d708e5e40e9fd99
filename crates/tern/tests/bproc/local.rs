//! `tern run --local`: home's process, the node's files and network.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;

use crate::{at_home, build, lab, local};

/// The first id of those that rooms have on the machine that hosts them (`os::id_ranges`).
pub const FIRST_ROOM_ID: u32 = 1 << 31;

#[test]
fn files_network_and_name_are_the_nodes_and_the_process_is_homes() {
    let lab = lab(2);
    let program = build(&lab, "local");
    let script = format!("echo $$; exec tern run --local --on n2 -- {program} $$");
    let mut child = lab.spawn("n1", ["timeout", "-s", "KILL", "100", "sh", "-c", &script]).unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(|line| line.unwrap());
    let pid = lines.next().unwrap();
    let first = lines.next().unwrap();
    let words: Vec<&str> = first.split(' ').collect();
    assert_eq!(words[..2], ["n2", &pid], "the node's name, and home's number");
    let status = std::fs::read_to_string(lab.root("n1").unwrap().join(format!("proc/{pid}/status"))).unwrap();
    assert!(status.contains(&format!("PPid:\t{}\n", words[2])), "{status}");
    assert_eq!(lines.next().unwrap(), "child 5 parent 0", "it forks, waits, and signals as at home");
    // The file is there, a stranger's, and is not here.
    let there = lab.root("n2").unwrap().join("tmp/of-node");
    assert_eq!(std::fs::read_to_string(&there).unwrap(), "n2");
    assert!(std::fs::metadata(&there).unwrap().uid() >= FIRST_ROOM_ID);
    assert!(!lab.root("n1").unwrap().join("tmp/of-node").exists());
    let port = lines.next().unwrap();
    let asks = format!("exec 3<>/dev/tcp/10.77.0.2/{port}; echo you >&3; read -r answer <&3; echo $answer");
    assert_eq!(at_home(&lab, &["bash", "-c", &asks]).text(), "heard you");
    assert_eq!(child.wait().unwrap().code(), Some(42));
}

/// Calls that are not about processes pass tern by: its counts have none of them.
#[test]
fn only_calls_about_processes_are_seen() {
    let lab = lab(2);
    let program = build(&lab, "local");
    let script = format!("echo $$; exec tern run --local --on n2 -- {program} calls");
    let mut child = lab.spawn("n1", ["timeout", "-s", "KILL", "100", "sh", "-c", &script]).unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(|line| line.unwrap());
    let pid = lines.next().unwrap();
    assert_eq!(lines.next().unwrap(), "calling");
    let counts = at_home(&lab, &["tern", "trace", &pid, "--for", "2s", "--json"]);
    let counts: serde_json::Value = serde_json::from_str(&counts.text()).unwrap();
    let seen = |name: &str| counts["rows"].as_array().unwrap().iter().any(|row| row["call"] == name);
    assert!(seen("getppid"), "{counts}");
    for name in ["socket", "open", "openat", "stat", "newfstatat", "uname", "close", "connect"] {
        assert!(!seen(name), "{name}: {counts}");
    }
    at_home(&lab, &["kill", "-KILL", &pid]);
    assert_eq!(child.wait().unwrap().signal().or(Some(9)), Some(9));
}

/// How a child in node-local mode ended, as its parent is told, and the cores that it left at home.
const ENDED: &str = r#"
import os
pid = os.fork()
if pid == 0: os.execvp("tern", "tern run --local --on n2 -- sh -c".split() + ["cd /tmp; kill -SEGV $$"])
status = os.waitpid(pid, 0)[1]
print(os.WTERMSIG(status), os.WCOREDUMP(status), [name for name in os.listdir(".") if "core" in name])
"#;

#[test]
fn ends_and_signals_are_those_of_home() {
    let lab = lab(2);
    assert_eq!(local(&lab, "n2", &["sh", "-c", "exit 7"]).status.code(), Some(7));
    // The shell's own words about how its child ended: by which signal, and with its core.
    let script = "ulimit -c unlimited; tern run --local --on n2 -- sh -c 'kill -SEGV $$'; echo $?";
    assert_eq!(at_home(&lab, &["bash", "-c", script]).text(), "139");
    let kept = lab.root("n1").unwrap().join("run/tern");
    let core_dirs = || {
        std::fs::read_dir(&kept)
            .unwrap()
            .filter(|f| f.as_ref().unwrap().file_name().to_string_lossy().starts_with("core-"))
            .count()
    };
    for (limit, end) in [("unlimited", "11 True []"), ("0", "11 False []")] {
        let script = format!("ulimit -c {limit}; cd /tmp; python3 -c '{ENDED}'");
        assert_eq!(at_home(&lab, &["bash", "-c", &script]).text(), end);
    }
    crate::common::eventually("the directories of cores to go", || core_dirs() == 0);
    // A handler that the program has set takes a signal from home.
    let traps = "trap 'echo got; exit 3' TERM; echo ready; while :; do read -r line; done";
    let mut child =
        lab.spawn("n1", ["sh", "-c", "echo $$; exec tern run --local --on n2 -- sh -c \"$0\"", traps]).unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(|line| line.unwrap());
    let pid = lines.next().unwrap();
    assert_eq!(lines.next().unwrap(), "ready");
    at_home(&lab, &["kill", "-TERM", &pid]);
    // The shell handles it between two lines at the latest; it may have ended by now.
    let _ = writeln!(child.stdin.as_mut().unwrap(), "line");
    assert_eq!(lines.next().unwrap(), "got");
    assert_eq!(child.wait().unwrap().code(), Some(3));
}

#[test]
fn an_owner_decides_who_may() {
    let lab = crate::common::lab_of(&crate::common::options(2));
    let refused = local(&lab, "n2", &["hostname"]);
    assert_eq!(refused.status.code(), Some(125));
    assert!(refused.errors().contains("tern policy set local-by=n1"), "{}", refused.errors());
    assert!(lab.exec("n2", ["tern", "policy", "set", "local-by=n3"]).unwrap().status.success());
    assert_eq!(local(&lab, "n2", &["hostname"]).status.code(), Some(125));
    assert!(lab.exec("n2", ["tern", "policy", "set", "local-by=all"]).unwrap().status.success());
    assert_eq!(local(&lab, "n2", &["hostname"]).text(), "n2");
    // Beside it, home's view is as ever, in a room of its own.
    assert_eq!(at_home(&lab, &["tern", "run", "--on", "n2", "--", "hostname"]).text(), "n1");
}

/// Root of home is nobody in particular on the node, and cannot leave what it was given.
#[test]
fn a_guest_may_what_everybody_may() {
    let lab = lab(2);
    let script = "id -u; (echo x > /etc/mine) 2>/dev/null || echo no; (echo x > /tmp/mine) && echo yes";
    assert_eq!(local(&lab, "n2", &["sh", "-c", script.trim_start_matches("id -u; ")]).text(), "no\nyes");
    assert_eq!(local(&lab, "n2", &["id", "-u"]).text(), "0");
    for (words, error) in [
        (&["chroot", "/tmp", "/bin/sh"][..], "Operation not permitted"),
        (&["mount", "-t", "tmpfs", "x", "/tmp"], "ermission denied"),
        (&["hostname", "other"], "must be root"),
        (&["ip", "link", "set", "lo", "down"], "not permitted"),
    ] {
        let output = local(&lab, "n2", words);
        assert!(!output.status.success(), "{words:?}");
        assert!(output.errors().contains(error) || output.errors().contains("not permitted"), "{}", output.errors());
    }
    let user = ["setpriv", "--reuid=1000", "--regid=1000", "--clear-groups"];
    let placed = ["tern", "run", "--local", "--on", "n2", "--", "id", "-u"];
    assert_eq!(at_home(&lab, &[&user[..], &placed].concat()).text(), "1000");
}

#[test]
fn a_process_in_node_local_mode_stays() {
    let lab = lab(3);
    let mut child = lab.spawn("n1", ["sh", "-c", "echo $$; exec tern run --local --on n2 -- cat"]).unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    let pid = line.trim();
    writeln!(child.stdin.as_mut().unwrap(), "runs").unwrap();
    let mut echoed = String::new();
    out.read_line(&mut echoed).unwrap();
    assert_eq!(echoed, "runs\n");
    for to in ["home", "n3"] {
        let moved = at_home(&lab, &["tern", "move", pid, to]);
        assert!(!moved.status.success());
        assert!(moved.errors().contains("node-local mode on n2"), "{}", moved.errors());
    }
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}
