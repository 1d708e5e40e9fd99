//! The same guests, moved while they run: at the point that each has marked.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use control_protocol::moves::{How, MoveOptions};
use lab::{Lab, Options};

use crate::mover::move_to;
use crate::placed::{DIFFERENT_AT_TIMES, at_home, difference};
use crate::program::{self, Program};
use crate::run::{Outcome, Scratch, arguments, complaint, run_guest};

/// How a guest begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// The guest begins at home.
    Home,
    /// At home, and its C library uses nothing that only this machine's processor has.
    Modest,
    /// Placed on n2.
    Placed,
}

impl Begin {
    /// What its environment says besides.
    fn environment(self) -> Option<(&'static str, &'static str)> {
        match self {
            Begin::Home => None,
            Begin::Modest => Some(("GLIBC_TUNABLES", MODEST)),
            // The loader saves registers for each function that it finds late, in the size of the
            // processor that it began on.
            Begin::Placed => Some(("LD_BIND_NOW", "1")),
        }
    }

    /// It has not chosen by the processor of home.
    fn goes_anywhere(self) -> bool {
        self != Begin::Home
    }
}

/// What a machine's processor lacks of what the C library chooses by (glibc.cpu.hwcaps in its
/// manual, "Tunables").
const MODEST: &str = "glibc.cpu.hwcaps=-AVX2,-AVX512F,-AVX512VL,-AVX512BW,-AVX512DQ,-AVX512CD";

/// Where a guest goes at its point, one place after the other, and how.
pub type Way = &'static [&'static str];

/// What became of the moves of one guest.
#[derive(Debug, Default)]
pub struct Moves {
    pub done: usize,
    /// The process that was moved.
    pub pid: i32,
    pub refused: Vec<String>,
    /// From node to node by way of home, and why.
    pub detours: Vec<String>,
    /// From node to node.
    pub onward: usize,
}

/// What is known to differ away, and why.
const DIFFERENT: &[(&str, &str)] = &[
    ("child_usage", "a parent at home is not told what its child used elsewhere"),
    ("statfs", "the kind of file system was asked for before: away it is FUSE"),
];

/// Runs a guest, and moves it whenever it says that it may be moved.
pub fn run_moved(lab: &Lab, program: &Program, begin: Begin, way: Way) -> (Outcome, Moves) {
    let scratch = Scratch::below(Path::new(env!("CARGO_TARGET_TMPDIR")));
    let mut moves = Moves::default();
    let command = |words| {
        let mut command = at_home(lab, scratch.path(), begin == Begin::Placed, words);
        command.envs(begin.environment());
        command
    };
    let outcome = run_with_points(program, command, |pid| {
        // A guest with several points is moved at the first.
        if moves.done == 0 {
            go(lab, pid, begin, way, &mut moves);
        }
    });
    (outcome, moves)
}

/// Runs a guest by the command that `command` makes of its own; whenever it waits at a point,
/// `at_point` is called with its PID.
pub fn run_with_points(
    program: &Program,
    command: impl FnOnce(Vec<String>) -> Command,
    mut at_point: impl FnMut(i32) + Send,
) -> Outcome {
    use std::os::unix::fs::PermissionsExt;
    let points = Scratch::below(Path::new(env!("CARGO_TARGET_TMPDIR")));
    std::fs::set_permissions(points.path(), std::fs::Permissions::from_mode(0o1777)).unwrap();
    let ended = AtomicBool::new(false);
    let mut words = vec!["env".into(), format!("GUEST_MOVES={}", points.path().display())];
    words.extend(arguments(program));
    let mut command = command(words);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                for pid in waiting(points.path()) {
                    at_point(pid);
                    std::fs::write(points.path().join(format!("go-{pid}")), "").unwrap();
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        let outcome = run_guest(program, &mut command);
        ended.store(true, Ordering::Relaxed);
        outcome
    })
}

/// Guests that wait at their point; each is told once.
fn waiting(points: &Path) -> Vec<i32> {
    let entries: Vec<PathBuf> = std::fs::read_dir(points).unwrap().flatten().map(|e| e.path()).collect();
    let mut pids = Vec::new();
    for entry in entries {
        let number = entry.file_name().and_then(|n| n.to_str()?.strip_prefix("at-")?.parse().ok());
        if let Some(pid) = number
            && std::fs::remove_file(&entry).is_ok()
        {
            pids.push(pid);
        }
    }
    pids
}

fn go(lab: &Lab, pid: i32, begin: Begin, way: Way, moves: &mut Moves) {
    for place in way {
        let (node, how) = place.split_once(' ').unwrap_or((place, "auto"));
        let how = match how {
            "stop" => How::Stop,
            "pre" => How::Pre,
            "post" => How::Post,
            "flush" => How::Flush,
            _ => How::Auto,
        };
        match move_to(lab, pid, node, MoveOptions { how, any_cpu: begin.goes_anywhere(), ..MoveOptions::default() }) {
            Ok(legs) => moves.detours.extend(legs.into_iter().filter_map(|leg| leg.detour)),
            Err(why) => return moves.refused.push(format!("to {place}: {why}")),
        }
    }
    moves.onward = way.windows(2).filter(|w| w.iter().all(|place| !place.starts_with("home"))).count();
    (moves.done, moves.pid) = (moves.done + 1, pid);
}

/// Processes that went home by themselves, as home's log says.
fn came_home(lab: &Lab) -> HashSet<i32> {
    const LINES: &str = "100000";
    let text = lab.exec("n1", ["tern", "log", "-n", LINES]).map(|output| output.text()).unwrap_or_default();
    let pid = |line: &str| line.split_once(" came home for a call")?.0.rsplit(' ').next()?.parse().ok();
    text.lines().filter_map(pid).collect()
}

/// It is known to differ away, or to differ at times.
pub fn is_different(name: &str) -> bool {
    DIFFERENT.iter().chain(DIFFERENT_AT_TIMES).any(|(other, _)| *other == name)
}

fn matrix(begin: Begin, way: Way, least_percent: usize) {
    matrix_of(1, begin, way, least_percent);
}

/// Of one guest in so many; which ones, `TERN_SEED` says.
fn matrix_of(one_in: usize, begin: Begin, way: Way, least_percent: usize) {
    let seed: usize = std::env::var("TERN_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(0);
    let first = seed % one_in;
    let programs = program::build("");
    let only = std::env::var("TERN_GUEST").ok();
    let lab = Lab::up(env!("CARGO_BIN_EXE_tern"), &Options::new(Lab::fresh_name("moved").unwrap(), 3)).unwrap();
    let (mut complaints, mut went, mut total, mut refused) = (Vec::new(), Vec::new(), 0, Vec::new());
    let (mut onward, mut detours) = (0, Vec::new());
    for program in
        programs.iter().skip(first).step_by(one_in).filter(|p| only.as_ref().is_none_or(|name| *name == p.name))
    {
        let scratch = Scratch::below(Path::new(env!("CARGO_TARGET_TMPDIR")));
        let native = run_guest(program, &mut at_home(&lab, scratch.path(), false, arguments(program)));
        let (moved, moves) = run_moved(&lab, program, begin, way);
        if moves.done + moves.refused.len() > 0 {
            total += 1;
            went.extend(moves.refused.is_empty().then_some((moves.pid, &program.name)));
        }
        onward += moves.onward;
        detours.extend(moves.detours.iter().map(|why| format!("{}: {why}", program.name)));
        refused.extend(moves.refused.iter().map(|why| format!("{}: {why}", program.name)));
        let found = complaint(program, &native).map(|c| format!("native: {c}"));
        let found = found.or_else(|| difference(program, &native, &moved));
        let found = found.filter(|_| !is_different(&program.name));
        found.iter().for_each(|complaint| eprintln!("{complaint}; {moves:?}"));
        complaints.extend(found);
    }
    let back = came_home(&lab);
    let (returned, stayed): (Vec<_>, Vec<_>) = went.iter().partition(|(pid, _)| back.contains(pid));
    let returned: Vec<&str> = returned.into_iter().map(|(_, name)| name.as_str()).collect();
    let away = stayed.len();
    eprintln!("{} of {total} guests with a point went {way:?}; others:\n{}", went.len(), refused.join("\n"));
    eprintln!("{away} were there at their end; these had gone home for a call: {}", returned.join(" "));
    eprintln!("{} of {onward} moves from node to node went by way of home:\n{}", detours.len(), detours.join("\n"));
    let by_home = way.last().is_none_or(|place| !["stop", "pre", "post"].iter().any(|how| place.ends_with(how)));
    let straight = by_home || way.last().is_some_and(|place| place.starts_with("home")) || detours.len() * 10 <= onward;
    assert!(straight || only.is_some(), "{} of {onward} moves from node to node went by way of home", detours.len());
    assert!(complaints.is_empty(), "{} of {}\n{}", complaints.len(), programs.len(), complaints.join("\n"));
    assert!(only.is_some() || away * 100 >= total * least_percent, "only {away} of {total} were moved");
}

#[test]
fn guests_do_the_same_moved_at_a_point() {
    matrix(Begin::Home, &["n2"], 90);
}

#[test]
fn guests_do_the_same_on_a_third_node() {
    matrix(Begin::Home, &["n2", "n3 stop"], 85);
}

#[test]
fn guests_do_the_same_moved_twice() {
    matrix(Begin::Home, &["n2", "home", "n3", "n2"], 85);
}

#[test]
fn guests_do_the_same_there_and_back() {
    matrix(Begin::Home, &["n2", "home"], 90);
}

#[test]
fn guests_do_the_same_placed_then_moved() {
    matrix(Begin::Placed, &["n3", "home"], 85);
}

#[test]
fn guests_do_the_same_when_their_memory_follows() {
    matrix_of(one_in(6), Begin::Home, &["n2 post", "n3 post", "home post"], 70);
}

#[test]
fn guests_do_the_same_when_their_memory_goes_straight_on() {
    matrix_of(one_in(6), Begin::Home, &["n2", "n3 pre", "n2 post"], 70);
}

#[test]
fn guests_do_the_same_when_their_memory_goes_ahead_or_by_way_of_home() {
    matrix_of(one_in(6), Begin::Home, &["n2 pre", "n3 flush", "home flush"], 70);
}

/// `TERN_ALL_GUESTS`: all of them, whatever the time.
fn one_in(many: usize) -> usize {
    if std::env::var_os("TERN_ALL_GUESTS").is_some() { 1 } else { many }
}
