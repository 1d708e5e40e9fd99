//! The guests at home under the filter that placed ones have: what the table serves is done by the
//! kernel, what it does not serve yet is refused. So a row that a guest needs and that is not
//! served is found without placing.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use os::seccomp::{self, Answer, Instruction, Notice};
use systable::Class;
use systable::filter::Action;

use crate::program;
use crate::program::Program;
use crate::run::{Outcome, Scratch, arguments, complaint, run, run_guest};

/// How often a call was handed over, and whether it was refused.
type Seen = BTreeMap<String, (u32, bool)>;

/// The table's filter; what stops in the tracer is let through, as there is none.
fn untraced() -> Vec<Instruction> {
    let (trace, allow) = (Action::Trace.code(), Action::Allow.code());
    let program = systable::filter::program();
    let k = |k: u32| if k == trace { allow } else { k };
    program.insns().iter().map(|i| Instruction { code: i.code, jt: i.jt, jf: i.jf, k: k(i.k) }).collect()
}

fn verdict(notice: &Notice) -> Answer {
    let refused = |errno: systable::Errno| Answer::Value(-i64::from(errno.0));
    match systable::row(notice.nr) {
        _ if notice.arch != systable::filter::ARCH => refused(systable::errno::ENOSYS),
        Some(row) => match row.class {
            Class::GoHome(errno) | Class::Refused(errno) => refused(errno),
            Class::Unused => refused(systable::errno::ENOSYS),
            Class::Local | Class::Home | Class::Special(_) => Answer::Continue,
        },
        None => refused(systable::errno::ENOSYS),
    }
}

/// Answers until the last process with the filter is gone.
fn supervise(socket: &OwnedFd) -> Seen {
    let mut seen = Seen::new();
    let mut said = [0; 8];
    if rustix::io::read(socket, &mut said).unwrap() < said.len() {
        return seen;
    }
    let [pid, fd] = [0, 4].map(|at| i32::from_ne_bytes(said[at..at + 4].try_into().unwrap()));
    let listener = seccomp::listener_of(&os::pidfd::PidFd::open(pid).unwrap(), fd).unwrap();
    rustix::io::write(socket, b"!").unwrap();
    loop {
        use rustix::event::{PollFd, PollFlags, poll};
        let mut waiting = [PollFd::new(&listener, PollFlags::IN)];
        if poll(&mut waiting, None).is_err() {
            continue;
        }
        if waiting[0].revents().contains(PollFlags::HUP) {
            return seen;
        }
        let Some(notice) = seccomp::receive(listener.as_fd()).unwrap() else { continue };
        let answer = verdict(&notice);
        let name = systable::name(notice.nr).map_or_else(|| notice.nr.to_string(), String::from);
        let entry = seen.entry(name).or_insert((0, false));
        *entry = (entry.0 + 1, entry.1 || answer != Answer::Continue);
        seccomp::answer(listener.as_fd(), notice.id, answer).unwrap();
    }
}

/// In the environment of a command and of all that it starts: whose they are.
const MARK: &str = "FILTERED";

/// Kills what a command has left behind: its filter lasts as long as they do. (Nothing else would
/// end a guest's child whose parent has failed.)
fn end_family(mark: &str) {
    let mark = format!("{MARK}={mark}");
    let is_marked = |pid: &i32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    };
    for pid in os::process::all().unwrap().into_iter().filter(is_marked) {
        // One that has ended meanwhile needs no signal.
        let _ = os::pidfd::PidFd::open(pid).and_then(|process| process.kill(libc::SIGKILL));
    }
}

/// Runs a command under the filter.
fn filtered(program: Option<&Program>, command: &mut Command) -> (Outcome, Seen) {
    let (ours, theirs) = os::socket::pair().unwrap();
    let filter = untraced();
    let mark = format!("{}-{:?}", std::process::id(), std::thread::current().id());
    command.env(MARK, &mark);
    // SAFETY: between fork and exec only system calls are made, and a small allocation (glibc's is
    // usable after fork).
    unsafe {
        command.pre_exec(move || {
            seccomp::no_new_privileges().map_err(|e| e.source)?;
            let listener = seccomp::install(&filter).map_err(|e| e.source)?;
            // Calls that the filter does not hand over: nobody has the listener yet.
            let numbers = [std::process::id() as i32, listener.as_raw_fd()].map(i32::to_ne_bytes).concat();
            rustix::io::write(&theirs, &numbers)?;
            rustix::io::read(&theirs, &mut [0]).map(drop).map_err(Into::into)
        });
    }
    std::thread::scope(|scope| {
        let supervisor = scope.spawn(move || supervise(&ours));
        let outcome = match program {
            Some(program) => run_guest(program, command),
            None => run(command),
        };
        end_family(&mark);
        (outcome, supervisor.join().unwrap())
    })
}

/// Calls that guests make in order to see them refused, or that they do not need.
const MAY_BE_REFUSED: &[(&str, &str)] = &[("no_such_call", "5000")];

/// Guests that need the tracer too: without it signals interrupt what was handed over, and nobody
/// goes home.
const TRACED: &[&str] = &["never_eintr", "socket_exact"];

/// A supervisor waited for the last process with the filter, and a guest's child that waits for
/// ever was one.
#[test]
fn what_is_left_behind_is_ended() {
    let (outcome, _) = filtered(None, Command::new("sh").args(["-c", "sleep 1000000 > /dev/null 2>&1 & echo left"]));
    assert_eq!(outcome.stdout, "left\n");
}

#[test]
fn guests_need_nothing_that_is_not_served() {
    let mut complaints = Vec::new();
    for program in program::build("").into_iter().filter(|p| !TRACED.contains(&p.name.as_str())) {
        let scratch = Scratch::below(Path::new(env!("CARGO_TARGET_TMPDIR")));
        let arguments = arguments(&program);
        let mut command = Command::new(&arguments[0]);
        let (outcome, seen) =
            filtered(Some(&program), command.args(&arguments[1..]).current_dir(scratch.path()).env("GUEST_VALUE", "v"));
        complaints.extend(complaint(&program, &outcome));
        let excused = |call: &str| MAY_BE_REFUSED.contains(&(program.name.as_str(), call));
        let refused = seen.iter().filter(|(call, (_, refused))| *refused && !excused(call));
        complaints.extend(refused.map(|(call, _)| format!("{}: needs {call}", program.name)));
    }
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

/// `TERN_COMMAND='python3 x.py' cargo test -p tern --test guests one_command -- --ignored
/// --nocapture` says which calls would be handed over.
#[test]
#[ignore = "a tool for looking at one command"]
fn one_command() {
    let line = std::env::var("TERN_COMMAND").unwrap_or_else(|_| "true".into());
    let (outcome, seen) = filtered(None, Command::new("sh").args(["-c", &format!("exec {line}")]));
    println!("{}{}{:?}", outcome.stdout, outcome.stderr, outcome.end);
    for (call, (count, refused)) in seen {
        println!("{count:>8} {call}{}", if refused { " REFUSED" } else { "" });
    }
}
