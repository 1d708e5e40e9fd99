//! A move must not kill a stranger: a node that is short of what a process needs refuses it in
//! words, and those who run there live.

use std::os::unix::process::ExitStatusExt as _;
use std::sync::OnceLock;

use lab::{Lab, Output};

use crate::support::{at_home, attacker, put};

/// Memory of each node, bytes.
const NODE_BYTES: u64 = 1 << 30;

/// In scripts: a user's process of so many MiB at home, the same placed on n2, and waiting until
/// one has written two more lines.
const HELPERS: &str = r#"
    heavy() { : > $2; chmod 666 $2; setpriv --reuid 1000 --regid 1000 --clear-groups -- /tmp/heavy $1 $2 2> $2.err & pid=$!; }
    stranger() { : > $2; chmod 666 $2; setpriv --reuid 1001 --regid 1001 --clear-groups -- tern run --on n2 -- /tmp/heavy $1 $2 2> $2.err & pid=$!; }
    works() { lines=$(wc -l < $1); while [ $(wc -l < $1) -le $((lines + 2)) ]; do sleep 0.02; done; }
"#;

/// Compiled once: the tests of this module run side by side.
fn heavy() -> &'static [u8] {
    static HEAVY: OnceLock<Vec<u8>> = OnceLock::new();
    HEAVY.get_or_init(|| attacker("heavy"))
}

fn small_lab() -> Lab {
    let mut options = crate::common::options(3);
    options.memory_bytes = Some(NODE_BYTES);
    let lab = crate::common::lab_of(&options);
    for node in ["n1", "n2", "n3"] {
        put(&lab, node, "heavy", heavy());
    }
    lab
}

fn run(lab: &Lab, script: &str) -> Output {
    let output = at_home(lab, &format!("{HELPERS}{script}"));
    assert!(output.status.success(), "{:?} {}\n{}", output.status.signal(), output.text(), output.errors());
    output
}

#[test]
fn a_process_too_large_for_a_node_stays_home_and_strangers_live() {
    let lab = small_lab();
    let text = run(
        &lab,
        r#"
        stranger 600 theirs; theirs=$pid; works theirs
        heavy 450 mine; mine=$pid; works mine
        setpriv --reuid 1000 --regid 1000 --clear-groups -- tern move $mine n2 > said 2>&1 && echo moved
        cat said
        works mine; works theirs
        kill -0 $mine && kill -0 $theirs && echo both live
        tern ps --json | grep -c '"pid"'
        tern move $mine n2 --force > said 2>&1
        grep -q 'is short for' said && cat said
        kill -9 $mine $theirs; true"#,
    )
    .text();
    assert!(text.contains("n2 is short for process") && text.contains("it needs 45"), "{text}");
    assert!(text.contains("MiB are available to guests") && text.contains("--force"), "{text}");
    assert!(text.contains("both live") && !text.contains("\nmoved"), "{text}");
    assert_eq!(text.matches("is short for").count(), 1, "with --force it is tried: {text}");
}

#[test]
fn from_node_to_node_and_home_as_well() {
    let lab = small_lab();
    let text = run(
        &lab,
        r#"
        setpriv --reuid 1001 --regid 1001 --clear-groups -- true
        stranger 600 theirs; theirs=$pid; works theirs
        tern run --on n3 -- /tmp/heavy 450 mine 2> mine.err & mine=$!
        while [ ! -s mine ]; do sleep 0.02; done; works mine
        tern move $mine n2 2>&1 && echo moved
        heavy 700 fills; fills=$pid; works fills
        tern move $mine home 2>&1 && echo moved
        works mine; works theirs
        kill -9 $mine $theirs $fills"#,
    )
    .text();
    assert!(text.contains("n2 is short for process") && text.contains("n1 is short for process"), "{text}");
    assert!(!text.contains("\nmoved"), "{text}");
}

#[test]
fn no_program_begins_where_memory_is_short() {
    let lab = small_lab();
    let text = run(
        &lab,
        r#"
        stranger 900 theirs; theirs=$pid; works theirs
        while tern run --on n2 -- true 2> said; do sleep 0.1; done; cat said
        tern run --on n2 --force -- echo forced
        works theirs; kill -9 $theirs"#,
    )
    .text();
    assert!(text.contains("n2 is short for process") && text.contains("it needs 32 MiB of memory"), "{text}");
    assert!(text.contains("--force") && text.contains("forced"), "{text}");
}

/// Its limits are set when all that it has is open, though restoring it takes more.
#[test]
fn who_has_nearly_all_descriptors_open_moves() {
    let lab = crate::support::shared();
    put(&lab, "n1", "full", &attacker("full"));
    let hard = if may_raise_limits() { 64 } else { 4096 };
    let text = run(
        &lab,
        &format!(
            r#"
        setpriv --reuid 1000 --regid 1000 --clear-groups -- /tmp/full {hard} > lines 2> said & pid=$!
        while [ ! -s lines ]; do sleep 0.02; done; works lines
        for node in n2 home n3 n2 home; do tern move $pid $node 2>&1 || echo "not to $node"; works lines; done
        kill -9 $pid; cat said; sort lines | uniq -c"#
        ),
    )
    .text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 1, "{text}");
    assert!(lines[0].ends_with(&format!("57 right, 4 more, full, 64 {hard}")), "{text}");
}

/// In many containers root may not (CAP_SYS_RESOURCE).
fn may_raise_limits() -> bool {
    const CAP_SYS_RESOURCE: u32 = 24;
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
    u64::from_str_radix(effective.trim(), 16).unwrap() & 1 << CAP_SYS_RESOURCE != 0
}
