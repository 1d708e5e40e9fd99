//! A program that is replaced by another while its pages have gone ahead.

use lab::{Lab, Options};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// Fills its data and its stack; when it has executed itself, looks at them as well.
const PROGRAM: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
enum { SIZE = 1 << 16 };
static volatile unsigned char data[SIZE] = {1};
static int differ(volatile unsigned char *bytes) {
    int found = 0;
    for (int i = 0; i < SIZE; i++) found += bytes[i] != (unsigned char)(i * 7 + 1);
    return found;
}
int main(int count, char **words) {
    volatile unsigned char stack[SIZE];
    const struct timespec rest = {0, 1000000};
    int again = count > 1;
    for (int i = 0; i < SIZE; i++) data[i] = stack[i] = i * 7 + 1;
    close(open(again ? "again" : "begun", O_CREAT | O_WRONLY, 0666));
    while (access(again ? "end" : "exec", F_OK)) nanosleep(&rest, 0);
    if (!again) execl(words[0], words[0], "again", (char *)0);
    if (differ(data) || differ(stack)) printf("%d and %d bytes differ\n", differ(data), differ(stack));
    else puts("all there");
    return 0;
}
"#;

const SCRIPT: &str = r#"
cd $(mktemp -d); faults=/run/tern/fault; rm -f $faults*
until_() { tries=0; until [ -e $1 ] || [ $tries -gt 1000 ]; do sleep 0.01; tries=$((tries + 1)); done; }
/tmp/execs & pid=$!
until_ begun
echo freeze:hang > $faults; tern move $pid n2 --how $1 & mover=$!
until_ $faults.done; touch exec; until_ again
touch $faults.over; wait $mover; echo "move $?"
touch end; wait $pid; echo "end $?"; rm -f $faults*
"#;

/// What lies where something of the earlier program lay, and is alike, was taken for sent by the
/// one end, and laid out anew by the other.
#[test]
fn what_went_ahead_was_of_another_program() {
    let lab = Lab::up(env!("CARGO_BIN_EXE_tern"), &Options::new(Lab::fresh_name("faults").unwrap(), 2)).unwrap();
    let there = lab.root("n1").unwrap();
    // Of a steward's threads some are not the superuser there.
    std::fs::set_permissions(there.join("run/tern"), std::fs::Permissions::from_mode(0o777)).unwrap();
    let source = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("execs.c");
    std::fs::write(&source, PROGRAM).unwrap();
    let built = Command::new("cc").args(["-static", "-O1", "-o"]).args([&there.join("tmp/execs"), &source]).status();
    assert!(built.unwrap().success());
    for how in ["auto", "pre"] {
        let output = lab.exec("n1", ["timeout", "-s", "KILL", "60", "bash", "-c", SCRIPT, "bash", how]).unwrap();
        assert_eq!(output.text(), "move 0\nall there\nend 0", "{how}: {}", output.errors());
    }
}
