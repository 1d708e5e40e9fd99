//! The same guests, moved at random moments, whatever they do then: any of their processes, to any
//! node or home. What is drawn follows from a seed (`TERN_SEED`), which a complaint names; when the
//! moves fall does not.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use control_protocol::moves::{How, MoveOptions};
use gossip::Draw;
use lab::{Lab, Options};

use crate::moved::{is_different, run_with_points};
use crate::mover::{move_to, processes_of};
use crate::placed::{at_home, difference};
use crate::program::{self, Program};
use crate::run::{Outcome, Scratch, arguments, complaint, run_guest};

/// Moves of one run.
const MOVES: usize = 20;
/// Longest pause between two moves.
const PAUSE_US: usize = 12_000;
/// How long a guest is kept at its point for moves that do not come about.
const AT_POINT_MAX: Duration = Duration::from_secs(4);
/// The seed, if none is given, and how long the ordinary run goes on.
const SEED: u64 = 2026;
const SHORT: Duration = Duration::from_secs(50);

/// What differs if its process is moved at other moments than at its point.
const DIFFERENT: &[(&str, &str)] = &[
    ("holds", "a process at home that holds one that is away holds its deputy"),
    ("looks_into", "a process at home that looks into one that is away sees its deputy"),
    ("posix_timers", "how often a timer has overrun before a move, the kernel does not tell"),
    ("tty_devtty", "a write to a terminal of home said EFAULT once in 200 moves: not understood"),
    ("tty_kind", "a terminal's name is at times not known right after a move"),
    ("udp", "a recvmmsg that is stopped says how many messages it has so far"),
    ("socket_big", "a large write that is stopped says what it has written, as it does after SIGSTOP and SIGCONT"),
];

/// What became of the moves of one run.
#[derive(Debug, Default)]
struct Moves {
    done: Vec<(&'static str, How)>,
    refused: Vec<String>,
}

/// One move of one of the guest's processes.
fn step(lab: &Lab, program: &Program, draw: &mut Draw, moves: &mut Moves) {
    std::thread::sleep(Duration::from_micros(draw.below(PAUSE_US) as u64));
    // Another place than that of the last move.
    let last = moves.done.last().map_or("home", |(place, _)| place);
    let places: Vec<&str> = ["n2", "n3", "home"].into_iter().filter(|place| *place != last).collect();
    let place = places[draw.below(2)];
    let ways = [How::Auto, How::Stop, How::Post, How::Post, How::Flush, How::Pre];
    // Home, `auto` has all go ahead that can.
    let how = ways[draw.below(if place == "home" { ways.len() - 1 } else { ways.len() })];
    let which = draw.bits() as usize;
    let family = processes_of(lab, &program.binary);
    if family.is_empty() {
        return;
    }
    match move_to(lab, family[which % family.len()], place, MoveOptions { how, ..MoveOptions::default() }) {
        Ok(_) => moves.done.push((place, how)),
        Err(why) => moves.refused.push(why),
    }
}

fn run_wandering(lab: &Lab, program: &Program, draw: &mut Draw) -> (Outcome, Moves) {
    let scratch = Scratch::below(Path::new(env!("CARGO_TARGET_TMPDIR")));
    let ended = AtomicBool::new(false);
    let done = AtomicUsize::new(0);
    // A guest goes on from its point after so many moves.
    let at_point = draw.below(MOVES);
    std::thread::scope(|scope| {
        let mover = scope.spawn(|| {
            let mut moves = Moves::default();
            for n in 0..MOVES {
                if ended.load(Ordering::Relaxed) {
                    break;
                }
                step(lab, program, draw, &mut moves);
                done.store(n + 1, Ordering::Relaxed);
            }
            moves
        });
        let command = |command| at_home(lab, scratch.path(), false, command);
        let outcome = run_with_points(program, command, |_| {
            let since = Instant::now();
            while done.load(Ordering::Relaxed) < at_point && since.elapsed() < AT_POINT_MAX {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        ended.store(true, Ordering::Relaxed);
        (outcome, mover.join().unwrap())
    })
}

/// The guests in an order that follows from the seed, each once in a round, until the time is over.
fn wander(rounds: u64, time: Option<Duration>) {
    let number = |name: &str| std::env::var(name).ok().and_then(|s| s.parse::<u64>().ok());
    let seed = number("TERN_SEED").unwrap_or(SEED);
    let rounds = number("TERN_ROUNDS").unwrap_or(rounds);
    let only = std::env::var("TERN_GUEST").ok();
    let mut programs = program::build("");
    let differs = |name: &str| is_different(name) || DIFFERENT.iter().any(|(other, _)| *other == name);
    programs.retain(|p| !differs(&p.name) && only.as_ref().is_none_or(|name| *name == p.name));
    let lab = Lab::up(env!("CARGO_BIN_EXE_tern"), &Options::new(Lab::fresh_name("wander").unwrap(), 3)).unwrap();
    let (since, mut complaints, mut runs, mut done, mut refused) = (Instant::now(), Vec::new(), 0, 0, 0);
    'rounds: for round in seed..seed + rounds {
        let mut order = programs.clone();
        let mut draw = Draw::new(round);
        for n in (1..order.len()).rev() {
            order.swap(n, draw.below(n + 1));
        }
        for program in &order {
            if time.is_some_and(|time| since.elapsed() > time) {
                break 'rounds;
            }
            // Of its own seed, so that one guest alone repeats it.
            let mut draw = Draw::new(round ^ number_of(&program.name));
            let scratch = Scratch::below(Path::new(env!("CARGO_TARGET_TMPDIR")));
            let native = run_guest(program, &mut at_home(&lab, scratch.path(), false, arguments(program)));
            let (wandered, moves) = run_wandering(&lab, program, &mut draw);
            let found = complaint(program, &native).map(|c| format!("native: {c}"));
            let found = found.or_else(|| difference(program, &native, &wandered));
            (runs, done, refused) = (runs + 1, done + moves.done.len(), refused + moves.refused.len());
            // At once, as the end may be far.
            let found =
                found.map(|complaint| format!("TERN_SEED={round} TERN_GUEST={}: {complaint}; {moves:?}", program.name));
            if let Some(complaint) = &found {
                let log = |node| lab.exec(node, ["tern", "log", "-n", "6"]).map(|o| o.text()).unwrap_or_default();
                eprintln!("{complaint}\n{}\n{}", log("n1"), log("n2"));
            }
            complaints.extend(found);
        }
    }
    println!("seed {seed}: {runs} runs, {done} moves, {refused} refused, in {:?}", since.elapsed());
    assert!(complaints.is_empty(), "{} of {runs}\n{}", complaints.len(), complaints.join("\n"));
    assert!(done > runs, "hardly anything was moved");
}

/// A number for a name (FNV-1a).
fn number_of(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[test]
fn guests_do_the_same_moved_at_random_moments() {
    wander(1, Some(SHORT));
}

#[test]
#[ignore = "half an hour"]
fn guests_do_the_same_moved_at_random_moments_all_of_them() {
    wander(4, None);
}
