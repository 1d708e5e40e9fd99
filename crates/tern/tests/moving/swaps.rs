//! Many moves at once: two nodes that change processes with each other.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Stdio};

use lab::{Lab, Options};

use crate::common;

/// Looks at random memory all the time, and says so; SIGTERM: the last word.
const HOLDER: &str = r#"
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
enum { WORDS = 4 << 17 };
static volatile int stop;
static void got(int signal) { stop = 1; }
int main(void) {
    uint64_t *memory = malloc(WORDS * 8), seed = getpid();
    signal(SIGTERM, got);
    for (long n = 0; n < WORDS; n++) memory[n] = seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    printf("%d\n", getpid()); fflush(stdout);
    while (!stop) {
        seed = getpid();
        for (long n = 0; n < WORDS; n++) if (memory[n] != (seed = seed * 6364136223846793005ULL + 1442695040888963407ULL)) { puts("torn"); return 1; }
        usleep(1000);
    }
    puts("whole");
    return 0;
}
"#;

struct Holder {
    node: &'static str,
    pid: String,
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Holder {
    fn start(lab: &Lab, node: &'static str, program: &str) -> Holder {
        let mut child = lab.in_node(node, [program]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut pid = String::new();
        said.read_line(&mut pid).unwrap();
        Holder { node, pid: pid.trim().to_owned(), child, said }
    }

    fn go(&self, lab: &Lab, to: &str, how: &str) {
        let moved = lab.exec(self.node, ["tern", "move", &self.pid, to, "--how", how]).unwrap();
        assert!(moved.status.success(), "{} {to} {how}: {}", self.pid, moved.errors());
    }

    fn end(mut self, lab: &Lab) -> String {
        lab.exec(self.node, ["tern", "move", &self.pid, "home"]).unwrap();
        let pid: i32 = self.pid.parse().unwrap();
        let all = lab.processes(self.node).unwrap();
        let inner = |host: &i32| {
            let status = std::fs::read_to_string(format!("/proc/{host}/status")).unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix("NSpid:").map(str::to_owned));
            line.and_then(|numbers| numbers.split_whitespace().last()?.parse().ok()) == Some(pid)
        };
        let host = all.into_iter().find(inner).unwrap();
        // SAFETY: no memory is passed; the process is this test's.
        unsafe { libc::kill(host, libc::SIGTERM) };
        let mut last = String::new();
        self.said.read_line(&mut last).unwrap();
        self.child.wait().unwrap();
        last.trim().to_owned()
    }
}

/// Six processes cross over a full link, by every way, and come back: none hinders another for
/// ever, and none is torn. How fairly they share it, `tern bench pairs` measures.
#[test]
fn two_nodes_swap_processes() {
    const NODES: [(&str, &str); 2] = [("n1", "n2"), ("n2", "n1")];
    let lab = common::lab_of(&Options { rate_bits: Some(100_000_000), ..common::options(2) });
    let path = crate::program(&lab, "holder", HOLDER, &["-static"]);
    let (from, to) = (lab.root("n1").unwrap().join(&path[1..]), lab.root("n2").unwrap().join("tmp/holder"));
    std::fs::copy(from, to).unwrap();
    let programs = [("n1", path.as_str()), ("n2", "/tmp/holder")];
    let holders: Vec<Holder> =
        programs.iter().flat_map(|(node, program)| (0..3).map(|_| Holder::start(&lab, node, program))).collect();
    let all_go = |way: &str, how: &str| {
        std::thread::scope(|scope| {
            for holder in &holders {
                let other = NODES.iter().find(|(node, _)| *node == holder.node).unwrap().1;
                let to = if way == "out" { other } else { "home" };
                scope.spawn(|| holder.go(&lab, to, how));
            }
        });
    };
    for how in ["stop", "pre", "post", "flush"] {
        all_go("out", how);
        all_go("home", if how == "pre" { "auto" } else { how });
    }
    let last: Vec<String> = holders.into_iter().map(|holder| holder.end(&lab)).collect();
    assert_eq!(last, ["whole"; 6]);
}
