//! Stewards, wardens and links that die while programs are away. Each test breaks a lab of its own.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, Output};

use lab::Lab;

use crate::{PYTHON, common, count, wait_for};

fn lab(nodes: u32) -> Lab {
    common::lab_of(&common::options(nodes))
}

/// PIDs of the processes of this role on a node.
fn role(lab: &Lab, node: &str, role: &str) -> Vec<i32> {
    let plays = |pid: &i32| {
        std::fs::read(format!("/proc/{pid}/cmdline"))
            .unwrap_or_default()
            .split(|b| *b == 0)
            .any(|w| w == role.as_bytes())
    };
    lab.processes(node).unwrap().into_iter().filter(plays).collect()
}

fn kill(pid: i32) {
    // SAFETY: a plain system call on a process of this test's lab that was alive a moment ago.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

/// A placed program that echoes lines.
struct Echo {
    child: Child,
    out: BufReader<ChildStdout>,
    /// PID at home.
    pid: i32,
}

impl Echo {
    fn start(lab: &Lab, node: &str) -> Echo {
        let program = "import sys\nprint('ready', flush=True)\nfor line in sys.stdin: print(line, end='', flush=True)";
        let script = format!("echo $$; exec tern run --on {node} -- {PYTHON} -c \"$0\"");
        let mut child = lab.spawn("n1", ["sh", "-c", &script, program]).unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let pid = line.trim().parse().unwrap();
        let mut echo = Echo { child, out, pid };
        assert_eq!(echo.line(), "ready\n");
        echo
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line
    }

    fn says(&mut self, line: &str) {
        use std::io::Write;
        self.child.stdin.as_mut().unwrap().write_all(line.as_bytes()).unwrap();
        assert_eq!(self.line(), line);
    }

    fn end(mut self) -> Output {
        let mut rest = Vec::new();
        self.out.read_to_end(&mut rest).unwrap();
        let output = self.child.wait_with_output().unwrap();
        Output { stdout: rest, ..output }
    }
}

fn died_with_words(end: &Output, node: &str) {
    let errors = String::from_utf8_lossy(&end.stderr);
    assert_eq!(end.status.signal(), Some(libc::SIGKILL), "{end:?}");
    assert!(errors.starts_with("tern: ") && errors.contains(node), "no word of it: {errors:?}");
}

fn places_again(lab: &Lab) {
    wait_for("placing to work again", || {
        lab.exec("n1", ["tern", "run", "--on", "n2", "--", "true"]).unwrap().status.success()
    });
}

#[test]
fn a_warden_that_dies_takes_its_guests_and_nothing_else() {
    let lab = lab(3);
    let mut here = Echo::start(&lab, "n2");
    let mut elsewhere = Echo::start(&lab, "n3");
    here.says("one\n");
    // The porter is forked from the warden and has its command line.
    let wardens = role(&lab, "n2", "__warden");
    kill(*wardens.iter().min().unwrap());
    died_with_words(&here.end(), "n2");
    elsewhere.says("still there\n");
    wait_for("bodies and room to go", || {
        role(&lab, "n2", "__warden").iter().all(|p| !wardens.contains(p)) && count(&lab, "n2", "python3") == 0
    });
    places_again(&lab);
    drop(elsewhere.child.stdin.take());
    assert!(elsewhere.end().status.success());
}

#[test]
fn a_steward_that_dies_takes_its_bodies() {
    let lab = lab(2);
    let mut guest = Echo::start(&lab, "n2");
    guest.says("one\n");
    // Its deputy is in a call by now, and hears nothing else.
    wait_for("the deputy to read", || {
        lab.exec("n1", ["cat", &format!("/proc/{}/syscall", guest.pid)]).unwrap().text().starts_with("0 0x0 ")
    });
    // The steward's heir is forked from it and has its command line.
    kill(*role(&lab, "n1", "__steward").iter().min().unwrap());
    let end = guest.end();
    assert_eq!(end.status.signal(), Some(libc::SIGKILL), "{end:?}");
    wait_for("body and room to go", || {
        role(&lab, "n2", "__warden").is_empty()
            && role(&lab, "n1", "__steward").is_empty()
            && count(&lab, "n2", "python3") == 0
    });
    places_again(&lab);
}

#[test]
fn a_guest_behind_a_cut_link_can_be_killed_and_goes_on_when_healed() {
    let lab = lab(2);
    let (mut killed, mut kept) = (Echo::start(&lab, "n2"), Echo::start(&lab, "n2"));
    killed.says("one\n");
    kept.says("one\n");
    lab.cut("n1", "n2").unwrap();
    let started = std::time::Instant::now();
    assert!(lab.exec("n1", ["kill", "-9", &killed.pid.to_string()]).unwrap().status.success());
    let end = killed.end();
    assert_eq!(end.status.signal(), Some(libc::SIGKILL), "{end:?}");
    assert_eq!(count(&lab, "n2", "python3"), 2, "nobody could tell the node");
    // Said while the link is cut, heard when it is healed; the five seconds are the outage that is
    // to be survived.
    {
        use std::io::Write;
        kept.child.stdin.as_mut().unwrap().write_all(b"two\n").unwrap();
    }
    std::thread::sleep(std::time::Duration::from_secs(5).saturating_sub(started.elapsed()));
    lab.heal("n1", "n2").unwrap();
    assert_eq!(kept.line(), "two\n");
    kept.says("three\n");
    wait_for("the killed body to end", || count(&lab, "n2", "python3") == 1);
    drop(kept.child.stdin.take());
    let end = kept.end();
    assert!(end.status.success() && end.stdout.is_empty(), "{end:?}");
}
