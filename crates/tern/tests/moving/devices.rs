//! Programs that compare the device numbers of files with those that they have seen before: they
//! are moved in between.

use crate::{at_home, shared};

/// tar(1) puts an empty file in the place of each link with an absolute name, and the link into the
/// place of that when it has read all of the archive, if it finds the same file there. Before, it
/// found another one, left it, and said nothing.
#[test]
fn links_are_extracted_wherever_tar_runs() {
    let lab = shared();
    for ways in ["n2", "n2 home", "n2 n3 home n3"] {
        let text = at_home(
            &lab,
            &format!(
                r#"
            mkdir in out; mkfifo pipe
            for i in $(seq -w 400); do ln -s /absolute/$i in/link$i; echo $i > in/file$i; done
            tar cf all.tar -C in .
            half=$(($(stat -c %s all.tar) / 2))
            tar xf - -C out < pipe 2> errors & pid=$!
            exec 3> pipe
            head -c $half all.tar >&3
            until_ '[ $(ls out | wc -l) -gt 100 ]'
            for node in {ways}; do tern move $pid $node > why 2>&1 || cat why; done
            tail -c +$((half + 1)) all.tar >&3
            exec 3>&-
            wait $pid; echo $? $(find out -type l | wc -l) $(find out -type f -size 0 | wc -l) $(find out -type f | wc -l)
            cat errors"#
            ),
        )
        .text();
        assert_eq!(text.trim(), "0 400 0 400", "{ways}");
    }
}

/// What is placed sees its node's numbers until it is moved, unless home wants otherwise. With the
/// node's numbers, this loses files as above.
#[test]
fn links_are_extracted_by_what_was_placed_and_then_moved() {
    let lab = shared();
    for ways in ["n3", "n3 home", "home n2"] {
        let text = at_home(
            &lab,
            &format!(
                r#"
            mkdir in out; mkfifo pipe
            for i in $(seq -w 400); do ln -s /absolute/$i in/link$i; echo $i > in/file$i; done
            tar cf all.tar -C in .
            half=$(($(stat -c %s all.tar) / 2))
            tern policy set devices=home
            tern run --on n2 -- tar xf - -C out < pipe 2> errors & pid=$!
            exec 3> pipe
            head -c $half all.tar >&3
            until_ '[ $(ls out | wc -l) -gt 100 ]'
            tern policy set devices=node
            for node in {ways}; do tern move $pid $node > why 2>&1 || cat why; done
            tail -c +$((half + 1)) all.tar >&3
            exec 3>&-
            wait $pid; echo $? $(find out -type l | wc -l) $(find out -type f -size 0 | wc -l) $(find out -type f | wc -l)
            cat errors"#
            ),
        )
        .text();
        let last = text.lines().last().unwrap_or_default();
        assert_eq!(last.trim(), "0 400 0 400", "{ways}: {text}");
    }
}

/// find(1) says that a directory has changed if it has another number when that is left.
#[test]
fn directories_are_the_same_wherever_find_runs() {
    let lab = shared();
    let text = at_home(
        &lab,
        r#"
        mkdir -p tree/a/b/c tree/d; touch tree/a/b/stop tree/a/b/c/file tree/d/other
        find tree -name stop -exec sh -c 'touch waits; until [ -e go ]; do sleep 0.01; done' \; -o -print > found 2>&1 &
        pid=$!
        until_ '[ -e waits ]'
        tern move $pid n2 > why 2>&1 || cat why
        touch go
        wait $pid; echo $?
        sort found"#,
    )
    .text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines, ["0", "tree", "tree/a", "tree/a/b", "tree/a/b/c", "tree/a/b/c/file", "tree/d", "tree/d/other"]);
}
