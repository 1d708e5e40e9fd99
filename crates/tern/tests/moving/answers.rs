//! Moves of processes that are busy with something else just then: each gets the right answer, and
//! is as it was.

use crate::{at_home, program, shared};

/// The first line of what a move says contains this; lines that are no answers must be these words.
fn answers(text: &str, wanted: &[&str]) {
    let lines: Vec<&str> = text.lines().collect();
    let right = lines.iter().zip(wanted).all(|(said, wanted)| said.contains(wanted));
    assert!(right && lines.len() == wanted.len(), "{text}");
}

/// Being moved, by pre-copy that cannot keep up, for as long as that takes.
const WRITER: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void) {
    size_t bytes = 16 << 20;
    char *memory = malloc(bytes);
    for (int round = 0;; round++) {
        memset(memory, round, bytes);
        if (round == 1) { puts("up"); fflush(stdout); }
    }
}
"#;

#[test]
fn one_that_is_moved_already() {
    let lab = shared();
    let writer = program(&lab, "writer", WRITER, &[]);
    let text = at_home(
        &lab,
        &format!(
            r#"
        {writer} > said & pid=$!
        lines said 1
        for to in n2 n2 n2 n2; do tern move $pid $to --how stop > answer.$RANDOM 2>&1 & movers="$movers $!"; done
        wait $movers
        cat answer.* | grep -c -e 'moved already' -e 'runs on n2 already' -e 'last move'
        tern ps | awk -v pid=$pid '$1 == pid {{ print "away on", $3 }}'
        kill $pid; wait $pid 2> /dev/null; echo $?"#
        ),
    )
    .text();
    assert_eq!(text, "3\naway on n2\n143");
}

/// One that executes a new program all the time, and one that ends at any moment.
#[test]
fn those_that_exec_and_end() {
    let lab = shared();
    let text = at_home(
        &lab,
        r#"
        cat > again <<'END'
n=$(($1 + 1)); echo $n >> count
[ $n -ge 120 ] && [ -e enough ] && { echo $$ $n; exit 3; }
[ $n -ge 3000 ] && exit 4
exec bash again $n
END
        touch moves; bash again 0 > said 2>&1 & pid=$!
        while kill -0 $pid 2> /dev/null; do for to in n2 n3 home; do tern move $pid $to > /dev/null 2>> refused && echo >> moves; done
            [ $(wc -l < moves) -ge 12 ] && touch enough; done
        wait $pid; echo $?
        [ "$(cat said)" = "$pid $(wc -l < count)" ] && echo same; seq $(wc -l < count) | cmp - count && echo all
        [ -e enough ] && echo moved || { wc -l < moves; sort refused | uniq -c; }
        sleep 0.01 & pid=$!; wait $pid
        tern move $pid n2 2>&1 | head -1; tern move 1 n2 2>&1 | head -1"#,
    )
    .text();
    answers(&text, &["3", "same", "all", "moved", "no process", "keeps the machine"]);
}

/// One that a debugger traces, and another user's.
#[test]
fn those_that_others_have() {
    let lab = shared();
    let text = at_home(
        &lab,
        r#"
        sleep 1000 & pid=$!
        python3 -c "
import ctypes, time
libc = ctypes.CDLL(None, use_errno=True); libc.ptrace.argtypes = [ctypes.c_long] * 4
assert libc.ptrace(0x4206, $pid, 0, 0) == 0
print('traced', flush=True); time.sleep(1000)" > traced & tracer=$!
        lines traced 1; tern move $pid n2 2>&1 | head -1
        kill $tracer; wait $tracer 2> /dev/null
        setpriv --reuid=65534 --regid=65534 --clear-groups tern move $pid n2 2>&1 | head -1
        tern move $pid n2 && echo moved; kill $pid"#,
    )
    .text();
    answers(&text, &["a debugger", "another user's", "moved"]);
}

/// A wait that SIGSTOP has interrupted, which the kernel goes on with by itself. Failed once: the
/// thread stayed stopped for ever.
#[test]
fn one_that_waits_again() {
    let lab = shared();
    let source = r#"
#include <stdio.h>
#include <time.h>
int main(void) {
    struct timespec some = {3, 0};
    puts("up"); fflush(stdout);
    nanosleep(&some, NULL);
    return 3;
}
"#;
    let waits = program(&lab, "waits-again", source, &[]);
    let text = at_home(
        &lab,
        &format!(
            r#"
        state() {{ cut -d' ' -f3 /proc/$pid/stat; }}
        tern run --on n2 -- {waits} > said & pid=$!
        lines said 1
        kill -STOP $pid; until_ '[ $(state) = T ]'; kill -CONT $pid; until_ '[ $(state) = S ]'
        tern move $pid n3 2>&1 | head -1; wait $pid; echo $?"#
        ),
    )
    .text();
    // The kernel may have let it go on in another way, or it may have ended.
    assert!(text.ends_with("3"), "{text}");
}
