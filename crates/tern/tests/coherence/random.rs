//! Home and two rooms work on the same files in turn. Each sees what one machine would show.

use crate::agent::{Agent, prepare};
use crate::model::Model;
use gossip::Draw;

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const SLOTS: usize = 4;
/// Largest offset of a write.
const FAR: usize = 3000;

/// A file that an agent keeps open.
type Kept = Option<usize>;

/// One party: an agent, and what it keeps open.
struct Party {
    agent: Agent,
    kept: [Kept; SLOTS],
}

/// Draws what to do and gives the line for the agent, with the answer that one machine would give.
fn step(model: &mut Model, kept: &mut [Kept], draw: &mut Draw) -> (String, String) {
    let name = NAMES[draw.below(NAMES.len())];
    let slot = draw.below(SLOTS);
    let offset = draw.below(FAR);
    let text = format!("<{:x}>", draw.below(1 << 40));
    let ok = || "ok".to_owned();
    let missing = || format!("!{}", libc::ENOENT);
    match draw.below(16) {
        0 | 1 => {
            let file = model.made(name);
            model.write(file, offset, &text);
            (format!("w{name} {offset} {text}"), ok())
        }
        2 | 3 => {
            let file = model.made(name);
            model.append(file, &text);
            (format!("a{name} {text}"), ok())
        }
        4 => {
            let file = model.made(name);
            model.truncate(file, offset);
            (format!("t{name} {offset}"), ok())
        }
        5 => {
            let file = model.made(name);
            model.truncate(file, 0);
            model.append(file, &text);
            (format!("o{name} {text}"), ok())
        }
        6 => {
            let to = NAMES[draw.below(NAMES.len())];
            let done = model.rename(name, to);
            (format!("m{name} {to}"), if done { ok() } else { missing() })
        }
        7 if draw.below(3) == 0 => (format!("u{name}"), if model.remove(name) { ok() } else { missing() }),
        7 => {
            let is_there = model.file(name).is_some();
            model.made(name);
            (format!("x{name}"), if is_there { format!("!{}", libc::EEXIST) } else { ok() })
        }
        8 | 9 => (format!("s{name}"), model.file(name).map_or_else(missing, |file| model.size(file).to_string())),
        10 | 11 => match kept[slot] {
            None => {
                kept[slot] = Some(model.made(name));
                (format!("O{name} {slot}"), ok())
            }
            Some(file) => (format!("R{slot}"), model.shown(file)),
        },
        12 => match kept[slot] {
            Some(file) => {
                model.write(file, offset, &text);
                (format!("W{slot} {offset} {text}"), ok())
            }
            None => (format!("r{name}"), model.file(name).map_or_else(missing, |file| model.shown(file))),
        },
        13 if kept[slot].is_some() => {
            kept[slot] = None;
            (format!("C{slot}"), ok())
        }
        _ => (format!("r{name}"), model.file(name).map_or_else(missing, |file| model.shown(file))),
    }
}

/// Runs so many steps in a fresh directory of a fresh lab.
fn steps(seed: u64, count: u64) {
    let lab = crate::common::lab_of(&crate::common::options(3));
    let (_, place) = prepare(&lab);
    let mut draw = Draw::new(seed);
    let mut model = Model::default();
    let mut parties =
        ["n1", "n2", "n3"].map(|node| Party { agent: Agent::start(&lab, &place, node), kept: [None; SLOTS] });
    let mut latest = std::collections::VecDeque::new();
    for number in 0..count {
        let at = draw.below(3);
        let party = &mut parties[at];
        let (line, expected) = step(&mut model, &mut party.kept, &mut draw);
        let answer = party.agent.ask(&line);
        latest.push_back(format!("n{}: {line} -> {answer}", at + 1));
        if latest.len() > 30 {
            latest.pop_front();
        }
        let before = latest.iter().map(String::as_str).collect::<Vec<_>>().join("\n");
        assert_eq!(answer, expected, "seed {seed}, step {number}; the latest:\n{before}");
    }
    println!("{count} steps, seed {seed}");
    parties.into_iter().for_each(|party| party.agent.end());
}

#[test]
fn home_and_two_rooms_see_one_history() {
    steps(2026, 6_000);
}

/// The long form.
#[test]
#[ignore = "takes minutes; cargo xtask test --full"]
fn home_and_two_rooms_see_one_history_for_long() {
    (0..5).for_each(|seed| steps(seed, 20_000));
}

/// All at once: no appended line is lost, none is torn, each party's come in its order; a number
/// under a lock counts each addition.
#[test]
fn appends_and_locks_of_all_count() {
    const TIMES: u64 = 1_000;
    let lab = crate::common::lab_of(&crate::common::options(3));
    let (_, place) = prepare(&lab);
    let mut agents = ["n1", "n2", "n3"].map(|node| Agent::start(&lab, &place, node));
    for (at, agent) in agents.iter_mut().enumerate() {
        agent.tell(&format!("Alog party{at} {TIMES}"));
        agent.tell(&format!("Lcounter {}", TIMES / 10));
    }
    for agent in &mut agents {
        assert_eq!((agent.hear(), agent.hear()), ("ok".into(), "ok".into()));
    }
    let root = lab.root("n1").unwrap();
    let read = |name: &str| std::fs::read_to_string(root.join(&place[1..]).join(name)).unwrap();
    let log = read("log");
    for at in 0..3 {
        let wanted: Vec<String> = (0..TIMES).map(|n| format!("party{at} {n}")).collect();
        let seen: Vec<&str> = log.lines().filter(|line| line.starts_with(&format!("party{at} "))).collect();
        assert_eq!(seen, wanted);
    }
    assert_eq!(log.lines().count() as u64, 3 * TIMES);
    assert_eq!(read("counter").parse::<u64>().unwrap(), 3 * (TIMES / 10));
    agents.into_iter().for_each(Agent::end);
}
