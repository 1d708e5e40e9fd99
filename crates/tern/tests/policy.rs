//! The policy's settings and decisions on real daemons.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::time::{Duration, Instant};

use common::eventually;
use lab::{Lab, Options, Output};
use serde_json::Value;

fn tern(lab: &Lab, node: &str, args: &[&str]) -> Output {
    lab.exec(node, [&["tern"], args].concat()).unwrap()
}

fn ok(lab: &Lab, node: &str, args: &[&str]) -> String {
    let output = tern(lab, node, args);
    assert!(output.status.success(), "tern {args:?} on {node}: {}", output.errors());
    String::from_utf8(output.stdout).unwrap()
}

fn fails(lab: &Lab, args: &[&str]) -> String {
    let output = tern(lab, "n1", args);
    assert!(!output.status.success(), "tern {args:?} succeeded");
    output.errors()
}

fn setting(lab: &Lab, prefix: &[&str], name: &str) -> String {
    let output = lab.exec("n1", [prefix, &["tern", "policy", "show", "--json"]].concat()).unwrap();
    let rows: Value = serde_json::from_slice(&output.stdout).unwrap();
    let row = rows.as_array().unwrap().iter().find(|r| r["name"] == name).unwrap();
    row["value"].as_str().unwrap().to_owned()
}

fn load(lab: &Lab, of: &str, field: &str) -> u64 {
    let rows: Value = serde_json::from_str(&ok(lab, "n1", &["nodes", "--json"])).unwrap();
    let row = rows.as_array().unwrap().iter().find(|r| r["name"] == of).unwrap();
    row["load"][field].as_u64().unwrap_or(u64::MAX)
}

/// A user without rights, but an ordinary one.
const AS_USER: [&str; 7] = ["env", "-C", "/", "setpriv", "--reuid=4711", "--regid=4711", "--clear-groups"];

#[test]
fn settings_are_checked_kept_and_each_users_own() {
    let lab = common::lab_of(&common::options(1));
    assert!(fails(&lab, &["policy", "set", "residency_ms=3"]).contains("a number from 10 to 3600000 is expected"));
    assert!(fails(&lab, &["policy", "set", "residency_ms=2000", "mode=best"]).contains("opportunity"));
    assert_eq!(setting(&lab, &[], "residency_ms"), "1000", "all or none");
    assert!(fails(&lab, &["policy", "set", "speed"]).contains("NAME=VALUE is expected"));
    assert!(fails(&lab, &["policy", "set", "scope=mine"]).contains("the system's"));
    ok(&lab, "n1", &["policy", "set", "residency_ms=2000", "stay=on"]);
    let as_user = |args: &[&str]| lab.exec("n1", [&AS_USER[..], &["tern", "policy", "set"], args].concat()).unwrap();
    assert!(as_user(&["stay=off"]).errors().contains("is for root"));
    assert!(as_user(&["scope=users"]).errors().contains("tree:PID, mine, or started (tern) is expected"));
    assert!(as_user(&["scope=mine"]).status.success());
    let scopes = [setting(&lab, &AS_USER, "scope"), setting(&lab, &[], "scope")];
    assert_eq!(scopes, ["tern + mine", "tern + user:4711"]);
    // The daemon is killed; the lab's init starts no other.
    let status: Value = serde_json::from_str(&ok(&lab, "n1", &["status", "--json"])).unwrap();
    lab.exec("n1", ["kill", "-KILL", &status["pid"].to_string()]).unwrap();
    let mut daemon = lab.in_node("n1", ["tern", "daemon"]).spawn().unwrap();
    eventually("the daemon serves again", || tern(&lab, "n1", &["status"]).status.success());
    assert_eq!((setting(&lab, &[], "residency_ms"), setting(&lab, &[], "stay")), ("2000".into(), "on".into()));
    assert_eq!(setting(&lab, &AS_USER, "scope"), "tern + mine");
    daemon.kill().unwrap();
    daemon.wait().unwrap();
}

#[test]
fn loads_show_what_runs_and_new_programs_go_elsewhere() {
    let lab = common::lab_of(&common::options(3));
    for node in ["n1", "n2", "n3"] {
        eventually("speeds are measured", || (1..50_000).contains(&load(&lab, node, "speed_milli")));
    }
    let busy = ["timeout", "-s", "KILL", "100", "tern", "run", "--on", "n2", "--", "sh", "-c", "while :; do :; done"];
    let mut busy = lab.spawn("n1", busy).unwrap();
    eventually("n2 is busy", || (800..u64::MAX).contains(&load(&lab, "n2", "runnable_milli")));
    eventually("n3 is not", || load(&lab, "n3", "runnable_milli") < 400);
    ok(&lab, "n1", &["policy", "set", "home=off"]);
    let place = || ok(&lab, "n1", &["run", "--", "true"]);
    place();
    let log = ok(&lab, "n1", &["log", "--decisions"]);
    let decision: Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
    let order = decision["placement"]["order"].as_array().unwrap();
    let views = decision["placement"]["candidates"].as_array().unwrap();
    let first = views.iter().find(|v| v["id"] == order[0][0]).unwrap();
    let other = views.iter().find(|v| v["id"] != order[0][0]).unwrap();
    assert!(first["load_milli"].as_u64() < other["load_milli"].as_u64(), "{decision}");
    let mut replay = lab.in_node("n1", ["tern", "replay", "-", "--json"]);
    replay.stdin(std::process::Stdio::piped());
    let replayed = common::run_with_input(replay, log.as_bytes());
    let summary: Value = serde_json::from_slice(&replayed.stdout).unwrap();
    assert!(summary["alike"] == summary["decisions"] && summary["decisions"].as_u64() > Some(0), "{summary}");
    let away: Value = serde_json::from_str(&ok(&lab, "n1", &["ps", "--json"])).unwrap();
    lab.exec("n1", ["kill", &away[0]["guest"]["pid"].to_string()]).unwrap();
    busy.wait().unwrap();
    eventually("n2 is idle again", || load(&lab, "n2", "runnable_milli") < 400);

    ok(&lab, "n2", &["policy", "set", "guests=off"]);
    ok(&lab, "n3", &["policy", "set", "quiet=on"]);
    eventually("n1 hears of it", || ["n2", "n3"].iter().all(|n| load(&lab, n, "rooms_max") == 0));
    assert!(fails(&lab, &["run", "--", "true"]).contains("accepts no guests"));
    ok(&lab, "n2", &["policy", "set", "guests=on"]);
    eventually("n1 hears of it", || load(&lab, "n2", "rooms_max") > 0);
    place();
}

/// Where this home's programs run now, sorted.
fn places(lab: &Lab) -> Vec<String> {
    let rows: Value = serde_json::from_str(&ok(lab, "n1", &["ps", "--json"])).unwrap_or(Value::Null);
    let rows = rows.as_array().into_iter().flatten();
    let mut nodes: Vec<String> = rows.map(|r| r["node"].as_str().unwrap().to_owned()).collect();
    nodes.sort();
    nodes
}

#[test]
fn running_programs_go_where_there_is_room_and_leave_when_the_owner_says_so() {
    let lab = common::lab_of(&lab::Options { cpus: Some(0.3), ..common::options(3) });
    ok(&lab, "n1", &["policy", "set", "moves=on", "home=off"]);
    ok(&lab, "n3", &["policy", "set", "guests=off"]);
    eventually("n1 hears of it", || load(&lab, "n3", "rooms_max") == 0);
    let spin = ["timeout", "--foreground", "-s", "KILL", "200", "tern", "run", "--"];
    let start = |number: &str| {
        let argv = [&spin[..], &["sh", "-c", "while :; do :; done", number]].concat();
        lab.spawn("n1", argv).unwrap()
    };
    let mut running = [start("1"), start("2")];
    eventually("both are on n2", || places(&lab) == ["n2", "n2"]);
    ok(&lab, "n3", &["policy", "set", "guests=on"]);
    eventually("one goes to n3", || places(&lab) == ["n2", "n3"]);
    ok(&lab, "n3", &["policy", "set", "guests=off"]);
    eventually("it leaves n3", || places(&lab) == ["n2", "n2"]);
    let status = || serde_json::from_str::<Value>(&ok(&lab, "n1", &["status", "--json"])).unwrap();
    eventually("both moves are counted", || status()["moved"] == 2);
    let log = ok(&lab, "n1", &["log", "--decisions"]);
    assert!(log.contains("\"cause\":\"balance\"") && log.contains("\"cause\":\"evict\""), "{log}");
    let mut replay = lab.in_node("n1", ["tern", "replay", "-"]);
    replay.stdin(std::process::Stdio::piped());
    assert!(common::run_with_input(replay, log.as_bytes()).status.success());
    // They are still the same two processes at home.
    let rows: Value = serde_json::from_str(&ok(&lab, "n1", &["ps", "--json"])).unwrap();
    for row in rows.as_array().unwrap() {
        assert!(lab.exec("n1", ["kill", &row["guest"]["pid"].to_string()]).unwrap().status.success());
    }
    for child in &mut running {
        child.wait().unwrap();
    }
}

#[test]
fn what_a_placed_program_makes_is_moved_too_and_by_the_next_daemon() {
    let lab = common::lab_of(&lab::Options { cpus: Some(0.3), ..common::options(3) });
    ok(&lab, "n1", &["policy", "set", "moves=on", "home=off"]);
    ok(&lab, "n3", &["policy", "set", "guests=off"]);
    eventually("n1 hears of it", || load(&lab, "n3", "rooms_max") == 0);
    // The shell itself only waits.
    let script = "while :; do :; done & while :; do :; done & wait";
    let words = ["timeout", "--foreground", "-s", "KILL", "200", "tern", "run", "--", "sh", "-c", script];
    let mut family = lab.spawn("n1", words).unwrap();
    eventually("all are on n2", || places(&lab) == ["n2", "n2", "n2"]);
    ok(&lab, "n3", &["policy", "set", "guests=on"]);
    eventually("a child goes to n3", || places(&lab) == ["n2", "n2", "n3"]);
    lab.restart_daemon("n1").unwrap();
    ok(&lab, "n3", &["policy", "set", "guests=off"]);
    eventually("it leaves n3", || places(&lab) == ["n2", "n2", "n2"]);
    let rows: Value = serde_json::from_str(&ok(&lab, "n1", &["ps", "--json"])).unwrap();
    for row in rows.as_array().unwrap() {
        lab.exec("n1", ["kill", "-9", &row["guest"]["pid"].to_string()]).unwrap();
    }
    family.wait().unwrap();
}

/// Gives a node another share of a core, as its owner may while it runs.
fn set_quota(lab: &Lab, node: &str, cpus: f64) {
    for group in lab.state().node(node).unwrap().whole_cgroups() {
        let quota_us = (100_000.0 * cpus) as u64;
        if group.join("cpu.max").exists() {
            std::fs::write(group.join("cpu.max"), format!("{quota_us} 100000")).unwrap();
        } else if group.join("cpu.cfs_quota_us").exists() {
            std::fs::write(group.join("cpu.cfs_period_us"), "100000").unwrap();
            std::fs::write(group.join("cpu.cfs_quota_us"), quota_us.to_string()).unwrap();
        }
    }
}

/// A program that computes was placed on n2; n3 takes guests since.
fn with_a_busy_program() -> (Lab, std::process::Child) {
    let lab = common::lab_of(&lab::Options { cpus: Some(0.3), ..common::options(3) });
    ok(&lab, "n1", &["policy", "set", "moves=on", "home=off"]);
    ok(&lab, "n3", &["policy", "set", "guests=off"]);
    eventually("n1 hears of it", || load(&lab, "n3", "rooms_max") == 0);
    let words =
        ["timeout", "--foreground", "-s", "KILL", "200", "tern", "run", "--", "sh", "-c", "while :; do :; done"];
    let job = lab.spawn("n1", words).unwrap();
    eventually("it is on n2", || places(&lab) == ["n2"]);
    ok(&lab, "n3", &["policy", "set", "guests=on"]);
    (lab, job)
}

/// Ends the only program that is placed.
fn end(lab: &Lab, mut job: std::process::Child) {
    let rows: Value = serde_json::from_str(&ok(lab, "n1", &["ps", "--json"])).unwrap();
    lab.exec("n1", ["kill", "-9", &rows[0]["guest"]["pid"].to_string()]).unwrap();
    job.wait().unwrap();
}

#[test]
fn a_node_that_slows_down_is_left() {
    let (lab, job) = with_a_busy_program();
    // With equal nodes there is no reason to go.
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(places(&lab), ["n2"]);
    let start = Instant::now();
    set_quota(&lab, "n2", 0.05);
    // What is left there of a core must also do for the move itself, and so takes its time.
    eventually("it is to go", || ok(&lab, "n1", &["log", "--decisions"]).contains("\"verdict\":{\"move\":"));
    let took = start.elapsed();
    assert!(took < Duration::from_secs(5), "that a node had become six times slower was noticed after {took:?}");
    eventually("it goes to n3", || places(&lab) == ["n3"]);
    end(&lab, job);
}

/// A program that does nothing but work, until this is dropped.
struct Burner(std::process::Child);

impl Burner {
    fn start() -> Burner {
        let mut command = std::process::Command::new("sh");
        Burner(command.args(["-c", "while :; do :; done"]).stdout(std::process::Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Burner {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).unwrap();
    }
}

/// Has them run in a node's control groups, where its daemon, which sees its own namespaces'
/// processes alone, does not know of them.
fn burn_beside(lab: &Lab, node: &str, count: usize) -> Vec<Burner> {
    let burners: Vec<_> = (0..count).map(|_| Burner::start()).collect();
    for group in &lab.state().node(node).unwrap().cgroups {
        for Burner(burner) in &burners {
            std::fs::write(group.join("cgroup.procs"), burner.id().to_string()).unwrap();
        }
    }
    burners
}

#[test]
fn a_node_where_guests_get_less_than_it_tells_is_left() {
    let (lab, job) = with_a_busy_program();
    let burners = burn_beside(&lab, "n2", 5);
    eventually("it goes to n3", || places(&lab) == ["n3"]);
    assert!(load(&lab, "n2", "runnable_milli") < 2500, "n2 knows of what runs beside it");
    drop(burners);
    end(&lab, job);
}

/// Grows to 32 MiB in half a minute, and waits for six seconds more: six of them take less a second
/// than moves free where the machine is busy with something else.
const GROWS: &str = "for (1..32) { $x[$_] = 'a' x ((1 << 20) + $_); select(undef, undef, undef, 1) } sleep 6";

#[test]
fn nobody_is_killed_where_memory_runs_out_if_another_node_has_room() {
    let lab = common::lab_of(&Options { memory_bytes: Some(160 << 20), ..common::options(3) });
    ok(&lab, "n1", &["policy", "set", "moves=on", "home=off", "mode=off"]);
    let words =
        ["timeout", "--foreground", "-s", "KILL", "100", "tern", "run", "--on", "n2", "--movable", "--force", "--"];
    let grows = || lab.spawn("n1", [&words[..], &["perl", "-e", GROWS]].concat()).unwrap();
    let mut all: Vec<_> = (0..6).map(|_| grows()).collect();
    eventually("some go to n3", || places(&lab).iter().any(|node| node == "n3"));
    let ends: Vec<_> = all.iter_mut().map(|child| child.wait().unwrap()).collect();
    assert!(ends.iter().all(std::process::ExitStatus::success), "{ends:?}");
    assert!(ok(&lab, "n1", &["log", "--decisions"]).contains("\"cause\":\"usher\""));
}

#[test]
fn a_room_outlives_guests_that_take_all_memory() {
    let lab = common::lab_of(&Options { memory_bytes: Some(128 << 20), ..common::options(2) });
    let run = |script: &str| {
        let run = ["tern", "run", "--on", "n2", "--force", "--", "perl", "-e"];
        let words = [&["timeout", "--foreground", "-s", "KILL", "100"][..], &run].concat();
        lab.spawn("n1", [&words[..], &[script]].concat()).unwrap()
    };
    let mut sleeper = run("sleep 60");
    // Each is smaller than the warden; together they are more than there is.
    let mut small: Vec<_> = (0..24).map(|_| run("$x = 'a' x (6 << 20); sleep 20")).collect();
    let killed = |children: &mut Vec<std::process::Child>| {
        children.iter_mut().any(|child| child.try_wait().unwrap().is_some_and(|status| !status.success()))
    };
    eventually("some are killed", || killed(&mut small));
    let serves =
        || lab.exec("n1", ["tern", "run", "--on", "n2", "--force", "--", "true"]).is_ok_and(|o| o.status.success());
    eventually("their room serves others", serves);
    assert!(sleeper.try_wait().unwrap().is_none(), "their room has ended with them");
    assert!(small.iter_mut().any(|child| child.try_wait().unwrap().is_none_or(|status| status.success())));
    small
        .iter_mut()
        .chain([&mut sleeper])
        .for_each(|child| child.kill().and_then(|()| child.wait()).map(drop).unwrap());
}

#[test]
fn a_user_who_opts_in_has_running_programs_sent_away() {
    let lab = common::lab_of(&lab::Options { cpus: Some(0.3), ..common::options(3) });
    ok(&lab, "n1", &["policy", "set", "moves=on", "home=off"]);
    let busy = ["timeout", "-s", "KILL", "200", "sh", "-c", "while :; do :; done"];
    let mut running: Vec<_> = (0..3).map(|_| lab.spawn("n1", [&AS_USER[..], &busy].concat()).unwrap()).collect();
    eventually("they run", || load(&lab, "n1", "runnable_milli") > 2000);
    std::thread::sleep(Duration::from_secs(3));
    assert!(places(&lab).is_empty(), "nobody has said that they may be moved");
    let opted = lab.exec("n1", [&AS_USER[..], &["tern", "policy", "set", "scope=mine"]].concat()).unwrap();
    assert!(opted.status.success(), "{}", opted.errors());
    eventually("two of three go away", || places(&lab) == ["n2", "n3"]);
    for child in &mut running {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn pins_are_shown_by_why() {
    let lab = common::lab_of(&common::options(1));
    let mut sleeper = lab.spawn("n1", ["sh", "-c", "echo $$; exec sleep 100"]).unwrap();
    let mut pid = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(sleeper.stdout.take().unwrap()), &mut pid).unwrap();
    let pid = pid.trim();
    ok(&lab, "n1", &["pin", pid]);
    assert!(ok(&lab, "n1", &["why", pid]).contains("it stays where it is"));
    ok(&lab, "n1", &["pin", pid, "--prefer-home", "--hint", "io"]);
    let why = ok(&lab, "n1", &["why", pid]);
    assert!(
        why.contains("goes home whenever") && why.contains("busy with files") && why.contains("not in scope"),
        "{why}"
    );
    ok(&lab, "n1", &["pin", pid, "--off"]);
    assert!(!ok(&lab, "n1", &["why", pid]).contains("its user says"));
    let other = lab.exec("n1", [&AS_USER[..], &["tern", "pin", pid]].concat()).unwrap();
    assert!(other.errors().contains("another user's process"), "{}", other.errors());
    assert!(fails(&lab, &["pin", "999999"]).contains("/proc/999999"));
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
}

/// When processes arrived by the policy's word, seconds of the day, and where.
fn arrivals(lab: &Lab) -> Vec<(f64, String)> {
    let log = ok(lab, "n1", &["log"]);
    let arrival = |line: &str| {
        let (begins, ends) = line.split_once(" moved to ")?;
        let time = begins.split_once('T')?.1.split_once('Z')?.0;
        let seconds = time.split(':').try_fold(0.0, |sum, part| Some(sum * 60.0 + part.parse::<f64>().ok()?))?;
        Some((seconds, ends.split(' ').next()?.to_owned()))
    };
    log.lines().filter_map(arrival).collect()
}

#[test]
fn balance_is_calm_and_a_newcomer_is_not_flooded() {
    const PACE: u32 = 20;
    let options =
        Options { cpus: Some(0.1), cpus_of: vec!["n1-n1=1".parse().unwrap()], pace: PACE, ..common::options(4) };
    let lab = common::lab_of(&options);
    ok(&lab, "n4", &["policy", "set", "guests=off"]);
    eventually("n1 hears of it", || load(&lab, "n4", "rooms_max") == 0);
    ok(&lab, "n1", &["policy", "set", "moves=on", "home=off"]);
    let busy = |node: &str| {
        let words = ["timeout", "-s", "KILL", "100", "tern", "run", "--on", node, "--movable", "--", "sh", "-c"];
        lab.spawn("n1", [&words[..], &["while :; do :; done"]].concat()).unwrap()
    };
    let mut all: Vec<_> = ["n2", "n3"].iter().flat_map(|node| [node; 3]).map(|node| busy(node)).collect();
    let is_busy = |node: &&str| (2500..u64::MAX).contains(&load(&lab, node, "runnable_milli"));
    eventually("both are busy", || ["n2", "n3"].iter().all(is_busy));
    eventually("nothing moves for a minute of the policy's", || {
        let before = arrivals(&lab).len();
        std::thread::sleep(Duration::from_secs(60) / PACE);
        arrivals(&lab).len() == before
    });
    ok(&lab, "n4", &["policy", "set", "guests=on"]);
    let there = || arrivals(&lab).into_iter().filter(|(_, node)| node == "n4").map(|(s, _)| s).collect::<Vec<f64>>();
    eventually("n4 takes its part", || there().len() >= 2);
    let come = there();
    let soon = come.iter().filter(|s| **s - come[0] < 3.0 / f64::from(PACE)).count();
    assert!(soon <= 3, "{soon} came within three seconds of the policy's");
    all.iter_mut().for_each(|child| child.kill().and_then(|()| child.wait()).map(drop).unwrap());
}

#[test]
fn scenarios_run_on_real_processes_and_are_resumed() {
    // A share that all have, whatever the machine's own host takes.
    let options = Options { cpus: Some(0.5), ..common::options(17) };
    let lab = common::lab_of(&options);
    let kept = "/tmp/table1.jsonl";
    let run = |rows: &str| {
        let words = ["bench", "table1", "--scale", "1000", "--columns", "static,refined", "--resume", kept, "--json"];
        let done = tern(&lab, "n1", &[&words[..], &["--rows", rows]].concat());
        assert!(done.status.success(), "{}", done.errors());
        let outcomes: Value = serde_json::from_slice(&done.stdout).unwrap();
        (outcomes.as_array().unwrap().clone(), done.errors())
    };
    let (outcomes, said) = run("2");
    assert_eq!(outcomes.len(), 2);
    assert!(outcomes.iter().all(|o| o["jobs"] == 2
        && o["fluid_s"].as_f64().is_some_and(|s| (s - 300.0).abs() < 1e-6)
        && o["core_speed"].as_f64() > Some(0.0)
        && o["makespan_s"].as_f64() > Some(0.0)));
    // The factors come first.
    assert!(said.starts_with("table1: time is divided by 1000 for the jobs, and by 1 for the policy"), "{said}");
    assert_eq!(said.lines().count(), 3, "{said}");
    let (outcomes, said) = run("2,3");
    assert_eq!((outcomes.len(), said.lines().count()), (4, 3), "{said}");
    assert!(fails(&lab, &["bench", "table1", "--scale", "0"]).contains("from 1 to 1000"));
}

/// Programs that compute, of the lab's root, started at home by this prefix; they end when this is
/// dropped.
struct Spinners(Vec<std::process::Child>);

impl Spinners {
    fn start(lab: &Lab, prefix: &[&str], count: usize) -> Spinners {
        let words = [&["timeout", "--foreground", "-s", "KILL", "200"], prefix, &["sh", "-c", "while :; do :; done"]];
        Spinners((0..count).map(|_| lab.spawn("n1", words.concat()).unwrap()).collect())
    }
}

impl Drop for Spinners {
    fn drop(&mut self) {
        for child in &mut self.0 {
            child.kill().and_then(|()| child.wait()).map(drop).unwrap();
        }
    }
}

#[test]
fn home_is_a_node_like_others() {
    let lab = common::lab_of(&lab::Options { cpus: Some(0.3), ..common::options(3) });
    for on in ["home", "n1"] {
        let output = tern(&lab, "n1", &["run", "--on", on, "--", "sh", "-c", "echo $0 ran; exit 3"]);
        assert_eq!((output.status.code(), output.text().trim()), (Some(3), "sh ran"), "{}", output.errors());
    }
    let three = Spinners::start(&lab, &["tern", "run", "--"], 3);
    eventually("two are away", || places(&lab) == ["n2", "n3"]);
    eventually("one runs at home", || (200..u64::MAX).contains(&load(&lab, "n1", "runnable_milli")));
    // `timeout` passes no SIGKILL on. The node has processes of its own alone.
    lab.exec("n1", ["pkill", "-KILL", "-f", "while :; do :; done"]).unwrap();
    drop(three);
    eventually("nobody is away", || places(&lab).is_empty());
    // What was placed is brought home to a core that is idle.
    ok(&lab, "n1", &["policy", "set", "moves=on"]);
    let _three = Spinners::start(&lab, &["tern", "run", "--on", "n2", "--movable", "--"], 3);
    eventually("each node has one", || {
        places(&lab) == ["n2", "n3"] && (200..u64::MAX).contains(&load(&lab, "n1", "runnable_milli"))
    });
}

#[test]
fn root_puts_a_process_tree_in_scope() {
    let lab = common::lab_of(&lab::Options { cpus: Some(0.3), ..common::options(3) });
    ok(&lab, "n1", &["policy", "set", "moves=on"]);
    let script = "echo $$; (while :; do :; done) & (while :; do :; done) & (while :; do :; done) & wait";
    let mut tree = lab.spawn("n1", ["timeout", "--foreground", "-s", "KILL", "200", "sh", "-c", script]).unwrap();
    let mut pid = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(tree.stdout.take().unwrap()), &mut pid).unwrap();
    let pid = pid.trim();
    let scope = format!("scope=tree:{pid}");
    let why = ok(&lab, "n1", &["why", pid]);
    assert!(why.contains(&format!("`tern policy set {scope}`")) && !why.contains("scope=mine"), "{why}");
    ok(&lab, "n1", &["policy", "set", &scope]);
    assert!(!ok(&lab, "n1", &["why", pid]).contains("not in scope"));
    assert!(setting(&lab, &[], "scope").contains(&format!("tree:{pid}")));
    eventually("two of its three children go away", || places(&lab) == ["n2", "n3"]);
    let as_user = lab.exec("n1", [&AS_USER[..], &["tern", "policy", "set", &scope]].concat()).unwrap();
    assert!(as_user.errors().contains("another user's process in scope is for root"), "{}", as_user.errors());
    ok(&lab, "n1", &["policy", "set", &format!("scope=-tree:{pid}"), "scope=user:root"]);
    assert_eq!(setting(&lab, &[], "scope"), "tern + mine");
    ok(&lab, "n1", &["policy", "set", "scope=-user:root", "scope=started"]);
    assert_eq!(setting(&lab, &[], "scope"), "tern");
    lab.exec("n1", ["pkill", "-KILL", "-P", pid]).unwrap();
    tree.kill().and_then(|()| tree.wait()).unwrap();
}
