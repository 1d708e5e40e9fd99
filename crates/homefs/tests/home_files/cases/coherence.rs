//! A room never contradicts what home says after changing files: no old content, and no stale
//! names, sizes, modes or listings.

use crate::agent::{Background, Peer};
use crate::link::Random;
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// Gives the number of rounds: `HOMEFS_ROUNDS`, which `cargo xtask test --full` sets, or a number
/// that takes a few seconds.
fn rounds() -> u64 {
    std::env::var("HOMEFS_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(300)
}

/// The files of a directory: name to content and mode.
type State = BTreeMap<String, (String, u32)>;

fn to_line(state: &State) -> String {
    state.iter().map(|(n, (c, m))| format!("{n}={c}={m}")).collect::<Vec<_>>().join(" ")
}

fn from_line(line: &str) -> State {
    let parse = |item: &str| {
        let mut parts = item.split('=').map(str::to_owned);
        let (name, content, mode) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
        (name, (content, mode.parse().unwrap()))
    };
    line.split_whitespace().map(parse).collect()
}

pub fn home(dir: &Path, peer: &mut Peer) {
    let mut random = Random::new(7);
    let mut state = State::new();
    for round in 0..rounds() {
        peer.expect("next");
        for _ in 0..=random.below(2) {
            change(dir, &mut state, &mut random, round);
        }
        peer.tell(&format!("state {}", to_line(&state)));
    }
    peer.expect("next");
    peer.tell("end");
}

fn change(dir: &Path, state: &mut State, random: &mut Random, round: u64) {
    let name = NAMES[random.below(5) as usize].to_owned();
    let path = dir.join(&name);
    let Some((content, mode)) = state.get(&name).cloned() else {
        let content = format!("new{round}");
        fs::write(&path, &content).unwrap();
        state.insert(name, (content, 0o644));
        return;
    };
    match random.below(8) {
        0 => {
            fs::remove_file(&path).unwrap();
            state.remove(&name);
        }
        1 => {
            // The content changes in place and keeps its size.
            let content = content.replace(|c: char| c.is_ascii_digit(), &(round % 10).to_string());
            OpenOptions::new().write(true).open(&path).unwrap().write_all_at(content.as_bytes(), 0).unwrap();
            state.insert(name, (content, mode));
        }
        2 => {
            let other = dir.join(".new");
            let content = format!("renamed{round}");
            fs::write(&other, &content).unwrap();
            fs::rename(&other, &path).unwrap();
            state.insert(name, (content, 0o644));
        }
        3 => {
            OpenOptions::new().append(true).open(&path).unwrap().write_all(b"+").unwrap();
            state.insert(name, (content + "+", mode));
        }
        4 => {
            let mode = 0o600 + (round % 8) as u32;
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            state.insert(name, (content, mode));
        }
        5 => {
            let to = NAMES[random.below(5) as usize];
            fs::rename(&path, dir.join(to)).unwrap();
            let file = state.remove(&name).unwrap();
            state.insert(to.to_owned(), file);
        }
        6 => {
            let content = format!("mapped{round}");
            write_mapped(&path, &content);
            state.insert(name, (content, mode));
        }
        _ => {
            let content = format!("rewritten{round}");
            fs::write(&path, &content).unwrap();
            state.insert(name, (content, mode));
        }
    }
}

/// Stores through a shared mapping, which causes no event.
fn write_mapped(path: &Path, content: &str) {
    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    file.set_len(content.len() as u64).unwrap();
    // SAFETY: a new mapping of one page, of which no more than the file's bytes are written.
    unsafe {
        let map = mmap(std::ptr::null_mut(), 4096, ProtFlags::WRITE, MapFlags::SHARED, &file, 0).unwrap();
        std::ptr::copy_nonoverlapping(content.as_ptr(), map.cast(), content.len());
        munmap(map, 4096).unwrap();
    }
}

/// Reads the files as this kernel shows them.
fn look(dir: &Path, by_listing: bool) -> State {
    let names: Vec<String> = if by_listing {
        fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    } else {
        NAMES.iter().map(ToString::to_string).collect()
    };
    let mut state = State::new();
    for name in names {
        let path = dir.join(&name);
        let Ok(content) = fs::read_to_string(&path) else { continue };
        let Ok(stat) = fs::metadata(&path) else { continue };
        if stat.len() == content.len() as u64 {
            state.insert(name, (content, stat.permissions().mode() & 0o7777));
        } else {
            state.insert(name, (format!("{content}:but-size:{}", stat.len()), 0));
        }
    }
    state
}

pub fn room(dir: &Path, peer: &mut Peer) {
    // Others in the room read all the time, so that their requests are under way during changes.
    let busy = [0, 1].map(|i| {
        Background::start(|| {
            loop {
                look(dir, i == 0);
            }
        })
    });
    let mut held = Vec::new();
    for round in 0.. {
        look(dir, round % 2 == 0);
        // Some files stay open for a while.
        held.truncate(2);
        held.extend(fs::File::open(dir.join(NAMES[round as usize % 5])));
        peer.tell("next");
        let line = peer.hear();
        let Some(expected) = line.strip_prefix("state ").or(line.strip_prefix("state")) else { break };
        let expected = from_line(expected);
        assert_eq!(look(dir, round % 3 == 0), expected, "round {round}, what home said is on the right");
    }
    for looker in busy {
        looker.signal(libc::SIGKILL);
        looker.wait();
    }
}
