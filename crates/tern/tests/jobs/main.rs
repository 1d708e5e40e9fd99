//! Interactive programs on a terminal: natively and placed the same steps, with the same to be
//! seen.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../common/mod.rs"]
mod common;
mod pty;

use std::sync::{Arc, Mutex, PoisonError, Weak};

use lab::Lab;
use pty::Session;

/// One lab for all tests; it goes down with the last.
fn shared() -> Arc<Lab> {
    static SHARED: Mutex<Weak<Lab>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let lab = Arc::new(common::lab_of(&common::options(2)));
        *shared = Arc::downgrade(&lab);
        lab
    })
}

/// A program of home on a terminal, natively or placed on n2. It ends by itself after a minute, by
/// an alarm: timeout(1) would send it every Ctrl-C a second time.
fn on_terminal(lab: &Lab, placed: bool, words: &[&str]) -> Session {
    // No daemon of this machine's, no file of its user's, decides what is shown.
    let mut argv: Vec<&str> =
        "env -u BASH_ENV PS1=>> TERM=dumb INPUTRC=/dev/null HISTFILE= LC_ALL=C".split(' ').collect();
    argv.extend(["perl", "-e", "alarm 60; exec @ARGV"]);
    argv.extend(if placed { &["tern", "run", "--on", "n2", "--"][..] } else { &[] });
    argv.extend(words);
    Session::start(lab.in_node("n1", argv))
}

/// Runs the same at home and away.
fn both(words: &[&str], steps: impl Fn(&mut Session)) {
    both_end(words, 0, steps);
}

/// As [`both`], with this exit status.
fn both_end(words: &[&str], status: i32, steps: impl Fn(&mut Session)) {
    let lab = shared();
    for placed in [false, true] {
        let mut session = on_terminal(&lab, placed, words);
        steps(&mut session);
        assert_eq!(session.ends().code(), Some(status), "placed: {placed}");
    }
}

const BASH: &[&str] = &["bash", "--norc", "--noprofile", "-i"];

/// Types a command, and waits until it is in the foreground.
fn run(session: &mut Session, command: &str) -> i32 {
    let shell = session.foreground();
    session.keys(command);
    session.foreground_other_than(shell);
    shell
}

#[test]
fn a_shell_controls_its_jobs() {
    both(BASH, |session| {
        session.shows(">>");
        // A shell's child does not stop before it has its own program.
        session.keys("sh -c 'echo run\"\"ning; exec sleep 1000'\n");
        session.shows("\nrunning\r\n");
        session.keys("\x1a");
        session.shows("Stopped");
        session.shows(">>");
        run(session, "fg\n");
        session.keys("\x03");
        session.shows("^C");
        session.shows(">>");
        session.keys("echo status=$?\n");
        session.shows("\nstatus=130");
        session.shows(">>");
        session.keys("sleep 1000 & kill -STOP %1; while [ -z \"$(jobs -s)\" ]; do sleep 0.01; done; jobs\n");
        session.shows("\n[1]+  Stopped");
        session.shows(">>");
        session.keys("bg; jobs\n");
        session.shows("Running");
        session.shows(">>");
        session.keys("kill %1; wait %1; echo status=$?\n");
        session.shows("\nstatus=143");
        session.shows(">>");
        session.keys("exit 0\n");
    });
}

#[test]
fn the_background_may_not_read() {
    both(BASH, |session| {
        session.shows(">>");
        session.keys("cat & while [ -z \"$(jobs -s)\" ]; do sleep 0.01; done; jobs\n");
        session.shows("\n[1]+  Stopped                 cat");
        session.shows(">>");
        run(session, "fg\n");
        session.keys("line\n");
        session.shows("line\r\nline\r\n");
        session.keys("\x04");
        session.shows(">>");
        session.keys("stty tostop; echo out & while [ -z \"$(jobs -s)\" ]; do sleep 0.01; done; stty -tostop; fg\n");
        session.shows("\nout\r\n");
        session.shows(">>");
        session.keys("exit 0\n");
    });
}

#[test]
fn a_pipeline_is_one_job() {
    both(BASH, |session| {
        session.shows(">>");
        run(session, "while read l; do echo got $l >&2; echo $l; done | sort | uniq -c\n");
        for line in ["b", "a", "b"] {
            session.keys(&format!("{line}\n"));
            // What is not read yet would be lost with Ctrl-Z.
            session.shows(&format!("got {line}\r\n"));
        }
        session.keys("\x1a");
        session.shows("Stopped");
        session.shows(">>");
        run(session, "fg\n");
        session.keys("c\n\x04");
        session.shows("1 a\r\n");
        session.shows("2 b\r\n");
        session.shows("1 c\r\n");
        session.shows(">>");
        session.keys("exit 0\n");
    });
}

#[test]
fn windows_change_their_size() {
    both(BASH, |session| {
        session.shows(">>");
        session.keys("trap 'echo told $(stty size)' WINCH; echo $(stty size)\n");
        session.shows("\n24 80\r\n>>");
        session.resize(33, 77);
        session.keys("\n");
        session.shows("told 33 77");
        session.keys("exit 0\n");
    });
}

#[test]
fn a_closed_window_hangs_up() {
    let lab = shared();
    for placed in [false, true] {
        let mut session = on_terminal(&lab, placed, BASH);
        session.shows(">>");
        run(&mut session, "sleep 1000\n");
        let mut child = session.hang_up();
        // The tool that enters the node passes the death on.
        assert!(!child.wait().unwrap().success());
    }
    let left = || lab.processes("n2").unwrap().iter().any(|pid| is_named(*pid, "sleep"));
    while left() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

fn is_named(pid: i32, name: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == name)
}

#[test]
fn terminals_have_names() {
    both(BASH, |session| {
        session.shows(">>");
        session.keys("case $(tty) in /dev/pts/*) echo na\"\"med;; esac; test -c $(tty) && echo is o\"\"ne\n");
        session.shows("named");
        session.shows("is one");
        session.shows(">>");
        session.keys("read -s -p pass: word < /dev/tty; echo; echo got $word > /dev/tty\n");
        session.shows("\npass:");
        session.keys("secret\n");
        let after = session.shows("got secret");
        assert!(!after.starts_with("secret"), "{after}");
        session.shows(">>");
        session.keys("exit 0\n");
    });
}

#[test]
fn programs_make_terminals() {
    // The inner terminal has the outer one's size, its own name, and keys that send signals. What
    // says "ready" is what is interrupted: a dash that is about to fork would wait for a child that
    // the key did not reach.
    let inner = r#"stty size; tty | grep -c /dev/pts/; exec perl -e '$| = 1; print "ready\n"; sleep 1000'"#;
    both_end(&["script", "-qec", inner, "/dev/null"], 130, |session| {
        session.shows("24 80\r\n1\r\n");
        session.shows("ready\r\n");
        session.keys("\x03");
        session.shows("^C");
    });
}

#[test]
fn an_editor() {
    both(
        &[
            "env",
            "TERM=xterm",
            "sh",
            "-c",
            "cd $(mktemp -d) && printf 'one\\ntwo\\n' > text && vim -u NONE -N text; cat text",
        ],
        |session| {
            session.shows("\"text\" 2");
            session.keys("Goadded\x1b:wq\r");
            session.shows("written");
            session.shows("one\r\ntwo\r\nadded\r\n");
        },
    );
}

#[test]
fn a_pager() {
    both(&["env", "TERM=xterm", "LESS=", "sh", "-c", "seq 500 | less"], |session| {
        session.shows("\n23\r\n");
        session.keys("/^4[0-9]7$\r");
        session.shows("429");
        session.keys("G");
        session.shows("500");
        session.keys("q");
    });
}

#[test]
fn an_interpreter_that_is_talked_to() {
    both(&["python3", "-q"], |session| {
        session.shows(">>> ");
        session.keys("6 * 7\n");
        session.shows("\n42\r\n>>> ");
        // Short naps: Python misses a signal between its last look at its flags and the call that
        // sleeps, at home too.
        session.keys("import time; print('n' 'ap'); any(time.sleep(0.1) for _ in iter(int, 1))\n");
        session.shows("nap\r\n");
        session.keys("\x03");
        session.shows("KeyboardInterrupt");
        session.shows(">>> ");
        session.keys("exit()\n");
    });
}

#[test]
fn a_script_that_expects() {
    let script = r#"
        set timeout 50
        spawn bash --norc --noprofile
        expect ">>"
        send "stty size; echo \$((6*7))\r"
        expect "42\r"
        send "exit 3\r"
        expect eof
        lassign [wait] pid id error status
        puts "it said $status"
        exit 5"#;
    both_end(&["expect", "-c", script], 5, |session| {
        session.shows("it said 3");
    });
}

#[test]
fn a_display_of_processes() {
    both(&["env", "TERM=xterm", "top", "-d", "0.2"], |session| {
        session.shows("PID");
        // A process of home is among them.
        session.shows("tern-lab");
        session.keys("q");
    });
}
