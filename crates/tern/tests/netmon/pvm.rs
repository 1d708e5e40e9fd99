//! Queues of an unmodified PVM.

use crate::{Recording, detail, on_first, skip_without_pvm};

/// `wait ROUTE`: waits for messages of a kind that nobody sends. `wait ROUTE TID BYTES`: sends that
/// task 22 of another kind, once there is a file `start`.
const WAIT: &str = r#"
#include <pvm3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int count, char **words) {
    static char body[2097152];
    int own = pvm_mytid();
    pvm_setopt(PvmRoute, strcmp(words[1], "direct") ? PvmDontRoute : PvmRouteDirect);
    if (count == 2) {
        FILE *file = fopen("draft", "w");
        fprintf(file, "%d\n", own);
        fclose(file);
        rename("draft", "tid");
        while (access("go", 0) != 0) { pvm_nrecv(-1, 2); usleep(1000); }
        for (int n = 0; n < 5; n++) pvm_recv(-1, 1);
        fclose(fopen("taken", "w"));
        for (;;) { pvm_nrecv(-1, 2); usleep(1000); }
    }
    fclose(fopen("enrolled", "w"));
    while (access("start", 0) != 0) usleep(1000);
    for (int n = 0; n < 22; n++) {
        pvm_initsend(PvmDataRaw);
        pvm_pkbyte(body, atoi(words[3]), 1);
        pvm_send(atoi(words[2]), 1);
    }
    fclose(fopen("sent", "w"));
    pvm_exit();
    return 0;
}
"#;

/// Starts a daemon and a task, `$task`, that receives nothing. `halts` ends both.
fn begin(route: &str) -> String {
    format!(
        r#"
        export PVM_ROOT=/usr/lib/pvm3 PVM_ALLOW_ROOT=1 PVM_TMP=$PWD
        cat > wait.c <<'END'{WAIT}END
        gcc -o wait wait.c -lpvm3 || exit 8
        pvmd > pvmd.out 2>&1 < /dev/null & daemon=$!
        until_ '[ -e pvmd.0 ]'
        ./wait {route} & task=$!
        until_ '[ -e tid ]'
        echo "task $task"; touch start
        halts() {{ kill -CONT $task; kill $task; echo halt | pvm > /dev/null 2>&1; true; }}
        "#
    )
}

/// The process of the task that [`begin`] started.
fn task(text: &str) -> i64 {
    text.lines().find_map(|line| line.strip_prefix("task ")).unwrap().parse().unwrap()
}

/// A task that is sent 22 messages of 2 MB and receives none: 46,137,344 bytes, as in Fig. 3 of the
/// paper.
#[test]
fn messages_that_wait_in_a_task_are_counted_exactly() {
    if skip_without_pvm() {
        return;
    }
    let text = on_first(&format!(
        r#"{}
        ./wait direct $(cat tid) 2097152
        until_ '[ -e sent ]'
        tern netmon -t 3 --json -f lo > said & netmon=$!
        until_ 'grep -q 46137344 said'
        until_ 'grep -q receiver-does-not-read said'
        touch go; until_ '[ -e taken ]'
        wait $netmon
        cat said
        tern netmon plot --into pictures | grep -c rx_messages
        halts"#,
        begin("direct")
    ));
    let (task, recording) = (task(&text), Recording::read(&text));
    let tasks = recording.objects("task", |object| object["pid"] == task);
    let (messages, bytes) = (recording.values(tasks[0], "rx_messages"), recording.values(tasks[0], "rx_bytes"));
    assert!(messages.contains(&22) && bytes.contains(&46_137_344), "{messages:?} {bytes:?}");
    let is_exact = |(bytes, messages): (&u64, &u64)| *bytes == messages * 2_097_152;
    assert!(bytes.iter().zip(&messages).all(is_exact), "{messages:?} {bytes:?}");
    // All 22, and perhaps again what was left.
    let findings = recording.findings(tasks[0]);
    assert_eq!((findings[0].as_str(), findings.len() <= 2), ("rx_messages receiver-does-not-read", true));
    // The daemon has told of its own host.
    let rows = recording.objects("daemon", |_| true);
    assert!(rows.iter().any(|row| recording.values(*row, "round_trip_us").len() == 1), "{:?}", recording.notes());
    assert_eq!(text.lines().last(), Some("1"));
}

/// A task that is stopped: what is sent to it by way of the daemon waits there, and the daemon says
/// so itself. netmon's console leaves nothing behind.
#[test]
fn packets_that_wait_in_a_daemon_are_told() {
    if skip_without_pvm() {
        return;
    }
    let text = on_first(&format!(
        r#"{}
        kill -STOP $task
        timeout 100 ./wait daemon $(cat tid) 100000
        until_ '[ -e sent ]'
        tern netmon -t 4 --json -p pvmd -p wait
        # Consoles of this daemon alone: others' tests have theirs. One may be about to end.
        consoles() {{ grep -lzx "PVM_TMP=$PWD" $(pgrep -f 'lib/pvm$' | sed 's|.*|/proc/&/environ|') /dev/null; }}
        until_ '[ -z "$(consoles 2> /dev/null)" ]'
        halts"#,
        begin("daemon")
    ));
    let recording = Recording::read(&text);
    let name = format!("[{}]", task(&text));
    let is_row = |object: &serde_json::Value| object["name"].as_str().is_some_and(|text| text.ends_with(&name));
    let row = recording.objects("daemon", |object| is_row(object) && detail(object, "receiver") == Some("task"))[0];
    let (packets, bytes) = (recording.values(row, "packets"), recording.values(row, "bytes"));
    // A part is in the socket between them.
    assert!(packets[0] > 100 && bytes[0] > 1_000_000 && bytes[0] <= 2_300_000, "{packets:?} {bytes:?}");
    assert_eq!(recording.findings(row), ["packets receiver-does-not-read"]);
}

/// A daemon that does nothing: the socket of a task to it is full, and the daemon is named.
#[test]
fn a_daemon_that_does_not_pass_on_is_named_as_the_bottleneck() {
    if skip_without_pvm() {
        return;
    }
    let text = on_first(&format!(
        r#"{}
        rm start; ./wait daemon $(cat tid) 100000 & sender=$!
        until_ '[ -e enrolled ]'
        kill -STOP $daemon; touch start
        tern netmon -t 4 --json --layers socket -p $daemon -p $sender
        kill -CONT $daemon; kill $sender
        halts"#,
        begin("daemon")
    ));
    let recording = Recording::read(&text);
    let found: Vec<String> =
        recording.objects("socket", |_| true).into_iter().flat_map(|id| recording.findings(id)).collect();
    assert!(!found.is_empty() && found.iter().all(|finding| finding.ends_with(" daemon-bottleneck")), "{found:?}");
}

/// `handler`: sends itself a message, and sends seven from the handler of that one: PVM keeps those
/// in `txlist` until the handler returns.
const HANDLER: &str = r#"
#include <pvm3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static char body[10000];
static int handle(int message) {
    for (int n = 0; n < 7; n++) {
        pvm_initsend(PvmDataRaw);
        pvm_pkbyte(body, sizeof body, 1);
        pvm_send(pvm_mytid(), 3);
    }
    fclose(fopen("queued", "w"));
    while (access("go", 0) != 0) usleep(1000);
    return 0;
}
int main() {
    int own = pvm_mytid();
    pvm_addmhf(own, 1, -1, handle);
    pvm_initsend(PvmDataRaw);
    pvm_send(own, 1);
    for (int n = 0; n < 7; n++) pvm_recv(-1, 3);
    fclose(fopen("received", "w"));
    pvm_exit();
    return 0;
}
"#;

/// Messages that a handler sends, in a program with Debian's library.
#[test]
fn messages_that_wait_to_be_sent_are_counted() {
    if skip_without_pvm() {
        return;
    }
    let text = on_first(&format!(
        r#"{}
        cat > handler.c <<'END'{HANDLER}END
        gcc -o handler handler.c -lpvm3 || exit 8
        ./handler & handler=$!
        until_ '[ -e queued ]'
        echo "handler $handler"
        tern netmon -t 2 --json --layers task > said & netmon=$!
        until_ 'grep -q tx_messages said'
        touch go; until_ '[ -e received ]'
        wait $netmon; cat said
        readelf -n /usr/lib/x86_64-linux-gnu/libpvm3.so.3 | grep 'Build ID'
        halts"#,
        begin("daemon")
    ));
    if !text.contains("e7ae5a38c549c91b94e3d905c28dbbb97fc016d8") {
        skip::test("this build of libpvm3 is not known");
        return;
    }
    let handler: i64 = text.lines().find_map(|line| line.strip_prefix("handler ")).unwrap().parse().unwrap();
    let recording = Recording::read(&text);
    let task = recording.objects("task", |object| object["pid"] == handler)[0];
    let (messages, bytes) = (recording.values(task, "tx_messages"), recording.values(task, "tx_bytes"));
    assert_eq!((messages[0], bytes[0]), (7, 70_000), "{messages:?} {bytes:?}");
    assert!(recording.gone(task).unwrap().ends_with("has ended"));
}
