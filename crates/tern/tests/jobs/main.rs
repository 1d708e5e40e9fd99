//! Jobs: processes that belong together, as `tern job` starts, lists, signals and stops them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../common/mod.rs"]
mod common;

use std::process::Child;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use common::eventually;
use lab::{Lab, Output};

/// The lab that all tests share; the last test that holds it takes it down.
fn shared() -> Arc<Lab> {
    static SHARED: Mutex<Weak<Lab>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let lab = Arc::new(common::lab_of(&common::options(2)));
        *shared = Arc::downgrade(&lab);
        lab
    })
}

fn at_home(lab: &Lab, script: &str) -> Output {
    lab.exec("n1", ["timeout", "--foreground", "60", "bash", "-c", script]).unwrap()
}

fn as_user(lab: &Lab, user: u32, words: &str) -> Output {
    at_home(lab, &format!("setpriv --reuid {user} --regid {user} --clear-groups -- {words}"))
}

/// The output of `tern job show NAME --json`; `None` if there is no such job.
fn shown(lab: &Lab, name: &str) -> Option<serde_json::Value> {
    let output = at_home(lab, &format!("tern job show {name} --json"));
    output.status.success().then(|| serde_json::from_str(&output.text()).unwrap())
}

/// The commands of a job's processes, with their nodes and states.
fn processes(lab: &Lab, name: &str) -> Vec<(String, Option<String>, String)> {
    let job = shown(lab, name).unwrap_or_default();
    let rows = job["processes"].as_array().cloned().unwrap_or_default();
    let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
    rows.iter().map(|row| (text(&row["command"]).unwrap(), text(&row["node"]), text(&row["state"]).unwrap())).collect()
}

/// A job with a child, an orphan that leads a session of its own, and a process on n2.
fn begin(lab: &Lab, name: &str) -> Child {
    let script = "sleep 1001 & (setsid sleep 1002 &); tern run --on n2 -- sleep 1003; exit 7";
    let child = lab.spawn("n1", ["tern", "job", "run", "--name", name, "sh", "-c", script]).unwrap();
    eventually("all processes of the job are there", || {
        let all = processes(lab, name);
        let has = |word: &str, node: Option<&str>| all.iter().any(|p| p.0.ends_with(word) && p.1.as_deref() == node);
        all.len() == 4 && has("1001", None) && has("1002", None) && has("1003", Some("n2"))
    });
    child
}

#[test]
fn a_job_is_all_that_its_command_starts() {
    let lab = shared();
    let mut command = begin(&lab, "whole");
    assert!(at_home(&lab, "pkill -f '^sleep 1003'").status.success());
    assert_eq!(command.wait().unwrap().code(), Some(7), "the status of the command");
    // Processes that it left behind are the job's still.
    assert_eq!(processes(&lab, "whole").len(), 2);
    let killed = at_home(&lab, "tern job kill whole --json");
    assert!(killed.status.success(), "{}", killed.errors());
    assert_eq!(at_home(&lab, "tern job wait whole --for 30s").status.code(), Some(0));
    // A job that has ended is waited for, too; one that never was is not.
    assert_eq!(at_home(&lab, "tern job wait whole").status.code(), Some(0));
    let unknown = at_home(&lab, "tern job wait never");
    assert_eq!((unknown.status.code(), unknown.errors().contains("there is no job never")), (Some(1), true));
}

#[test]
fn a_suspended_job_stands_still_everywhere() {
    let lab = shared();
    let mut command = begin(&lab, "still");
    assert!(at_home(&lab, "tern job suspend still").status.success());
    eventually("all stand still", || processes(&lab, "still").iter().all(|process| process.2 == "T"));
    assert_eq!(shown(&lab, "still").unwrap()["suspended"], true);
    assert_eq!(at_home(&lab, "tern job wait still --for 200ms").status.code(), Some(1));
    assert!(at_home(&lab, "tern job resume still").status.success());
    eventually("all go on", || processes(&lab, "still").iter().all(|process| process.2 == "S"));
    assert!(at_home(&lab, "tern job kill -s KILL still").status.success());
    assert_eq!(at_home(&lab, "tern job wait still").status.code(), Some(0));
    command.wait().unwrap();
}

/// A chain of processes that grows all the time: none escapes.
#[test]
fn a_job_that_grows_is_killed_whole() {
    let lab = shared();
    let script = "grow() { sleep 0.02; grow & wait; }; grow";
    let mut command = lab.spawn("n1", ["tern", "job", "run", "--name", "grows", "bash", "-c", script]).unwrap();
    eventually("it grows", || processes(&lab, "grows").len() > 20);
    assert!(at_home(&lab, "tern job suspend grows && tern job kill -s KILL grows").status.success());
    assert_eq!(at_home(&lab, "tern job wait grows --for 30s").status.code(), Some(0));
    command.wait().unwrap();
    let left = at_home(&lab, "ps -e -o args= | grep -c '[g]row()'");
    assert_eq!(left.text().trim(), "0");
}

#[test]
fn running_processes_become_a_job() {
    let lab = shared();
    let begun = at_home(&lab, "sh -c 'sleep 1004 & sleep 1005 & wait' > /dev/null 2>&1 & echo $!");
    let pid = begun.text();
    let adopted = at_home(&lab, &format!("tern job adopt --name taken {pid}"));
    assert!(adopted.status.success(), "{}", adopted.errors());
    assert_eq!(processes(&lab, "taken").len(), 3);
    let again = at_home(&lab, &format!("tern job adopt {pid}"));
    assert!(again.errors().contains("belongs to job taken"), "{}", again.errors());
    let name_in_use = at_home(&lab, "tern job run --name taken true");
    assert_eq!(name_in_use.status.code(), Some(125));
    assert!(name_in_use.errors().contains("there is a job taken already"), "{}", name_in_use.errors());
    assert!(at_home(&lab, "tern job kill taken && tern job wait taken --for 30s").status.success());
}

#[test]
fn users_have_jobs_of_their_own() {
    let lab = shared();
    let begun = as_user(&lab, 2021, "sh -c 'sleep 1006 > /dev/null 2>&1 & echo $!'");
    let pid = begun.text();
    let stolen = as_user(&lab, 2022, &format!("tern job adopt {pid}"));
    assert!(stolen.errors().contains("another user's process"), "{}", stolen.errors());
    let own = as_user(&lab, 2021, &format!("tern job adopt --name own {pid}"));
    assert!(own.status.success(), "{}", own.errors());
    for words in ["show own", "kill own", "suspend own", "wait own"] {
        let other = as_user(&lab, 2022, &format!("tern job {words}"));
        assert!(other.errors().contains("there is no job own"), "{words}: {}", other.errors());
    }
    assert_eq!(as_user(&lab, 2022, "tern job ls --json").text().trim(), "[]");
    let killed = as_user(&lab, 2021, "tern job kill own --json");
    assert!(killed.status.success(), "{}", killed.errors());
    assert_eq!(as_user(&lab, 2021, "tern job wait own --for 30s").status.code(), Some(0));
}

#[test]
fn a_command_that_cannot_run_has_the_status_of_env() {
    let lab = shared();
    assert_eq!(at_home(&lab, "tern job run nosuch").status.code(), Some(127));
    assert_eq!(at_home(&lab, "tern job run /etc/passwd").status.code(), Some(126));
    assert_eq!(at_home(&lab, "tern job run sh -c 'kill -TERM $$'; echo $?").text().trim(), "143");
}
