//! System calls of unmodified PVM tasks that read ahead.

use crate::programs::Library;
use crate::{alone, run};

/// `pair`: two tasks that send each other a message of 100 bytes 200 times by the direct route.
const PAIR: &str = r"
#include <pvm3.h>
#include <string.h>
enum { TURNS = 200, BYTES = 100 };
static char body[BYTES];
static int turn(int other, int sends) {
    if (sends) {
        pvm_initsend(PvmDataRaw);
        memset(body, 7, BYTES);
        pvm_pkbyte(body, BYTES, 1);
        return pvm_send(other, 1);
    }
    memset(body, 0, BYTES);
    pvm_recv(other, 1);
    pvm_upkbyte(body, BYTES, 1);
    return body[BYTES - 1] == 7 ? 0 : -1;
}
int main(int count, char **words) {
    int other = pvm_parent(), is_first = other == PvmNoParent, failed = 0;
    pvm_setopt(PvmRoute, PvmRouteDirect);
    if (is_first && pvm_spawn(words[0], 0, PvmTaskDefault, 0, 1, &other) != 1) return 2;
    for (int n = 0; n < 2 * TURNS; n++) failed |= turn(other, (n & 1) != is_first);
    pvm_exit();
    return failed != 0;
}
";

/// Counts the calls by which the first task waits, reads and writes, for a turn: a message that it
/// sends and one that it receives.
fn calls_a_turn(mode: &str) -> f64 {
    let text = run(&format!(
        "cat > pair.c <<'END'{PAIR}END
        cc -o pair pair.c -lpvm3
        cat > both <<'END'
        pvmd > pvmd.out 2>&1 < /dev/null &
        until [ -e pvmd.0 ]; do sleep 0.02; done
        strace -o calls -e trace=pselect6,read,write $PWD/pair; status=$?
        echo halt | pvm > /dev/null 2>&1
        exit $status
END
        tern cosched run {mode} -- sh both
        wc -l < calls; tail -8 calls"
    ));
    println!("{mode}: {text}");
    text.lines().next().unwrap().trim().parse::<f64>().unwrap() / 200.0
}

/// Stock PVM makes six calls a turn, and a seventh if the message is not there yet when it looks.
/// Two of them are saved. (A few calls of the start count along.)
#[test]
fn a_task_that_reads_ahead_makes_fewer_calls() {
    if Library::Pvm.is_missing() || !crate::common::is_installed("strace") {
        return;
    }
    let _alone = alone();
    let (stock, ahead) = (calls_a_turn("none"), calls_a_turn("mxi"));
    println!("calls a turn: {stock} without, {ahead} with reading ahead");
    assert!(stock >= 6.0, "{stock}");
    // Each of both may find a message late or in time.
    assert!(ahead <= 5.5 && ahead < stock, "{ahead} of {stock}");
}
