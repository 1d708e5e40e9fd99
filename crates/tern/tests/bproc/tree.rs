//! The tree in which a process spreads over nodes: copies get their memory from each other.

use lab::Lab;

use crate::many::{Job, listed, nothing_is_left};
use crate::{at_home, lab};

/// The image of the process, KiB.
const IMAGE_KIB: u64 = 32 << 10;

/// Bytes that home's interfaces have sent (proc_net_dev: the ninth number).
fn sent_bytes(lab: &Lab) -> u64 {
    let text = lab.exec("n1", ["cat", "/proc/net/dev"]).unwrap().text();
    let sent = |line: &str| {
        let (name, numbers) = line.split_once(':')?;
        numbers.split_ascii_whitespace().nth(8)?.parse::<u64>().ok().filter(|_| name.trim() != "lo")
    };
    text.lines().filter_map(sent).sum()
}

fn end(lab: &Lab, job: &Job) {
    let done = at_home(lab, &["kill", "-TERM", "--", &format!("-{}", job.pid)]);
    assert!(done.status.success(), "{}", done.errors());
}

#[test]
fn the_image_leaves_home_once() {
    let lab = lab(9);
    let before = sent_bytes(&lab);
    let mut job = Job::begin_with(&lab, "n[2-9]", &["1", &IMAGE_KIB.to_string()]);
    let line = job.line();
    assert!(line.starts_with("8 processes after"), "{line}");
    let sent_kib = (sent_bytes(&lab) - before) >> 10;
    assert!((IMAGE_KIB..2 * IMAGE_KIB).contains(&sent_kib), "{sent_kib} KiB left home for 8 nodes");
    end(&lab, &job);
    job.ends(&lab, 8);
}

/// A node dies while others fetch the image from it: it costs its own copy alone.
#[test]
fn an_inner_node_dies_meanwhile() {
    let lab = lab(6);
    let mut job = Job::begin_with(&lab, "n[2-6]", &["1", &(4 * IMAGE_KIB).to_string()]);
    // The second copy has its memory from n2, and those behind it are about to.
    crate::common::eventually("two copies have arrived", || listed(&lab) >= 2);
    lab.kill_node("n2").unwrap();
    let line = job.line();
    assert!(line.starts_with("5 processes after"), "{line}");
    crate::common::eventually("the copy on n2 has ended", || listed(&lab) == 4);
    end(&lab, &job);
    let line = job.line();
    assert!(line.starts_with("4 nodes reaped all of theirs"), "{line}");
    job.child.wait().unwrap();
    nothing_is_left(&lab, [1, 3, 4, 5, 6]);
}

/// A copy lends pages that it has written: its siblings get the caller's all the same.
#[test]
fn copies_have_the_memory_of_the_caller() {
    let lab = lab(5);
    let mut job = Job::begin_with(&lab, "n[2-5]", &["1", &IMAGE_KIB.to_string(), "check"]);
    let line = job.line();
    assert!(line.starts_with("4 processes after"), "{line}");
    end(&lab, &job);
    // Each has checked its memory before it wrote, and ends with 1 if a page was another one's.
    job.ends(&lab, 4);
}
