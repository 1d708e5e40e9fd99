//! A steward or a warden that fails on one guest's account loses that guest alone. Only in builds
//! with the feature `faults`.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use lab::Lab;

use crate::{lab_with_faults as lab, wait_for};

/// Answers each line with what is in its file after it has added the line, by way of a child and a
/// pipe.
const BYSTANDER: &str = r#"while read line; do echo $line >> $0; cat $0 | tr '\n' ' '; echo; done"#;

/// A placed program that is talked to.
struct Guest {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Guest {
    fn place(lab: &Lab, words: &[&str]) -> Guest {
        let argv = ["tern", "run", "--on", "n2", "--"].iter().chain(words);
        let mut command = lab.in_node("n1", argv);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (to, from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Guest { child, to, from }
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    fn ask(&mut self, line: &str) -> String {
        writeln!(self.to, "{line}").unwrap();
        self.hear()
    }
}

fn run_dir(lab: &Lab, node: &str) -> PathBuf {
    lab.root(node).unwrap().join("run/tern")
}

/// What the victim does when it is told to, the fault that is met then, and where; a signal that it
/// is sent from home, if that is it.
struct Case {
    does: &'static str,
    fault: &'static str,
    node: &'static str,
    signal: Option<&'static str>,
}

const fn case(fault: &'static str, node: &'static str, does: &'static str) -> Case {
    Case { does, fault, node, signal: None }
}

const SLEEPS: &str = "exec sleep 600";

const CASES: [Case; 7] = [
    case("exec", "n1", SLEEPS),
    Case { signal: Some("-USR1"), ..case("signal", "n1", SLEEPS) },
    case("file content", "n1", "exec cat /tmp/fresh"),
    case("exec there", "n2", SLEEPS),
    Case { signal: Some("-USR1"), ..case("signal there", "n2", SLEEPS) },
    case("nice there", "n2", "exec nice -n 5 sleep 600"),
    case("look there", "n2", "exec cat /proc/loadavg"),
];

/// Before, the room ended, and with it all of its guests; or a thread of the warden did, and all of
/// them waited for ever.
#[test]
fn who_makes_tern_fail_is_lost_alone() {
    let lab = lab(2);
    fs::write(lab.root("n1").unwrap().join("tmp/fresh"), "fresh").unwrap();
    let mut bystanders: Vec<Guest> =
        (0..3).map(|n| Guest::place(&lab, &["sh", "-c", BYSTANDER, &format!("/tmp/by{n}")])).collect();
    let mut said = String::new();
    for case in &CASES {
        ask_all(&mut bystanders, &mut said, "before");
        let (output, why) = fail(&lab, case);
        let failed = if case.node == "n1" { "the steward failed" } else { "the warden failed" };
        for words in [failed, &format!("the fault at {}", case.fault), "ends as if killed"] {
            assert!(output.contains(words), "{}: {words:?} is not in what it says: {output:?}", case.fault);
        }
        assert_eq!(why, Some(libc::SIGKILL), "{}", case.fault);
        let log = fs::read_to_string(run_dir(&lab, case.node).join("log/tern.log")).unwrap();
        assert!(log.contains(&format!("the fault at {}", case.fault)) && log.contains(failed), "{log}");
        ask_all(&mut bystanders, &mut said, "after");
    }
    for Guest { mut child, to, .. } in bystanders {
        drop(to);
        assert!(child.wait().unwrap().success());
    }
}

fn ask_all(bystanders: &mut [Guest], said: &mut String, line: &str) {
    said.push_str(line);
    for (n, bystander) in bystanders.iter_mut().enumerate() {
        assert_eq!(bystander.ask(line), *said, "bystander {n}");
    }
    said.push(' ');
}

/// Has a victim meet the fault: what it says on standard error, and the signal that ended it, as
/// its parent sees it.
fn fail(lab: &Lab, case: &Case) -> (String, Option<i32>) {
    let mut victim = Guest::place(lab, &["sh", "-c", &format!("trap : USR1; echo $$; read line; {}", case.does)]);
    let pid = victim.hear();
    let dir = run_dir(lab, case.node);
    let fault = format!("{}:panic", case.fault);
    match case.signal {
        Some(signal) => {
            fs::write(dir.join("fault"), fault).unwrap();
            assert!(lab.exec("n1", ["kill", signal, &pid]).unwrap().status.success());
        }
        None => {
            fs::write(dir.join("fault"), fault).unwrap();
            writeln!(victim.to).unwrap();
        }
    }
    wait_for("the fault to be met", || dir.join("fault.done").exists());
    fs::remove_file(dir.join("fault.done")).unwrap();
    let mut output = String::new();
    victim.child.stderr.take().unwrap().read_to_string(&mut output).unwrap();
    let status = victim.child.wait().unwrap();
    (output, status.signal().or(status.code().filter(|code| *code > 128).map(|code| code - 128)))
}
