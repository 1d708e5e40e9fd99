//! Rooms that are made at once, and rooms that fail while a program is handed to them.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use lab::Lab;

use crate::{lab_with_faults as lab, wait_for};

/// Users that begin programs at once; each has a room of its own on each node.
const USERS: u32 = 8;

fn run_dir(lab: &Lab) -> PathBuf {
    lab.root("n1").unwrap().join("run/tern")
}

/// A fault that the next steward of n1 that comes to it meets.
fn set_fault(lab: &Lab, fault: &str) {
    fs::write(run_dir(lab).join("fault"), fault).unwrap();
}

#[test]
fn rooms_that_are_made_at_once_wait_for_one_another() {
    let lab = lab(3);
    let placed: Vec<_> = (0..2 * USERS)
        .map(|n| {
            let (user, node) = ((2000 + n / 2).to_string(), if n % 2 == 0 { "n2" } else { "n3" });
            let argv = [
                "setpriv",
                "--clear-groups",
                "--reuid",
                &user,
                "--regid",
                &user,
                "tern",
                "run",
                "--on",
                node,
                "--",
                "id",
                "-u",
            ];
            let mut command = lab.in_node("n1", argv);
            (user.clone(), command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
        })
        .collect();
    for (user, child) in placed {
        let output = child.wait_with_output().unwrap();
        let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(said.trim(), user, "{errors}");
    }
}

/// Before, a steward had five seconds for what takes long on a busy machine.
#[test]
fn a_slow_steward_is_waited_for() {
    let lab = lab(2);
    set_fault(&lab, "connect:hang");
    let placed = lab.spawn("n1", ["tern", "run", "--on", "n2", "--", "echo", "placed"]).unwrap();
    wait_for("the steward to be slow", || run_dir(&lab).join("fault.done").exists());
    sleep(Duration::from_secs(7));
    fs::write(run_dir(&lab).join("fault.over"), "").unwrap();
    let output = placed.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "placed\n", "{}", String::from_utf8_lossy(&output.stderr));
}

/// Before, the first room that failed with a program was the last one that was tried.
#[test]
fn another_node_is_tried_when_a_room_fails() {
    let lab = lab(3);
    // Home, which has no room, is no choice here.
    assert!(lab.exec("n1", ["tern", "policy", "set", "home=off"]).unwrap().status.success());
    for (fault, on) in [
        ("place:error", None),
        ("place:kill", None),
        ("connect:error", None),
        ("connect:kill", None),
        ("place:error", Some("n2")),
    ] {
        set_fault(&lab, fault);
        let words = ["tern", "run"].into_iter().chain(on.iter().flat_map(|on| ["--on", *on]));
        let output = lab.exec("n1", words.chain(["--", "echo", "placed"])).unwrap();
        assert_eq!(output.text(), "placed", "{fault} {on:?}: {}", output.errors());
        assert!(run_dir(&lab).join("fault.done").exists(), "{fault} was not met");
        fs::remove_file(run_dir(&lab).join("fault.done")).unwrap();
    }
}
