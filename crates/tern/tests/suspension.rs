//! A home that is suspended: its processes elsewhere stand still, are waited for, and go on.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::time::{Duration, Instant};

use common::eventually;
use lab::{Lab, Output};
use serde_json::Value;

/// Silence that ends a link of these labs.
const LINK_TIMEOUT: Duration = Duration::from_millis(2000);
/// How long a laptop sleeps here: five times that, and more.
const SLEEP: Duration = Duration::from_millis(11_000);

fn tern(lab: &Lab, node: &str, args: &[&str]) -> Output {
    lab.exec(node, [&["tern"], args].concat()).unwrap()
}

fn ok(lab: &Lab, node: &str, args: &[&str]) -> String {
    let output = tern(lab, node, args);
    assert!(output.status.success(), "tern {args:?} on {node}: {}{}", output.text(), output.errors());
    output.text()
}

fn json(lab: &Lab, node: &str, args: &[&str]) -> Value {
    serde_json::from_slice(&tern(lab, node, &[args, &["--json"]].concat()).stdout).unwrap()
}

fn impatient_lab(nodes: u32) -> Lab {
    let lab = common::lab_of(&common::options(nodes));
    let timeout = format!("link_timeout_ms={}", LINK_TIMEOUT.as_millis());
    (1..=nodes).for_each(|n| drop(ok(&lab, &format!("n{n}"), &["policy", "set", &timeout])));
    lab
}

/// How one node sees another one.
fn state(lab: &Lab, seen_by: &str, node: &str) -> String {
    let rows = json(lab, seen_by, &["nodes"]);
    let row = rows.as_array().unwrap().iter().find(|row| row["name"] == node).unwrap();
    row["state"].as_str().unwrap().to_owned()
}

/// CPU time of the guests of n1 on a node, microseconds.
fn used_us(lab: &Lab, node: &str) -> u64 {
    let guests = json(lab, node, &["guests"]);
    let guests = guests.as_array().unwrap().iter().filter(|guest| guest["home"] == "n1");
    guests.map(|guest| guest["cpu_us"].as_u64().unwrap()).sum()
}

/// A program of n1's that runs on n2.
struct Program {
    child: Child,
    input: Option<ChildStdin>,
    lines: BufReader<std::process::ChildStdout>,
}

impl Program {
    fn start(lab: &Lab, script: &str) -> Program {
        let argv = ["tern", "run", "--on", "n2", "--", "perl", "-e", script];
        let mut command = lab.in_node("n1", argv);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut program = Program { input: child.stdin.take(), child, lines };
        assert_eq!(program.line(), "up");
        program
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    fn ends_well(mut self) {
        drop(self.input.take());
        assert!(self.child.wait().unwrap().success(), "{}", self.errors());
    }

    fn errors(&mut self) -> String {
        let mut text = String::new();
        let mut stderr = self.child.stderr.take().unwrap();
        std::io::Read::read_to_string(&mut stderr, &mut text).unwrap();
        text
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Computes, and counts at home so seldom that its pipe is never full.
const COUNTS: &str = r#"$| = 1; print "up\n"; $n = 0; for (;;) { $x += $_ for 1 .. 300000; print ++$n, "\n"; }"#;
/// Says which lines have come from home.
const READS: &str = r#"$| = 1; print "up\n"; while (<STDIN>) { print "got $_" }"#;
/// Sleeps with a timer, and says that it was not woken early.
const SLEEPS: &str = r#"$| = 1; $SIG{ALRM} = sub { print "alarm\n" }; print "up\n"; alarm 4; $s = time;
    select undef, undef, undef, 30 while time - $s < 4; print "slept\n""#;

/// The machine of a node, asleep while this lives: its processes stand still, and its links are
/// cut.
struct Asleep<'a> {
    lab: &'a Lab,
    node: &'static str,
    others: Vec<&'static str>,
    file: PathBuf,
}

impl<'a> Asleep<'a> {
    /// `None`: this machine has no way to stop all processes of a node at once.
    fn fall(lab: &'a Lab, node: &'static str, others: &[&'static str]) -> Option<Asleep<'a>> {
        let groups: Vec<&Path> = lab.state().node(node).unwrap().whole_cgroups().collect();
        let files = groups.iter().flat_map(|group| [group.join("freezer.state"), group.join("cgroup.freeze")]);
        let Some(file) = files.into_iter().find(|file| file.exists()) else {
            skip::test("no control group of the lab has a freezer");
            return None;
        };
        let asleep = Asleep { lab, node, others: others.to_vec(), file };
        asleep.others.iter().for_each(|other| lab.cut(node, other).unwrap());
        asleep.write(true);
        Some(asleep)
    }

    fn write(&self, stands: bool) {
        let unified = self.file.ends_with("cgroup.freeze");
        let word = match (unified, stands) {
            (true, stands) => {
                if stands {
                    "1"
                } else {
                    "0"
                }
            }
            (false, stands) => {
                if stands {
                    "FROZEN"
                } else {
                    "THAWED"
                }
            }
        };
        std::fs::File::options().write(true).open(&self.file).unwrap().write_all(word.as_bytes()).unwrap();
    }
}

impl Drop for Asleep<'_> {
    fn drop(&mut self) {
        self.write(false);
        self.others.iter().for_each(|other| self.lab.heal(self.node, other).unwrap());
    }
}

/// Puts n1 to sleep for so long, with three programs on n2, and looks at what becomes of them.
fn a_home_sleeps_for(time: Duration) {
    let lab = impatient_lab(3);
    let (mut counting, mut reading) = (Program::start(&lab, COUNTS), Program::start(&lab, READS));
    let mut sleeping = Program::start(&lab, SLEEPS);
    writeln!(reading.input.as_mut().unwrap(), "before").unwrap();
    assert_eq!((reading.line(), counting.line()), ("got before".into(), "1".into()));
    let said = ok(&lab, "n1", &["suspend"]);
    assert!(said.contains("1 rooms and 2 nodes wait"), "{said}");
    for node in ["n1", "n2", "n3"] {
        assert_eq!(state(&lab, node, "n1"), "suspended", "seen by {node}");
    }
    let pid = json(&lab, "n1", &["ps"])[0]["guest"]["pid"].to_string();
    for args in [["move", &pid, "home", "--json"].as_slice(), &["run", "--on", "n2", "--", "perl"]] {
        let refused = tern(&lab, "n1", args);
        assert!(refused.errors().contains("the room on n2 is suspended"), "{args:?}: {}", refused.errors());
    }
    let refused = tern(&lab, "n2", &["run", "--on", "n1", "--", "tern"]);
    assert!(refused.errors().contains("n1 is suspended"), "{}", refused.errors());
    let Some(asleep) = Asleep::fall(&lab, "n1", &["n2", "n3"]) else { return };
    let (begun, before_us) = (Instant::now(), used_us(&lab, "n2"));
    assert!(before_us > 0);
    while begun.elapsed() < time {
        assert_eq!(used_us(&lab, "n2"), before_us, "a body runs after {:?}", begun.elapsed());
        assert_eq!([state(&lab, "n2", "n1"), state(&lab, "n3", "n1")], ["suspended", "suspended"]);
        std::thread::sleep(Duration::from_millis(250));
    }
    assert!(ok(&lab, "n2", &["guests"]).contains("home suspended for "));
    drop(asleep);
    ok(&lab, "n1", &["resume"]);
    writeln!(reading.input.as_mut().unwrap(), "after").unwrap();
    assert_eq!(reading.line(), "got after");
    let numbers = (2..100).find(|n| counting.line() != n.to_string());
    assert_eq!(numbers, None, "a number was lost");
    assert_eq!([sleeping.line(), sleeping.line()], ["alarm", "slept"]);
    eventually("n1 is there again", || ["n2", "n3"].iter().all(|n| state(&lab, n, "n1") == "alive"));
    sleeping.ends_well();
    reading.ends_well();
    // Patience ends with the suspension.
    lab.cut("n1", "n2").unwrap();
    assert!(!counting.child.wait().unwrap().success());
    assert!(counting.errors().contains("which is lost"));
}

#[test]
fn bodies_of_a_home_that_sleeps_stand_still_and_go_on() {
    a_home_sleeps_for(SLEEP);
}

#[test]
#[ignore = "ten minutes"]
fn a_home_may_sleep_for_ten_minutes() {
    a_home_sleeps_for(Duration::from_secs(600));
}

#[test]
fn a_home_that_stays_away_is_waited_for_as_long_as_it_said() {
    let lab = impatient_lab(2);
    let mut reading = Program::start(&lab, READS);
    let begun = Instant::now();
    ok(&lab, "n1", &["suspend", "--for", "5s"]);
    let Some(asleep) = Asleep::fall(&lab, "n1", &["n2"]) else { return };
    eventually("the guest has ended", || json(&lab, "n2", &["guests"]).as_array().unwrap().is_empty());
    assert!(begun.elapsed() >= Duration::from_secs(5), "{:?}", begun.elapsed());
    let log = ok(&lab, "n2", &["log"]);
    assert!(log.contains("room ends: it was suspended for longer than was said (tern suspend --for)"), "{log}");
    drop(asleep);
    // Its steward may just be ending.
    tern(&lab, "n1", &["resume"]);
    drop(reading.input.take());
    assert!(!reading.child.wait().unwrap().success());
    let errors = reading.errors();
    assert!(errors.contains("which is lost"), "{errors}");
}

/// Has children that count, one after the other, and hears of each.
const FORKS: &str =
    r#"$| = 1; print "up\n"; for (;;) { system "/bin/echo " . ++$n; $m = `/bin/echo $n`; die if $m != $n }"#;

#[test]
fn births_and_calls_outlive_many_suspensions() {
    let lab = impatient_lab(2);
    let (mut forking, mut counting) = (Program::start(&lab, FORKS), Program::start(&lab, COUNTS));
    let (mut forked, mut counted) = (0, 0);
    for _ in 0..15 {
        ok(&lab, "n1", &["suspend"]);
        let before_us = used_us(&lab, "n2");
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(used_us(&lab, "n2"), before_us);
        ok(&lab, "n1", &["resume"]);
        for (program, number) in [(&mut forking, &mut forked), (&mut counting, &mut counted)] {
            for _ in 0..7 {
                *number += 1;
                assert_eq!(program.line(), number.to_string());
            }
        }
    }
    eventually("n1 is there again", || state(&lab, "n2", "n1") == "alive");
}

/// The machine does not wait for a large memory to leave.
#[test]
fn a_guest_that_cannot_leave_sleeps_with_its_node() {
    let lab = impatient_lab(2);
    let large = COUNTS.replace(r#"$n = 0;"#, r#"$large = "x" x 200_000_000; $n = 0;"#);
    let mut counting = Program::start(&lab, &large);
    assert_eq!(counting.line(), "1");
    ok(&lab, "n2", &["suspend"]);
    assert_eq!(state(&lab, "n1", "n2"), "suspended");
    let Some(asleep) = Asleep::fall(&lab, "n2", &["n1"]) else { return };
    std::thread::sleep(SLEEP);
    assert!(!json(&lab, "n1", &["ps"]).as_array().unwrap().is_empty(), "{}", counting.errors());
    drop(asleep);
    ok(&lab, "n2", &["resume"]);
    let numbers = (2..100).find(|n| counting.line() != n.to_string());
    assert_eq!(numbers, None, "a number was lost");
}

/// A node that hosts guests sends them away first.
#[test]
fn guests_leave_a_node_that_is_suspended() {
    let lab = impatient_lab(2);
    let mut counting = Program::start(&lab, COUNTS);
    let said = ok(&lab, "n2", &["suspend"]);
    eventually("the guest is home", || json(&lab, "n1", &["ps"]).as_array().unwrap().is_empty());
    assert!(said.contains("and 1 nodes wait"), "{said}");
    let numbers = (1..100).find(|n| counting.line() != n.to_string());
    assert_eq!(numbers, None, "a number was lost");
    ok(&lab, "n2", &["resume"]);
    eventually("n2 is there again", || state(&lab, "n1", "n2") == "alive");
}
