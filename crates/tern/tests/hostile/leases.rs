//! What a guest reads must not hold up those who write the file at home, whatever becomes of the
//! guest's node.

use std::time::{Duration, Instant};

use lab::Lab;

use crate::support::{at_home, wait_for};

/// The kernel itself would make a writer wait for 45 s; the room has one second.
const LONGEST: Duration = Duration::from_secs(5);

/// A guest of nobody's that reads a file all the time, and says what it has read.
fn reader(lab: &Lab) -> (std::process::Child, String) {
    let place = at_home(lab, "echo old > file; chmod 666 file; touch said; chmod 666 said; pwd").text();
    let script = format!("cd {place}; while :; do cat file >> said; sleep 0.05; done");
    let words = ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups", "--"];
    let words = [&words[..], &["tern", "run", "--on", "n2", "--", "sh", "-c", &script]].concat();
    let child = lab.spawn("n1", words).unwrap();
    wait_for("the guest to read", || has_said(lab, &place, "old"));
    (child, place)
}

fn has_said(lab: &Lab, place: &str, word: &str) -> bool {
    lab.exec("n1", ["grep", "-q", word, &format!("{place}/said")]).unwrap().status.success()
}

/// Writes the file at home, and says how long that took.
fn write(lab: &Lab, place: &str) -> Duration {
    let begun = Instant::now();
    assert!(lab.exec("n1", ["sh", "-c", &format!("echo new > {place}/file")]).unwrap().status.success());
    begun.elapsed()
}

fn has_breaking_lease(lab: &Lab) -> bool {
    lab.exec("n1", ["grep", "BREAKING", "/proc/locks"]).unwrap().status.success()
}

/// Ends what started the guest; the guest ends with its lab.
fn end(mut child: std::process::Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// A cut link. When it is mended the guest sees what was written meanwhile.
#[test]
fn a_cut_node_holds_up_no_writer() {
    let lab = crate::common::lab_of(&crate::common::options(2));
    let (child, place) = reader(&lab);
    lab.cut("n1", "n2").unwrap();
    let waited = write(&lab, &place);
    assert!(waited < LONGEST, "the writer waited for {waited:?}");
    wait_for("no lease to be breaking", || !has_breaking_lease(&lab));
    lab.heal("n1", "n2").unwrap();
    wait_for("the guest to read what is new", || has_said(&lab, &place, "new"));
    end(child);
}

/// A stopped warden: its link is there, and nobody answers.
#[test]
fn a_stopped_node_holds_up_no_writer() {
    let lab = crate::common::lab_of(&crate::common::options(2));
    let (child, place) = reader(&lab);
    let signal = |name: &str| {
        let named = |pid: &i32| {
            std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|c| c.windows(8).any(|w| w == b"__warden"))
        };
        for pid in lab.processes("n2").unwrap().into_iter().filter(named) {
            let _ = std::process::Command::new("kill").args([name, &pid.to_string()]).status();
        }
    };
    signal("-STOP");
    let waited = write(&lab, &place);
    signal("-CONT");
    assert!(waited < LONGEST, "the writer waited for {waited:?}");
    wait_for("the guest to read what is new", || has_said(&lab, &place, "new"));
    assert!(!has_breaking_lease(&lab));
    let doctor = lab.exec("n1", ["tern", "doctor"]).unwrap().text();
    assert!(doctor.contains("file leases") && doctor.contains("none breaking"), "{doctor}");
    end(child);
}
