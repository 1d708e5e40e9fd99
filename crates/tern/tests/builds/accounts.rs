//! The accounts of a home.

use std::process::{Child, Stdio};

use lab::Lab;
use serde_json::Value;

use super::common::eventually;
use super::{lab_of, ok};

/// Computes until it is killed.
const BURNS: [&str; 3] = ["perl", "-e", "1 while 1"];

/// A program that is killed at the end.
struct Burning(Child);

impl Burning {
    fn start(lab: &Lab, prefix: &[&str]) -> Burning {
        let mut command = lab.in_node("n1", [prefix, &BURNS].concat());
        Burning(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Burning {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn usage(lab: &Lab, node: &str) -> Value {
    serde_json::from_str(&ok(lab, node, &["usage", "--json"])).unwrap()
}

/// The sum of a number of all rows of a host.
fn sum(usage: &Value, host: &str, what: &str) -> u64 {
    let rows = usage["rows"].as_array().unwrap().iter().filter(|row| row["host"] == host);
    rows.map(|row| row[what].as_u64().unwrap()).sum()
}

#[test]
fn what_is_used_here_and_away_is_counted_once() {
    let lab = lab_of(2);
    let placed = Burning::start(&lab, &["tern", "run", "--on", "n2", "--"]);
    eventually("two seconds are counted away", || sum(&usage(&lab, "n1"), "n2", "cpu_ms") >= 2000);
    drop(placed);
    let local = Burning::start(&lab, &[]);
    eventually("two seconds are counted here", || sum(&usage(&lab, "n1"), "n1", "cpu_ms") >= 2000);
    drop(local);
    let asked = usage(&lab, "n1");
    assert_eq!((sum(&asked, "n2", "placed"), sum(&asked, "n2", "moved")), (1, 0));
    assert!(sum(&asked, "n2", "cpu_ms") < 20_000, "{asked}");

    ok(&lab, "n1", &["hosts", "request", "3", "--holder", "1"]);
    let asked = usage(&lab, "n1");
    assert_eq!((sum(&asked, "n1", "hosts_asked"), sum(&asked, "n1", "hosts_got")), (3, 1));

    let away = sum(&usage(&lab, "n1"), "n2", "cpu_ms");
    lab.restart_daemon("n1").unwrap();
    eventually("the daemon serves again", || lab.exec("n1", ["tern", "status"]).unwrap().status.success());
    let again = sum(&usage(&lab, "n1"), "n2", "cpu_ms");
    assert!(again <= away + 500, "{away} ms, then {again} ms");
    let shown = ok(&lab, "n1", &["usage", "--by", "user"]);
    assert!(shown.contains("AWAY CPU") && shown.contains("IDLE"), "{shown}");
}

#[test]
fn moves_evictions_and_hours_are_counted() {
    let lab = lab_of(2);
    let moved = Burning::start(&lab, &["tern", "run", "--on", "home", "--"]);
    let pid = || {
        let found = lab.exec("n1", ["pgrep", "-x", "perl"]).unwrap().text();
        found.lines().next().map(str::to_owned)
    };
    eventually("it runs", || pid().is_some());
    ok(&lab, "n1", &["move", &pid().unwrap(), "n2"]);
    eventually("n2 hosts", || usage(&lab, "n2")["hours"][0]["hosting_ms"].as_u64().is_some_and(|ms| ms > 0));
    // The use of others' processes belongs to none of n2's users.
    eventually("three seconds are counted away", || sum(&usage(&lab, "n1"), "n2", "cpu_ms") >= 3000);
    let hosted = usage(&lab, "n2");
    assert!(sum(&hosted, "n2", "cpu_ms") < 1500, "{hosted}");
    ok(&lab, "n2", &["evict", "all"]);
    eventually("it is counted", || sum(&usage(&lab, "n1"), "n2", "evicted") == 1);
    let asked = usage(&lab, "n1");
    assert_eq!(sum(&asked, "n2", "moved"), 1, "{asked}");
    drop(moved);
    // Users see their own.
    let others = lab.exec("n1", ["setpriv", "--reuid", "4321", "--clear-groups", "tern", "usage", "--json"]).unwrap();
    let others: Value = serde_json::from_slice(&others.stdout).unwrap();
    assert_eq!(others["rows"].as_array().unwrap().len(), 0, "{others}");
}
