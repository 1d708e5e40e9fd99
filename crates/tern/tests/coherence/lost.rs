//! Rooms that are lost while their writes are behind: home has the beginning of what the program
//! did, and all that the program knew to be there.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use gossip::Draw;
use lab::Lab;

use crate::common::eventually;

const SOURCE: &str = include_str!("input/recorder.c");
/// Longest time after the first sync for which the program goes on, ms.
const AT_MOST_MS: usize = 250;

fn compile(lab: &Lab) {
    let root = lab.root("n1").unwrap();
    let source = root.join("tmp/recorder.c");
    std::fs::write(&source, SOURCE).unwrap();
    let done = Command::new("cc").args(["-O1", "-o"]).arg(root.join("tmp/recorder")).arg(&source).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

fn start(lab: &Lab, place: &str, last: &str) -> Child {
    let script = format!("cd {place} && exec tern run --strict --on n2 -- /tmp/recorder {last}");
    lab.in_node("n1", ["sh", "-c", &script]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

fn wardens(lab: &Lab) -> Vec<i32> {
    let is_one = |pid: &i32| {
        std::fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| line.split(|b| *b == 0).any(|w| w == b"__warden"))
    };
    lab.processes("n2").unwrap().into_iter().filter(is_one).collect()
}

/// Gives the number of records in a directory of home. All up to the last must be there: each in
/// its file, in its order.
fn records(lab: &Lab, place: &str) -> u64 {
    let mut seen = BTreeSet::new();
    for entry in std::fs::read_dir(lab.root("n1").unwrap().join(&place[1..])).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        let text = std::fs::read_to_string(entry.path()).unwrap();
        let numbers: Vec<u64> = text.lines().map(|line| line.parse().unwrap()).collect();
        assert!(numbers.is_sorted(), "{name} is out of order: {numbers:?}");
        if let Some(own) = name.strip_prefix("own") {
            // The program may have ended between the making of the file and the write.
            assert!(numbers.is_empty() || numbers == [own.parse::<u64>().unwrap()], "{name}: {numbers:?}");
        }
        seen.extend(numbers);
    }
    let count = seen.len() as u64;
    assert_eq!(seen.last().map_or(0, |last| last + 1), count, "a record is missing before the last");
    count
}

/// Gives the bytes of all files in a directory of home.
fn bytes(lab: &Lab, place: &str) -> u64 {
    let entries = std::fs::read_dir(lab.root("n1").unwrap().join(&place[1..])).unwrap().flatten();
    entries.map(|entry| entry.metadata().unwrap().len()).sum()
}

/// Kills the room at random moments.
fn rooms_killed(times: usize) {
    let lab = crate::common::lab_of(&crate::common::options(2));
    compile(&lab);
    let mut draw = Draw::new(2026);
    let mut all = 0;
    for _ in 0..times {
        let place = lab.exec("n1", ["mktemp", "-d"]).unwrap().text().trim().to_owned();
        let mut child = start(&lab, &place, "");
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        assert!(said.read_line(&mut line).unwrap() > 0);
        std::thread::sleep(Duration::from_millis(draw.below(AT_MOST_MS) as u64));
        for pid in wardens(&lab) {
            // SAFETY: a signal to a process of this test's lab.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        let known = said.lines().map_while(Result::ok).last().unwrap_or(line).trim().parse::<u64>().unwrap();
        assert!(!child.wait().unwrap().success());
        let count = records(&lab, &place);
        assert!(count > known, "the program knew of record {known}; {count} are there");
        all += count;
    }
    println!("{times} rooms killed, {all} records");
}

#[test]
fn a_room_that_is_killed_leaves_the_beginning() {
    rooms_killed(6);
}

/// The long form.
#[test]
#[ignore = "takes minutes; cargo xtask test --full"]
fn many_rooms_that_are_killed_leave_the_beginning() {
    rooms_killed(60);
}

/// A cut link: home has the beginning while it is cut, and everything after it is mended.
#[test]
fn a_link_that_is_cut_loses_nothing() {
    const LAST: u64 = 6_000;
    let lab = crate::common::lab_of(&crate::common::options(2));
    compile(&lab);
    let place = lab.exec("n1", ["mktemp", "-d"]).unwrap().text().trim().to_owned();
    let mut child = start(&lab, &place, &LAST.to_string());
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    assert!(said.read_line(&mut line).unwrap() > 0);
    lab.cut("n1", "n2").unwrap();
    let mut before = 0;
    eventually("nothing more to arrive", || {
        let now = bytes(&lab, &place);
        std::mem::replace(&mut before, now) == now
    });
    assert!(records(&lab, &place) < LAST, "the link was cut too late");
    lab.heal("n1", "n2").unwrap();
    let known = said.lines().map_while(Result::ok).count();
    assert!(child.wait().unwrap().success());
    assert_eq!(known as u64, LAST / 100 - 1);
    assert_eq!(records(&lab, &place), LAST);
}
