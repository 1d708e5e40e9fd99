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

/// The calls by which the first task waits, reads and writes, for a turn: a message that it sends
/// and one that it receives.
#[derive(Clone, Copy, Debug)]
struct Calls {
    /// All of them.
    all: f64,
    /// Looks that found no message: the task then makes one more call, and waits.
    late: f64,
}

fn calls_a_turn(mode: &str) -> Calls {
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
        wc -l < calls; grep -c 'pselect6.*Timeout' calls || true; tail -8 calls"
    ));
    println!("{mode}: {text}");
    let mut numbers = text.lines().map(|line| line.trim().parse::<f64>().unwrap() / 200.0);
    Calls { all: numbers.next().unwrap(), late: numbers.next().unwrap() }
}

/// Stock PVM makes six calls a turn, and a seventh if the message is not there yet when it looks.
/// Two of them are saved: four are left, and a fifth if the message is late. (The start adds some
/// 60 calls to 200 turns.)
#[test]
fn a_task_that_reads_ahead_makes_fewer_calls() {
    if Library::Pvm.is_missing() || !crate::common::is_installed("strace") {
        return;
    }
    let _alone = alone();
    let (stock, ahead) = (calls_a_turn("none"), calls_a_turn("mxi"));
    println!("calls a turn: {stock:?} without, {ahead:?} with reading ahead");
    let in_time = |calls: Calls| calls.all - calls.late;
    assert!(in_time(stock) >= 6.0, "{stock:?}");
    assert!(in_time(ahead) <= 4.5, "{ahead:?}");
}

/// Moves all tasks of a ring of PVM to other nodes, and waits until the file `over`.
const MOVED: &str = r"
    mkdir $top && cd $top && chmod 755 .
    export PVM_TMP=$PWD ring
    cat > both <<'END'
    pvmd > pvmd.out 2>&1 < /dev/null &
    until [ -e pvmd.0 ]; do sleep 0.02; done
    $ring 3 direct 100 0; status=$?
    echo halt | pvm > /dev/null 2>&1
    exit $status
END
    job tern cosched run none -- sh both
    has_begun 3; goes_on; pgrep -P $job > starter; moves=0
    for task in 0 1 2; do
        tern move $(cat task.$task) n$((task % 2 + 2)) > /dev/null 2>> refused && moves=$((moves + 1))
    done
    goes_on; touch away; until [ -e over ]; do sleep 0.1; done; ends";

/// Calls of a task that is away, for each turn of messages.
#[derive(Debug)]
struct Turn {
    /// Calls that home served: each is a round trip.
    at_home: f64,
    /// Calls by which it read, on the node where it runs.
    reads: f64,
    /// Calls by which it wrote.
    writes: f64,
}

/// A ring of tasks that are away. The second one, on n3, does nothing but send and receive.
struct Away<'a> {
    lab: &'a lab::Lab,
    /// Directory of the job, as this machine sees it.
    directory: std::path::PathBuf,
}

impl Away<'_> {
    fn number(&self, file: &str) -> i64 {
        let text = std::fs::read_to_string(self.directory.join(file)).unwrap_or_default();
        text.trim().parse().unwrap_or_default()
    }

    fn on(&self, node: &str, words: &[&str]) -> String {
        let output = self.lab.exec(node, words).unwrap();
        assert!(output.status.success(), "{words:?}: {}", output.errors());
        output.text()
    }

    /// Counts reads and writes of the body on its node since it came there.
    fn transfers(&self, body: &str) -> [i64; 2] {
        let text = self.on("n3", &["cat", &format!("/proc/{body}/io")]);
        ["syscr: ", "syscw: "].map(|name| text.lines().find_map(|line| line.strip_prefix(name)?.parse().ok()).unwrap())
    }

    fn goes_on(&self, rounds: i64) {
        let before = self.number("rounds");
        crate::common::eventually("the ring goes on", || self.number("rounds") >= before + rounds);
    }

    /// Counts for some seconds in this mode.
    fn measure(&self, mode: &str) -> Turn {
        let (starter, task) = (self.number("starter").to_string(), self.number("task.1").to_string());
        self.on("n1", &["tern", "cosched", mode, &starter]);
        // A task reads its orders again after 256 waits.
        self.goes_on(600);
        let guests: serde_json::Value = serde_json::from_str(&self.on("n3", &["tern", "guests", "--json"])).unwrap();
        let body = guests[0]["pid"].to_string();
        let (rounds, before) = (self.number("rounds"), self.transfers(&body));
        let trace = self.on("n1", &["tern", "trace", &task, "--for", "3s", "--json"]);
        let (turns, after) = ((self.number("rounds") - rounds) as f64, self.transfers(&body));
        println!("{mode}: {turns} turns: {trace}");
        let trace: serde_json::Value = serde_json::from_str(&trace).unwrap();
        let served = |place: &str| {
            let rows = trace["rows"].as_array().unwrap().iter().filter(|row| row["place"] == place);
            rows.map(|row| row["calls"].as_f64().unwrap()).sum::<f64>() / turns
        };
        let [reads, writes] = [0, 1].map(|kind| (after[kind] - before[kind]) as f64 / turns);
        Turn { at_home: served("home"), reads, writes }
    }
}

/// Sockets of tasks that are away are streams: no turn of messages takes a round trip home, and
/// with reading ahead a task reads once for a message instead of twice.
#[test]
fn a_moved_task_reads_once_for_a_message() {
    if Library::Pvm.is_missing() {
        return;
    }
    let _alone = alone();
    let lab = crate::common::lab_of(&lab::Options { whole: true, ..crate::common::options(3) });
    let ring = crate::programs::ring(&lab, Library::Pvm, &["n1"]);
    let tools = include_str!("../parallel/tools.sh");
    let script = format!("limit=600\n{tools}\nring={ring} top=/tmp/moved\n{MOVED}");
    let directory = lab.root("n1").unwrap().join("tmp/moved");
    std::thread::scope(|scope| {
        let running = scope.spawn(|| lab.exec("n1", ["timeout", "600", "bash", "-c", &script]).unwrap());
        crate::common::eventually("the tasks are away", || directory.join("away").exists() || running.is_finished());
        if !running.is_finished() {
            let away = Away { lab: &lab, directory: directory.clone() };
            let (stock, ahead) = (away.measure("none"), away.measure("mxi"));
            println!("a turn: {stock:?} without, {ahead:?} with reading ahead");
            std::fs::write(directory.join("over"), "").unwrap();
            assert!(stock.at_home < 0.1 && ahead.at_home < 0.1, "{stock:?} {ahead:?}");
            assert!(stock.reads >= 1.9 && stock.writes >= 0.9, "{stock:?}");
            assert!(ahead.reads <= 1.2 && ahead.writes >= 0.9, "{ahead:?}");
        }
        let output = running.join().unwrap();
        assert!(output.status.success(), "{}\n{}", output.text(), output.errors());
        crate::ring::Ring::of(&output.text()).moved(3);
    });
}
