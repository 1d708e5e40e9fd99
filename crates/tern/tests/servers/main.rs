//! Servers and clients that people use: natively at home, and with one side or both placed on a
//! node that has nothing. The same is printed.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../common/mod.rs"]
mod common;
mod moved;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use common::is_installed;
use lab::Lab;

/// How long one run may take, seconds.
const LIMIT_S: &str = "90";

/// One lab for all tests; it goes down with the last.
fn shared() -> Arc<Lab> {
    static SHARED: Mutex<Weak<Lab>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let lab = Arc::new(common::lab_of(&common::options(4)));
        *shared = Arc::downgrade(&lab);
        lab
    })
}

fn inputs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/input")
}

/// Runs a script in n1, in a directory of its own with all inputs. What it is to place, it runs
/// behind `$RUN`, or, on a third node, `$ELSEWHERE`.
fn run(lab: &Lab, script: &str, port: u16, placed: bool) -> String {
    let place = format!("/tmp/{port}-{placed}");
    let outside = lab.root("n1").unwrap().join(&place[1..]);
    std::fs::create_dir(&outside).unwrap();
    for entry in std::fs::read_dir(inputs()).unwrap().flatten() {
        std::fs::copy(entry.path(), outside.join(entry.file_name())).unwrap();
    }
    let on = |node: &str| if placed { format!("tern run --quiet --on {node} --") } else { String::new() };
    let (run, elsewhere) = (on("n2"), on("n3"));
    let line = format!(
        "cd {place} && PATH=$PATH:/usr/sbin PORT={port} RUN='{run}' ELSEWHERE='{elsewhere}' exec timeout -s KILL {LIMIT_S} {script}"
    );
    let output = lab.exec("n1", ["bash", "-c", &line]).unwrap();
    assert!(output.status.success(), "{script}, placed: {placed}\n{}\n{}", output.text(), output.errors());
    output.text()
}

/// The same is printed natively and placed.
fn both(needs: &[&str], script: &str, port: u16) -> Option<String> {
    if let Some(missing) = needs.iter().find(|program| !is_installed(program)) {
        skip::test(format_args!("{missing} is not installed"));
        return None;
    }
    let lab = shared();
    let native = run(&lab, script, port, false);
    assert_eq!(run(&lab, script, port, true), native, "{script}");
    Some(native)
}

#[test]
fn a_web_server() {
    let said = both(&["curl", "ss"], "bash http.sh", 7001);
    assert!(said.is_none_or(|s| s.matches("same").count() == 2));
}

#[test]
fn a_database_in_memory() {
    let said = both(&["redis-server", "redis-benchmark"], "bash redis.sh", 7002);
    assert!(said.is_none_or(|s| s.contains("1500\n1500")), "the counter");
}

#[test]
fn workers_on_one_listener() {
    if !Path::new("/usr/sbin/nginx").exists() {
        return skip::test("nginx is not installed");
    }
    let said = both(&["curl", "ab"], "bash nginx.sh", 7003);
    assert!(said.is_none_or(|s| s.contains("same")));
}

#[test]
fn descriptors_go_both_ways() {
    let said = both(&[], "bash rights.sh", 7004).unwrap();
    assert!(said.contains("b'to whom?'") && said.contains("through the pipe"), "{said}");
}

#[test]
fn asynchronous_streams() {
    both(&[], "$RUN python3 streams.py", 7005);
}

#[test]
fn javascript() {
    both(&["node"], "$RUN node server.js", 7006);
}

#[test]
fn ruby() {
    both(&["ruby"], "$RUN ruby server.rb", 7007);
}

#[test]
fn perl() {
    both(&[], "$RUN perl server.pl", 7008);
}

#[test]
fn a_database_of_many_processes() {
    if !Path::new("/usr/lib/postgresql").exists() {
        return skip::test("PostgreSQL is not installed");
    }
    let said = both(&[], "bash postgres.sh", 7010).unwrap();
    assert!(said.contains("200/200") && said.ends_with("ended 0\n1"), "{said}");
}

#[test]
fn three_panes() {
    let said = both(&["tmux"], "bash tmux.sh", 7011);
    assert!(said.is_none_or(|s| s.contains("\n42\n") && s.contains("typed\ntyped")));
}

#[test]
fn a_copy_through_a_pipeline() {
    let said = both(&["nc", "zstd"], "bash copy.sh", 7012);
    assert!(said.is_none_or(|s| s.starts_with("0\nsame")));
}

#[test]
fn a_crate_is_built() {
    let said = both(&["cargo"], "bash cargo.sh", 7013);
    assert!(said.is_none_or(|s| s.contains("3628800\n3628800")));
}

#[test]
fn a_virtual_machine_for_java() {
    let said = both(&["java"], "$RUN java -Xmx256m Work.java", 7014);
    assert!(said.is_none_or(|s| s.contains("child5")));
}

#[test]
fn names_are_found() {
    both(&[], "$RUN getent hosts localhost", 7009);
}
