//! Standard descriptors that are files of home, and files that two nodes write in turn.

use crate::{PYTHON, at_home, put, shared};

/// The offset of an open file belongs to all who share it.
#[test]
fn the_offset_of_a_shared_input_moves() {
    let text = at_home(
        &shared(),
        r#"
        set -e
        seq 1 20000 > numbers
        (placed head -c 4; echo .; cat) < numbers > away
        (head -c 4; echo .; cat) < numbers > native
        cmp away native
        (placed head -n 3; cat) < numbers > away
        (head -n 3; cat) < numbers > native
        cmp away native
        (placed sh -c 'read a; read b; echo $b $a'; cat) < numbers > away
        (sh -c 'read a; read b; echo $b $a'; cat) < numbers > native
        cmp away native
        placed sh -c 'cat; exit 3' < /dev/null || echo $?"#,
    )
    .text();
    assert_eq!(text, "3");
}

/// A standard descriptor that is closed at home is closed there, too.
#[test]
fn what_was_closed_stays_closed() {
    let text = at_home(
        &shared(),
        r#"
        for closed in '<&-' '<&- 2>&-' '2>&-'; do
            eval "placed sh -c 'for fd in 0 1 2; do [ -e /proc/self/fd/\$fd ] && echo \$fd; done' $closed"; echo
            eval "sh -c 'for fd in 0 1 2; do [ -e /proc/self/fd/\$fd ] && echo \$fd; done' $closed"; echo .
        done
        placed cat <&- 2> /dev/null; echo $?"#,
    )
    .text();
    let pairs: Vec<&str> = text
        .split(
            ".
",
        )
        .collect();
    for pair in &pairs[..3] {
        let (away, native) = pair
            .split_once(
                "

",
            )
            .unwrap();
        assert_eq!(away, native.trim_end(), "{text}");
    }
    assert_eq!(pairs[3], "1", "{text}");
}

/// Two programs on two nodes write to one open file of home: no line is lost, torn, or written
/// over.
#[test]
fn two_nodes_share_an_output() {
    let lab = shared();
    let writes = r#"
import sys
name = sys.argv[1]
for i in range(1500):
    sys.stdout.write(f"{name} {i} " + name * (i % 300) + "\n"); sys.stdout.flush()
"#;
    let path = put(&lab, "n1", "writes.py", writes.as_bytes());
    for open in [">", ">>"] {
        let text = at_home(
            &lab,
            &format!(
                r#"
            ( tern run --on n2 -- {PYTHON} {path} a & first=$!; tern run --on n3 -- {PYTHON} {path} b & second=$!
              {PYTHON} {path} c; wait $first && wait $second ) {open} both
            for name in a b c; do {PYTHON} {path} $name > alone; grep "^$name" both | cmp - alone && echo same; done
            wc -l < both"#
            ),
        )
        .text();
        assert_eq!(text.replace('\n', " "), "same same same 4500", "{open}");
    }
}

/// Failed before: a placed program that asked for the flags of a file to which its shell appends
/// was not told so, and no longer appended when it set them again; nor was it told the true offset.
#[test]
fn who_appends_goes_on_appending() {
    let lab = shared();
    let appends = r#"
import fcntl, os
flags = fcntl.fcntl(3, fcntl.F_GETFL)
os.write(3, b"second\n")
print(bool(flags & os.O_APPEND), os.lseek(3, 0, os.SEEK_CUR))
fcntl.fcntl(3, fcntl.F_SETFL, flags | os.O_NONBLOCK)
os.lseek(3, 2, os.SEEK_SET)
os.write(3, b"third\n")
print(os.fstat(3).st_size, os.lseek(3, 0, os.SEEK_CUR))
"#;
    let path = put(&lab, "n1", "appends.py", appends.as_bytes());
    let said = |place: &str| {
        at_home(&lab, &format!("exec 3>> log; echo first >&3; {place}{PYTHON} {path}; echo fourth >&3; cat log")).text()
    };
    assert_eq!(said("placed "), said(""));
}

/// A on n2 and B on n3 change blocks of one file in turn, each told by the other through home:
/// neither's cache loses a write.
#[test]
fn two_caches_lose_no_write() {
    let lab = shared();
    let path = put(&lab, "n1", "turns.py", include_bytes!("turns.py"));
    for way in ["blocks", "append", "counter"] {
        let text = at_home(&lab, &format!("{PYTHON} {path} {way} 1000")).text();
        assert_eq!(text, "right", "{way}");
    }
}
