//! Whatever of tern's dies under a guest, its user is told on the terminal, and nothing of it is
//! left over.

use lab::Lab;

use crate::common;
use crate::support::{at_home, attacker, put, wait_for};

/// Three guests on n2, each waiting in another way; the script ends with them, and prints their
/// exit status and what they were told.
const GUESTS: &str = r#"
    mkfifo empty; exec 9<> empty
    guest() { n=$1; shift; ( tern run --on n2 -- "$@" 2> told.$n < empty 9<&-; echo "status $?" >> told.$n ) & }
    guest 1 sleep 1000
    guest 2 sh -c 'while :; do :; done'
    guest 3 cat
    wait; cat told.1 told.2 told.3"#;

/// The processes of a node whose command line has this word.
fn processes(lab: &Lab, node: &str, word: &str) -> Vec<i32> {
    let has = |pid: &i32| {
        std::fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| line.split(|b| *b == 0).any(|w| w == word.as_bytes()))
    };
    lab.processes(node).unwrap().into_iter().filter(has).collect()
}

fn field(pid: i32, name: &str) -> Vec<i32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_default().split_whitespace().filter_map(|n| n.parse().ok()).collect()
}

/// Those whose parent is of the same role (what it forked: the heir of a steward, the porter of a
/// warden), and the others.
fn children_and_parents(lab: &Lab, node: &str, role: &str) -> (Vec<i32>, Vec<i32>) {
    let all = processes(lab, node, role);
    all.iter().copied().partition(|pid| field(*pid, "PPid").iter().any(|parent| all.contains(parent)))
}

fn kill(pids: &[i32]) {
    send(pids, libc::SIGKILL);
}

fn send(pids: &[i32], signal: i32) {
    assert!(!pids.is_empty(), "nobody to send a signal to");
    for pid in pids {
        // SAFETY: a signal to a process of this test's lab.
        assert_eq!(unsafe { libc::kill(*pid, signal) }, 0);
    }
}

fn away(lab: &Lab) -> usize {
    lab.exec("n1", ["tern", "ps", "--json"]).unwrap().text().matches("\"pid\"").count()
}

/// Runs three guests, does this when they run, and returns what they were told.
fn told(lab: &Lab, meanwhile: impl FnOnce(&Lab)) -> String {
    std::thread::scope(|scope| {
        let guests = scope.spawn(|| at_home(lab, GUESTS));
        let run = ["1000", "while :; do :; done", "cat"];
        let all_run = || run.iter().all(|word| processes(lab, "n2", word).len() == 1);
        wait_for("the guests to run", || away(lab) == 3 && all_run());
        meanwhile(lab);
        let said = guests.join().unwrap();
        assert!(said.status.success(), "{} {}", said.text(), said.errors());
        said.text()
    })
}

/// All three ended as if killed, and each was told so once.
fn assert_told(said: &str, words: &str) {
    assert_eq!(said.matches("status 137").count(), 3, "{said}");
    assert_eq!(said.matches(words).count(), 3, "{said}");
    assert_eq!(said.matches("tern: ").count(), 3, "{said}");
}

fn log(lab: &Lab) -> String {
    lab.exec("n1", ["tern", "log", "-n", "1000"]).unwrap().text()
}

#[test]
fn a_steward_that_dies_is_told_of() {
    let lab = common::lab_of(&common::options(2));
    let said = told(&lab, |lab| kill(&children_and_parents(lab, "n1", "__steward").1));
    assert_told(&said, "ran on n2, and its steward here has died");
    assert!(log(&lab).contains("3 processes end with it"));
    wait_for("the bodies to end", || processes(&lab, "n2", "cat").is_empty());
}

/// Failed before: nothing said of what.
#[test]
fn what_a_steward_dies_of_is_told() {
    let lab = common::lab_of(&common::options(2));
    let said = told(&lab, |lab| send(&children_and_parents(lab, "n1", "__steward").1, libc::SIGABRT));
    assert_told(&said, "ran on n2, and its steward here has died (it got signal 6)");
    assert!(log(&lab).contains("has ended (it got signal 6): 3 processes end with it"));
}

#[test]
fn a_warden_that_dies_is_told_of() {
    let lab = common::lab_of(&common::options(2));
    let said = told(&lab, |lab| kill(&children_and_parents(lab, "n2", "__warden").1));
    assert_told(&said, "ran on n2, which is lost");
    assert!(log(&lab).contains("room ends: "));
}

#[test]
fn a_porter_that_dies_is_told_of() {
    let lab = common::lab_of(&common::options(2));
    let said = told(&lab, |lab| kill(&children_and_parents(lab, "n2", "__warden").0));
    assert_told(&said, "the first process of its room ended");
    assert!(log(&lab).contains("the first process of its room ended"));
}

#[test]
fn what_kills_itself_or_is_killed_at_home_is_told_nothing() {
    let lab = common::lab_of(&common::options(2));
    let said = at_home(
        &lab,
        "tern run --on n2 -- sh -c 'kill -9 $$'; echo $?; tern run --on n2 -- sleep 100 & sleep 0.5; kill -9 $!; wait $!; echo $?",
    );
    assert_eq!(said.text(), "137\n137");
    assert!(!said.errors().contains("tern:"), "{}", said.errors());
}

#[test]
fn want_of_memory_is_told_of() {
    let mut options = common::options(2);
    options.memory_bytes = Some(512 << 20);
    let lab = common::lab_of(&options);
    put(&lab, "n1", "heavy", &attacker("heavy"));
    let said = at_home(&lab, "tern run --on n2 -- /tmp/heavy 4000 lines; echo $?");
    assert_eq!(said.text(), "137", "{}", said.errors());
    assert!(said.errors().contains("ran on n2, whose kernel killed it for want of memory"), "{}", said.errors());
    assert!(log(&lab).contains("for want of memory"));
}

#[test]
fn an_heir_that_dies_is_replaced_and_ends_what_the_steward_leaves_behind() {
    let lab = common::lab_of(&common::options(2));
    let said = told(&lab, |lab| {
        let (heirs, stewards) = children_and_parents(lab, "n1", "__steward");
        for _ in 0..3 {
            let next = processes(lab, "n1", "__heir");
            kill(if next.is_empty() { &heirs } else { &next });
            let is_new = |pid: &i32| !next.contains(pid) && field(*pid, "PPid") == stewards;
            wait_for("another heir", || processes(lab, "n1", "__heir").iter().any(is_new));
            let placed = at_home(lab, "tern run --on n2 -- echo placed");
            assert_eq!(placed.text(), "placed", "{}", placed.errors());
        }
        wait_for("the new heir to have all", || log(lab).matches("the new heir has 3 deputies").count() == 3);
        kill(&stewards);
    });
    assert_told(&said, "ran on n2, and its steward here has died");
    assert!(processes(&lab, "n1", "__heir").is_empty());
}
