//! What holds for every placed program: who it is at home, what the network shows, what is left
//! behind, what faults do.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod ceiling;
#[path = "../common/mod.rs"]
mod common;
#[cfg(feature = "faults")]
mod contained;
#[cfg(feature = "faults")]
mod crowd;
mod faults;
mod mapped;
mod meeting;
mod traces;
mod wire;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout};
use std::thread::sleep;
use std::time::{Duration, Instant};

use lab::{Lab, Output};

/// Long enough for anything on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

pub(crate) fn lab(nodes: u32) -> Lab {
    common::lab_of(&common::options(nodes))
}

/// A lab that runs the tern that was built with the tests: the optimised one has no faults.
#[cfg(feature = "faults")]
pub(crate) fn lab_with_faults(nodes: u32) -> Lab {
    Lab::up(env!("CARGO_BIN_EXE_tern"), &common::options(nodes)).unwrap()
}

/// What hangs fails.
const LIMITED: [&str; 4] = ["timeout", "--foreground", "--signal=KILL", "120"];

/// What a program prints, line by line, as it comes.
pub(crate) fn lines_of(child: &mut Child) -> std::io::Lines<BufReader<ChildStdout>> {
    BufReader::new(child.stdout.take().unwrap()).lines()
}

/// Waits for a condition.
pub(crate) fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < DEADLINE, "waited in vain for {what}");
        sleep(Duration::from_millis(10));
    }
}

/// `tern run --on NODE -- ARGV` at home, to its end.
pub(crate) fn placed(lab: &Lab, node: &str, argv: &[&str]) -> Output {
    lab.exec("n1", [&LIMITED[..], &["tern", "run", "--on", node, "--"], argv].concat()).unwrap()
}

/// A placed program under way, started by a shell at home that says its PID first.
pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) out: BufReader<ChildStdout>,
    /// PID at home (in n1).
    pub(crate) pid: i32,
}

impl Running {
    pub(crate) fn start(lab: &Lab, node: &str, argv: &[&str]) -> Running {
        let shell = ["sh", "-c", "echo $$; exec tern run --on \"$0\" -- \"$@\"", node];
        let mut child = lab.spawn("n1", [&LIMITED[..], &shell[..], argv].concat()).unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        Running { child, out, pid: line.trim().parse().unwrap() }
    }

    /// The next line that the program prints.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Its end, what it printed last, and its errors.
    pub(crate) fn end(mut self) -> (std::process::ExitStatus, String, String) {
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        let output = self.child.wait_with_output().unwrap();
        (output.status, rest, String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// A program that prints a line and then waits for the end of its input.
pub(crate) const WAITS: [&str; 3] =
    ["/usr/bin/python3", "-c", "import sys; print('ready', flush=True); sys.stdin.read()"];

/// A program that counts, ten lines a second, until its input ends.
pub(crate) const COUNTS: [&str; 3] = [
    "/usr/bin/python3",
    "-c",
    "import sys, time, threading\nend, n = False, 0\nthreading.Thread(target=lambda: (sys.stdin.read(), globals().update(end=True))).start()\nwhile not end:\n    n += 1; print(n, flush=True); time.sleep(0.1)",
];

#[test]
fn the_process_at_home_is_the_program() {
    let lab = lab(2);
    let script = "tern run --on n2 -- sh -c 'echo $$ $PPID; read line' <&3 & pid=$!; echo $pid $$; wait $pid";
    let mut child = lab.spawn("n1", ["sh", "-c", &format!("exec 3<&0; {script}")]).unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let (mut first, mut second) = (String::new(), String::new());
    out.read_line(&mut first).unwrap();
    out.read_line(&mut second).unwrap();
    assert_eq!(first, second, "PID and parent: as the program sees them, and as its shell does");
    let pid: i32 = first.split(' ').next().unwrap().parse().unwrap();
    let home = lab.root("n1").unwrap().join(format!("proc/{pid}"));
    assert_eq!(fs::read_to_string(home.join("comm")).unwrap(), "sh\n");
    assert_eq!(fs::read_to_string(home.join("cmdline")).unwrap(), "sh\0-c\0echo $$ $PPID; read line\0");
    let rows = lab.exec("n1", ["tern", "ps", "--json"]).unwrap();
    assert!(
        rows.text().contains(&format!("\"pid\":{pid}")) || rows.text().contains(&format!("\"pid\": {pid}")),
        "{rows:?}"
    );
    drop(child.stdin.take());
    child.wait().unwrap();
}

/// Mounts of single files, which containers have, too: n1's own host name lies over this machine's,
/// and the tern binary over an empty file.
#[test]
fn files_that_are_mounts_are_seen() {
    let lab = lab(2);
    assert_eq!(placed(&lab, "n2", &["cat", "/etc/hostname"]).text(), "n1");
    let version = lab.exec("n1", ["tern", "--version"]).unwrap().text();
    assert_eq!(placed(&lab, "n2", &["/run/lab/bin/tern", "--version"]).text(), version);
}

/// Every row is measured; how fast is no matter here.
#[test]
fn a_citizen_can_be_measured() {
    let lab = lab(2);
    let output =
        lab.exec("n1", [&LIMITED[..], &["tern", "bench", "citizen", "--on", "n2", "--quick", "--json"]].concat());
    let output = output.unwrap();
    let rows: serde_json::Value =
        serde_json::from_str(&output.text()).unwrap_or_else(|_| panic!("{}", output.errors()));
    let rows = rows.as_array().unwrap();
    assert!(rows.len() >= 10, "{rows:?}");
    assert!(rows.iter().all(|row| row["placed"].as_f64() > Some(0.0)), "{rows:?}");
}

#[test]
fn signals_to_the_process_at_home_end_the_body() {
    let lab = lab(2);
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGKILL, libc::SIGQUIT, libc::SIGHUP] {
        let mut running = Running::start(&lab, "n2", &["/bin/cat"]);
        std::io::Write::write_all(running.child.stdin.as_mut().unwrap(), b"x\n").unwrap();
        assert_eq!(running.line(), "x");
        let bodies = || lab.processes("n2").unwrap().into_iter().filter(|pid| comm(*pid) == "cat").count();
        assert_eq!(bodies(), 1);
        let kill = lab.exec("n1", ["sh", "-c", &format!("kill -{signal} {}", running.pid)]).unwrap();
        assert!(kill.status.success(), "{kill:?}");
        let (status, _, errors) = running.end();
        assert_eq!(status.signal(), Some(signal), "{status} {errors}");
        wait_for("the body to end", || bodies() == 0);
    }
}

/// Name of a process, as this machine sees it.
pub(crate) fn comm(pid: i32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

#[test]
fn errors_have_their_status_and_words() {
    let lab = lab(3);
    let says = |output: Output, code: i32, words: &str| {
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        assert!(output.errors().contains(words), "{:?} does not say {words:?}", output.errors());
    };
    says(placed(&lab, "n9", &["true"]), 125, "n9");
    says(placed(&lab, "n2", &["no-such-program"]), 127, "no-such-program");
    says(placed(&lab, "n2", &["/etc/passwd"]), 126, "/etc/passwd");
    says(placed(&lab, "n2", &["/"]), 126, "/");
    assert_eq!(placed(&lab, "n2", &["sh", "-c", "exit 77"]).status.code(), Some(77));
    assert_eq!(lab.exec("n1", ["tern", "run", "--", "echo", "somewhere"]).unwrap().text(), "somewhere");
    lab.kill_node("n3").unwrap();
    wait_for("n3 to be refused in words", || {
        let output = placed(&lab, "n3", &["true"]);
        output.status.code() == Some(125) && output.errors().contains("n3")
    });
    // One node hosts several homes, and one home uses many nodes.
    assert_eq!(placed(&lab, "n2", &["hostname"]).text(), "n1");
}

#[test]
fn whoever_was_told_sees_the_news() {
    let lab = lab(3);
    let program = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/placing/coherence.py")).unwrap();
    fs::write(lab.root("n1").unwrap().join("tmp/coherence.py"), program).unwrap();
    for (writer, reader) in [("home", "n3"), ("n2", "n3"), ("n2", "home")] {
        let run = format!(
            "cd /tmp && rm -rf shared && mkdir shared && exec /usr/bin/python3 coherence.py 10000 {writer} {reader}"
        );
        let output = lab.exec("n1", ["sh", "-c", &run]).unwrap();
        assert!(output.status.success(), "{writer} to {reader}: {}{}", output.text(), output.errors());
    }
}

/// The kernel of the node forgets the name of a directory that is renamed at home, and says of who
/// is in it that it was removed. The paths of sockets were then resolved somewhere else, without a
/// word.
#[test]
fn sockets_are_made_in_the_working_directory_or_not_at_all() {
    const PROGRAM: &str = r#"
import os, socket, time
os.chdir('d')
open('../in', 'w').close()
while not os.path.exists('/tmp/renamed/go'): time.sleep(0.01)
try: socket.socket(socket.AF_UNIX).bind('a.socket'); print('bound')
except OSError as e: print(e.strerror)
"#;
    const SCRIPT: &str = r#"
rm -rf /tmp/renamed; mkdir -p /tmp/renamed/d; cd /tmp/renamed
tern run --on n2 --any-cpu -- python3 -c "$1" & pid=$!
until [ -e in ]; do sleep 0.01; done
mv d e; [ "$0" = away ] || mv e d
touch go; wait $pid; rm go in; find . -mindepth 1 | sort"#;
    let lab = lab(2);
    let run = |how| lab.exec("n1", [&LIMITED[..], &["sh", "-c", SCRIPT, how, PROGRAM]].concat()).unwrap().text();
    assert_eq!(run("back"), "bound\n./d\n./d/a.socket");
    assert_eq!(run("away"), "No such file or directory\n./e");
}
