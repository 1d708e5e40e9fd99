//! Placing leaves nothing behind.

use std::collections::BTreeMap;
use std::fs;

use lab::Lab;

use crate::{comm, lab, wait_for};

/// Resident memory may grow by this much in 200 placements: caches of the allocator, not leaks of
/// every placement.
const GROWTH_BYTES: u64 = 16 << 20;

/// What could be left, counted for one node.
type Counts = BTreeMap<String, usize>;

fn counts(lab: &Lab, node: &str) -> Counts {
    let mut counts = Counts::new();
    let mut add = |what: String, number: usize| *counts.entry(what).or_default() += number;
    for pid in lab.processes(node).unwrap() {
        let name = comm(pid);
        let list = |what: &str| fs::read_dir(format!("/proc/{pid}/{what}")).into_iter().flatten().count();
        add(format!("descriptors of {name}"), list("fd"));
        add(format!("threads of {name}"), list("task"));
        for kind in ["mnt", "net", "pid", "user", "uts", "ipc", "time", "cgroup"] {
            let space = fs::read_link(format!("/proc/{pid}/ns/{kind}")).unwrap_or_default();
            // Namespaces are counted once each, by a key of their own.
            if !space.as_os_str().is_empty() {
                add(format!("namespace {}", space.display()), 0);
            }
        }
        let mounts = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        add(format!("mounts of {name}"), mounts.lines().count());
        add(format!("processes {name}"), 1);
    }
    for node_group in lab.state().node(node).unwrap().whole_cgroups() {
        let mut pending = vec![node_group.to_owned()];
        while let Some(directory) = pending.pop() {
            add(format!("cgroups below {}", node_group.display()), 1);
            let entries = fs::read_dir(directory).into_iter().flatten().flatten();
            pending.extend(entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()));
        }
    }
    let namespaces = counts.keys().filter(|key| key.starts_with("namespace ")).count();
    counts.retain(|key, _| !key.starts_with("namespace "));
    counts.insert("namespaces".into(), namespaces);
    counts
}

fn resident_bytes(lab: &Lab, node: &str) -> u64 {
    let of = |pid: i32| -> u64 {
        let statm = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
        statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
    };
    lab.processes(node).unwrap().into_iter().map(of).sum()
}

/// 16 at a time, on the same 40 files, which the home's server keeps at hand; each reads a file,
/// writes one, and prints.
fn place(lab: &Lab, times: u32) {
    let script = format!(
        "cd /tmp && for i in $(seq {times}); do echo $i; done | xargs -P 16 -I N tern run --on n2 -- sh -c 'read line < /etc/hostname; echo N > out.$((N % 40)); echo $line N' | sort -u | wc -l"
    );
    let output = lab.exec("n1", ["sh", "-c", &script]).unwrap();
    assert_eq!(output.text(), times.to_string(), "{}", output.errors());
}

/// What there is more of than before: who has gone since was leaving anyway.
fn grown(before: &[Counts; 2], after: &[Counts; 2]) -> Vec<String> {
    let more = |(before, after): (&Counts, &Counts)| {
        let more = after.iter().filter(|(what, count)| **count > before.get(*what).copied().unwrap_or(0));
        more.map(|(what, count)| format!("{what}: {count}")).collect::<Vec<_>>()
    };
    before.iter().zip(after).flat_map(more).collect()
}

#[test]
fn two_hundred_placements_leave_nothing() {
    let lab = lab(2);
    // The first ones make the room, fill caches, and start threads that stay.
    place(&lab, 40);
    let nodes = ["n1", "n2"];
    let settled = || nodes.map(|node| counts(&lab, node));
    let mut before = settled();
    wait_for("the nodes to settle", || {
        // Longer than a room keeps closed files open at home.
        std::thread::sleep(std::time::Duration::from_millis(2500));
        let now = settled();
        let same = now == before;
        before = now;
        same
    });
    let memory = nodes.map(|node| resident_bytes(&lab, node));
    place(&lab, 200);
    let mut left = grown(&before, &settled());
    let start = std::time::Instant::now();
    while !left.is_empty() && start.elapsed() < crate::DEADLINE {
        std::thread::sleep(std::time::Duration::from_millis(100));
        left = grown(&before, &settled());
    }
    assert!(left.is_empty(), "{left:#?}\nbefore: {before:#?}");
    for (node, before) in nodes.iter().zip(memory) {
        let after = resident_bytes(&lab, node);
        assert!(after < before + GROWTH_BYTES, "{node}: {before} to {after} bytes");
    }
}
