//! A child that is being made while its parent's open files become home's.

use crate::{TOOLS, common, program};
use lab::Lab;
use std::time::{Duration, Instant};

/// Makes children that write to a pipe, one after the other; another child, which has the pipe too,
/// only waits.
const HEIRS: &str = r#"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
    int p[2], end[2], status, whole = 0;
    while (access("go", F_OK)) usleep(1000);
    if (pipe(p) || pipe(end)) return 2;
    pid_t witness = fork();
    if (witness == 0) {
        char byte;
        close(end[1]);
        _exit((int)read(end[0], &byte, 1));
    }
    FILE *file = fopen("witness.new", "w");
    fprintf(file, "%d\n", witness);
    fclose(file);
    rename("witness.new", "witness");
    while (access("end", F_OK)) {
        char byte;
        pid_t heir = fork();
        if (heir == 0) _exit(write(p[1], "x", 1) == 1 ? 0 : errno);
        waitpid(heir, &status, 0);
        if (status) printf("an heir: %s\n", strerror(WEXITSTATUS(status)));
        else whole += read(p[0], &byte, 1) == 1;
    }
    close(end[1]);
    waitpid(witness, &status, 0);
    printf("%s\n", whole > 2 && status == 0 ? "whole" : "too few");
    return 0;
}
"#;

const SCRIPT: &str = r#"
$heirs > said & pid=$!
tern move $pid n2; touch go
until_ '[ -e witness ]'; echo $pid > parent.new; mv parent.new parent
until_ '[ -e held ]'
tern move $(cat witness) home
touch end; wait $pid; cat said
"#;

/// The process of the room on a node that has this number there, from outside.
fn in_room(lab: &Lab, node: &str, number: &str) -> Option<i32> {
    let numbers = |host: &i32| {
        let status = std::fs::read_to_string(format!("/proc/{host}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("NSpid:").map(str::to_owned)).unwrap_or_default();
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let all: Vec<(i32, Vec<String>)> =
        lab.processes(node).unwrap().into_iter().map(|host| (host, numbers(&host))).collect();
    let deepest = all.iter().map(|(_, numbers)| numbers.len()).max()?;
    let is_it = |numbers: &[String]| numbers.len() == deepest && numbers.last().is_some_and(|last| last == number);
    all.into_iter().find(|(_, numbers)| is_it(numbers)).map(|(host, _)| host)
}

/// Its tracer holds it.
fn stands(host: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{host}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('t'))
}

/// Home has made the child's deputy already when its parent is made to stand still, so that it does
/// not get what its parent's gets; it takes that when it needs it. (That failed under load, when
/// the steward did not hold the pipe yet: EBADF, for a grep in a pipeline of which tmux had passed
/// the other end.) The room makes no process while its first one stands still, so the child is in
/// between here.
#[test]
fn a_child_that_is_being_made_while_a_pipe_becomes_homes() {
    let lab = common::lab_of(&common::options(2));
    let heirs = program(&lab, "heirs", HEIRS, &[]);
    let script = format!("mkdir /tmp/family && cd /tmp/family\n{TOOLS}\nheirs={heirs}\n{SCRIPT}");
    let dir = lab.root("n1").unwrap().join("tmp/family");
    let said = std::thread::scope(|scope| {
        let running = scope.spawn(|| lab.exec("n1", ["timeout", "60", "bash", "-c", &script]).unwrap());
        let wait_for = |holds: &dyn Fn() -> bool| {
            let begun = Instant::now();
            while !holds() && !running.is_finished() && begun.elapsed() < Duration::from_secs(30) {
                std::thread::sleep(Duration::from_millis(2));
            }
        };
        let number = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap_or_default().trim().to_owned();
        // SAFETY: numbers only; a process of this test's own lab.
        let signal = |pid, signal| unsafe { libc::kill(pid, signal) };
        wait_for(&|| dir.join("parent").exists());
        let find = |number: &str| in_room(&lab, "n2", number).unwrap();
        let (porter, parent, witness) = (find("1"), find(&number("parent")), find(&number("witness")));
        signal(porter, libc::SIGSTOP);
        wait_for(&|| stands(parent));
        std::fs::write(dir.join("held"), "").unwrap();
        wait_for(&|| stands(witness));
        signal(porter, libc::SIGCONT);
        running.join().unwrap()
    });
    assert_eq!(said.text(), "whole", "{}", said.errors());
}
