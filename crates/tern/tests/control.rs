//! The daemons' part in placing: rooms are shared, outlive daemons, and are given up; who sees
//! what.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::eventually;
use lab::Lab;
use serde_json::Value;

/// Runs a command as a user without rights.
/// In a directory that everybody may enter: a placed program goes there by its path.
const AS_NOBODY: [&str; 7] = ["env", "-C", "/", "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

fn tern(lab: &Lab, node: &str, args: &[&str]) -> lab::Output {
    lab.exec(node, [&["tern"], args].concat()).unwrap()
}

fn json(lab: &Lab, node: &str, args: &[&str]) -> Value {
    serde_json::from_slice(&tern(lab, node, args).stdout).unwrap_or(Value::Null)
}

/// Commands that are away from n1, as asked by a prefix of arguments (another user).
fn away(lab: &Lab, prefix: &[&str]) -> Vec<String> {
    let output = lab.exec("n1", [prefix, &["tern", "ps", "--json"]].concat()).unwrap();
    assert!(output.status.success(), "{}", output.errors());
    let rows: Value = serde_json::from_slice(&output.stdout).unwrap();
    rows.as_array().unwrap().iter().map(|r| r["guest"]["command"].as_str().unwrap().to_owned()).collect()
}

/// A placed program that runs until it is told to end.
struct Guest(Child);

impl Guest {
    fn start(lab: &Lab, prefix: &[&str], seconds: &str) -> Guest {
        let argv = [prefix, &["tern", "run", "--on", "n2", "--", "sleep", seconds]].concat();
        let child = quiet(lab.in_node("n1", argv)).spawn().unwrap();
        let guest = Guest(child);
        let command = format!("sleep {seconds}");
        eventually(&format!("{command} is away"), || away(lab, &[]).contains(&command));
        guest
    }

    /// Ends the program by its PID at home, and waits.
    fn end(mut self, lab: &Lab, seconds: &str) {
        let rows = json(lab, "n1", &["ps", "--json"]);
        let command = format!("sleep {seconds}");
        let row = rows.as_array().unwrap().iter().find(|r| r["guest"]["command"] == command.as_str()).unwrap();
        let pid = row["guest"]["pid"].to_string();
        assert!(lab.exec("n1", ["kill", &pid]).unwrap().status.success());
        eventually("the program ends", || self.0.try_wait().unwrap().is_some());
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn quiet(mut command: Command) -> Command {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn rooms(lab: &Lab, node: &str, kind: &str) -> u64 {
    json(lab, node, &["status", "--json"])[kind].as_u64().unwrap()
}

fn kill_daemon(lab: &Lab, node: &str) {
    let pid = json(lab, node, &["status", "--json"])["pid"].to_string();
    // Other nodes hold no `kill`: theirs is this machine's PID, found by the number inside.
    let inside = |pid_here: &i32| {
        let status = std::fs::read_to_string(format!("/proc/{pid_here}/status")).unwrap_or_default();
        let line = status.lines().find(|l| l.starts_with("NSpid:")).unwrap_or_default().to_owned();
        line.split_whitespace().last() == Some(pid.as_str())
    };
    let here = lab.processes(node).unwrap().into_iter().find(inside).unwrap();
    // SAFETY: a plain system call; the process is the lab's daemon.
    assert_eq!(unsafe { libc::kill(here, libc::SIGKILL) }, 0);
    eventually("the daemon is dead", || !tern(lab, node, &["status"]).status.success());
}

fn start_daemon(lab: &Lab, node: &str, options: &[&str]) -> Guest {
    let daemon = Guest(quiet(lab.in_node(node, [&["ternd"], options].concat())).spawn().unwrap());
    eventually("the daemon serves", || tern(lab, node, &["status"]).status.success());
    daemon
}

#[test]
fn placements_at_once_share_a_room() {
    let lab = common::lab_of(&common::options(2));
    let runs: Vec<Child> = (0..16)
        .map(|_| quiet(lab.in_node("n1", ["tern", "run", "--on", "n2", "--", "/bin/true"])).spawn().unwrap())
        .collect();
    for mut run in runs {
        assert!(run.wait().unwrap().success());
    }
    assert_eq!(rooms(&lab, "n1", "rooms_away"), 1);
    assert_eq!(rooms(&lab, "n2", "rooms_hosted"), 1);
}

#[test]
fn users_see_their_own_processes() {
    let lab = common::lab_of(&common::options(2));
    let roots = Guest::start(&lab, &[], "1001");
    let nobodys = Guest::start(&lab, &AS_NOBODY, "1002");
    assert_eq!(away(&lab, &[]).len(), 2);
    assert_eq!(away(&lab, &AS_NOBODY), ["sleep 1002"]);
    nobodys.end(&lab, "1002");
    roots.end(&lab, "1001");
    eventually("nobody is away", || away(&lab, &[]).is_empty());
}

/// A program that asks home, in a loop, is seen to, on each node where it is.
#[test]
fn calls_are_counted_where_they_are_served() {
    let lab = common::lab_of(&common::options(3));
    let asks = "while :; do ulimit -n 100; done";
    let argv = ["tern", "run", "--on", "n2", "--", "sh", "-c", asks];
    let _guest = Guest(quiet(lab.in_node("n1", argv)).spawn().unwrap());
    eventually("it is away", || json(&lab, "n1", &["ps", "--json"])[0]["node"] == "n2");
    let pid = json(&lab, "n1", &["ps", "--json"])[0]["guest"]["pid"].to_string();
    let mut trace = lab.in_node("n1", ["tern", "trace", "-c", &pid, "--for", "4s", "--json"]);
    let trace = trace.stdout(Stdio::piped()).spawn().unwrap();
    eventually("calls are seen", || tern(&lab, "n1", &["trace", &pid, "--for", "0s"]).status.success());
    assert!(tern(&lab, "n1", &["move", &pid, "n3"]).status.success());
    let report: Value = serde_json::from_slice(&trace.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!(report["nodes"], serde_json::json!(["n2", "n3"]), "{report}");
    let rows = report["rows"].as_array().unwrap();
    let at_home = rows.iter().find(|row| row["call"] == "prlimit64" && row["place"] == "home");
    let at_home = at_home.unwrap_or_else(|| panic!("{report}"));
    assert!(at_home["calls"].as_u64() > Some(20), "{report}");
    assert!(at_home["total_ns"].as_u64() >= at_home["longest_ns"].as_u64(), "{report}");
    let refused = lab.exec("n1", [&AS_NOBODY[..], &["tern", "trace", &pid, "--for", "0s"]].concat()).unwrap();
    assert!(!refused.status.success() && refused.errors().contains("another user's"), "{}", refused.errors());
    assert!(tern(&lab, "n1", &["move", &pid, "home"]).status.success());
    let at_home = tern(&lab, "n1", &["trace", &pid, "--for", "0s"]);
    assert!(!at_home.status.success() && at_home.errors().contains("is not away"), "{}", at_home.errors());
}

/// Calls of children count with the family alone.
#[test]
fn calls_of_children_are_counted_with_the_family() {
    let lab = common::lab_of(&common::options(2));
    let argv = ["tern", "run", "--on", "n2", "--", "sh", "-c", "while :; do (ulimit -n 100); sh -c :; done"];
    let _guest = Guest(quiet(lab.in_node("n1", argv)).spawn().unwrap());
    eventually("it is away", || json(&lab, "n1", &["ps", "--json"])[0]["node"] == "n2");
    // The shell is older than its children.
    let rows = json(&lab, "n1", &["ps", "--json"]);
    let pids = rows.as_array().unwrap().iter().map(|row| row["guest"]["pid"].as_i64().unwrap());
    let pid = pids.min().unwrap().to_string();
    let rows = |flags: &[&str]| {
        let report = json(&lab, "n1", &[&["trace", &pid, "--for", "1s", "--json"], flags].concat());
        report["rows"].as_array().unwrap().clone()
    };
    let (own, family) = (rows(&[]), rows(&["--family"]));
    let has = |rows: &[Value], call: &str, place: &str| rows.iter().any(|r| r["call"] == call && r["place"] == place);
    assert!(has(&family, "prlimit64", "home") && !has(&own, "prlimit64", "home"), "{own:?} {family:?}");
    // The room knows a parent that lives there.
    assert!(has(&family, "getppid", "room") && !has(&family, "getppid", "home"), "{family:?}");
}

#[test]
fn who_lives_in_a_container_stays_home() {
    let lab = common::lab_of(&common::options(2));
    for (flag, what) in [("--uts", "another host name namespace"), ("--net", "another network namespace")] {
        let refused = lab.exec("n1", ["unshare", flag, "tern", "run", "--on", "n2", "--", "/bin/true"]).unwrap();
        assert_eq!(refused.status.code(), Some(125));
        assert!(refused.errors().contains(what), "{}", refused.errors());
    }
}

#[test]
fn daemons_die_and_rooms_go_on() {
    let lab = common::lab_of(&common::options(2));
    let guest = Guest::start(&lab, &[], "1003");
    kill_daemon(&lab, "n1");
    kill_daemon(&lab, "n2");
    let _daemons = (start_daemon(&lab, "n1", &[]), start_daemon(&lab, "n2", &[]));
    assert_eq!(away(&lab, &[]), ["sleep 1003"]);
    let again = tern(&lab, "n1", &["run", "--on", "n2", "--", "/bin/true"]);
    assert!(again.status.success(), "{}", again.errors());
    assert_eq!(rooms(&lab, "n1", "rooms_away"), 1, "the room that lived on was used");
    guest.end(&lab, "1003");
}

/// Each user has a room; one that nobody is in is given up for another user's, where no more are
/// allowed.
#[test]
fn idle_rooms_make_way_for_other_users() {
    let lab = common::lab_of(&common::options(2));
    kill_daemon(&lab, "n2");
    let _daemon = start_daemon(&lab, "n2", &["--rooms", "1"]);
    let place = |prefix: &[&str]| {
        let placed = lab.exec("n1", [prefix, &["tern", "run", "--on", "n2", "--", "/bin/true"]].concat()).unwrap();
        (placed.status.success(), placed.errors())
    };
    for prefix in [&[][..], &AS_NOBODY, &[]] {
        eventually("n2's daemon is known to n1 again", || place(prefix).0);
        assert_eq!((rooms(&lab, "n1", "rooms_away"), rooms(&lab, "n2", "rooms_hosted")), (1, 1));
    }
    let guest = Guest::start(&lab, &[], "1006");
    let (placed, errors) = place(&AS_NOBODY);
    assert!(!placed && errors.contains("n2 is full"), "{errors}");
    guest.end(&lab, "1006");
}

#[test]
fn a_home_whose_daemon_dies_again_and_again_goes_on_placing() {
    let lab = common::lab_of(&common::options(3));
    let guest = Guest::start(&lab, &[], "1005");
    for round in 0..10u64 {
        let pid = json(&lab, "n1", &["status", "--json"])["pid"].to_string();
        let run = quiet(lab.in_node("n1", ["tern", "run", "--", "/bin/true"])).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(7 * round));
        // The next daemon is started while the last one may still be ending.
        let again = lab.exec("n1", ["sh", "-c", &format!("kill -9 {pid}; ternd > /dev/null 2>&1 &")]).unwrap();
        assert!(again.status.success());
        eventually("the daemon serves", || tern(&lab, "n1", &["status"]).status.success());
        // Whoever met no daemon was told so; nobody hangs.
        let mut run = Guest(run);
        eventually("the placement ends", || run.0.try_wait().unwrap().is_some());
    }
    assert_eq!(away(&lab, &[]), ["sleep 1005"]);
    let placed = tern(&lab, "n1", &["run", "--on", "n3", "--", "/bin/true"]);
    assert!(placed.status.success(), "{}\n{}", placed.errors(), tern(&lab, "n1", &["log"]).text());
    guest.end(&lab, "1005");
}

#[test]
fn rooms_end_with_the_membership_of_their_node() {
    let lab = common::lab_of(&common::options(3));
    let mut guest = Guest::start(&lab, &[], "1004");
    let left = tern(&lab, "n2", &["leave"]);
    assert!(left.status.success(), "{}", left.errors());
    assert!(away(&lab, &[]).is_empty() && guest.0.try_wait().unwrap().is_none(), "its guest went home");
    eventually("the room is gone", || rooms(&lab, "n1", "rooms_away") == 0);
    // Until it has heard that n2 has left, it is down to n1.
    eventually("n1 knows", || {
        tern(&lab, "n1", &["run", "--on", "n2", "--", "/bin/true"]).errors().contains("no node n2; known: n1, n3")
    });
}
