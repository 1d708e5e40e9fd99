//! Queues of an unmodified PVM.

use crate::{Recording, on_first, skip_without_pvm};

/// `wait`: waits for messages of a kind that nobody sends. `wait TID`: sends it 22 of another kind.
const WAIT: &str = r#"
#include <pvm3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
/* The first task waits for messages of a kind that nobody sends; the second one sends it 22. */
int main(int count, char **words) {
    static char body[2097152];
    int own = pvm_mytid();
    pvm_setopt(PvmRoute, PvmRouteDirect);
    if (count == 1) {
        FILE *file = fopen("draft", "w");
        fprintf(file, "%d\n", own);
        fclose(file);
        rename("draft", "tid");
        while (access("go", 0) != 0) { pvm_nrecv(-1, 2); usleep(1000); }
        for (int n = 0; n < 5; n++) pvm_recv(-1, 1);
        fclose(fopen("taken", "w"));
        for (;;) { pvm_nrecv(-1, 2); usleep(1000); }
    }
    for (int n = 0; n < 22; n++) {
        pvm_initsend(PvmDataRaw);
        pvm_pkbyte(body, sizeof body, 1);
        pvm_send(atoi(words[1]), 1);
    }
    fclose(fopen("sent", "w"));
    pvm_exit();
    return 0;
}
"#;

/// A task that is sent 22 messages of 2 MB and receives none: 46,137,344 bytes, as in Fig. 3 of the
/// paper.
#[test]
fn messages_that_wait_in_a_task_are_counted_exactly() {
    if skip_without_pvm() {
        return;
    }
    let text = on_first(&format!(
        r#"
        export PVM_ROOT=/usr/lib/pvm3 PVM_ALLOW_ROOT=1 PVM_TMP=$PWD
        cat > wait.c <<'END'{WAIT}END
        gcc -o wait wait.c -lpvm3 || exit 8
        pvmd > pvmd.out 2>&1 < /dev/null & until_ '[ -e pvmd.0 ]'
        ./wait & task=$!
        until_ '[ -e tid ]'
        ./wait $(cat tid)
        until_ '[ -e sent ]'
        echo "task $task"
        tern netmon -t 3 --json -f lo > said & netmon=$!
        until_ 'grep -q 46137344 said'
        sleep 1.5
        touch go; until_ '[ -e taken ]'
        wait $netmon
        cat said
        tern netmon plot --into pictures | grep -c rx_messages
        kill $task; echo halt | pvm > /dev/null 2>&1; true"#,
    ));
    let task: i64 = text.lines().find_map(|line| line.strip_prefix("task ")).unwrap().parse().unwrap();
    let recording = Recording::read(&text);
    let tasks = recording.objects("task", |object| object["pid"] == task);
    let (messages, bytes) = (recording.values(tasks[0], "rx_messages"), recording.values(tasks[0], "rx_bytes"));
    assert!(messages.contains(&22) && bytes.contains(&46_137_344), "{messages:?} {bytes:?}");
    assert!(
        bytes.iter().zip(&messages).all(|(bytes, messages)| *bytes == messages * 2_097_152),
        "{messages:?} {bytes:?}"
    );
    // Five were taken at last.
    assert_eq!(messages.last(), Some(&17));
    // All 22, and perhaps again what was left.
    let findings = recording.findings(tasks[0]);
    assert_eq!((findings[0].as_str(), findings.len() <= 2), ("rx_messages receiver-does-not-read", true));
    // The daemon has told of its own host, and of the task.
    let rows = recording.objects("daemon", |_| true);
    assert!(rows.iter().any(|row| recording.values(*row, "round_trip_us").len() == 1), "{:?}", recording.notes());
    assert_eq!(text.lines().last(), Some("1"));
}
