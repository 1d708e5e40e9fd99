//! Running programs that are moved to another node and home again, started by a plain shell.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod advance;
mod ahead;
mod answers;
mod clocks;
#[path = "../common/mod.rs"]
mod common;
mod crowded;
mod dense;
mod devices;
mod families;
mod following;
mod groups;
mod heirs;
mod holding;
mod homecoming;
mod in_flight;
mod inspected;
mod kinds;
mod large;
mod leftovers;
mod mapped;
mod mpich;
mod onward;
mod peers;
mod pictures;
mod refused;
mod round_trip;
mod shared_link;
mod stopped;
mod straight;
mod swaps;
mod tasks;
mod threads;
mod timers;
mod together;
mod waits;
mod watched;
mod written;

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use lab::{Lab, Output};

/// One lab of three nodes for all tests that break nothing; it goes down with the last of them that
/// runs.
pub(crate) fn shared() -> Arc<Lab> {
    static SHARED: Mutex<Weak<Lab>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let lab = Arc::new(common::lab_of(&common::options(3)));
        *shared = Arc::downgrade(&lab);
        lab
    })
}

/// Functions of all scripts: `until CONDITION` waits for it, `lines FILE N` for so many lines,
/// `same PID` prints what must not change by a round trip.
pub(crate) const TOOLS: &str = r#"
export TERN_QUIET=1
until_() {
    tries=0
    while ! eval "$1"; do
        sleep 0.01; tries=$((tries + 1))
        if [ $tries -gt 2000 ]; then echo "in vain: $1"; tail -3 said; jobs -l; tern ps; tern log -n 20; kill $(jobs -p); exit 9; fi
    done
}
lines() { until_ "[ \$(wc -l < $1) -ge $2 ]"; }
same() {
    cat /proc/$1/maps; grep -A 30 -F '[stack]' /proc/$1/smaps | grep -m 1 VmFlags
    for fd in /proc/$1/fd/*; do echo "$fd $(readlink $fd) $(grep -v pos: /proc/$1/fdinfo/${fd##*/} | tr '\n' ' ')"; done
    ls /proc/$1/task
    grep -v -e '^Vm' -e '^Rss' -e ctxt -e '^State' -e '^SigQ' -e '^Speculation' /proc/$1/status
    readlink /proc/$1/exe /proc/$1/cwd
}
"#;

/// Runs a script at home, in a fresh directory that is this test's own.
pub(crate) fn at_home(lab: &Lab, script: &str) -> Output {
    let script = format!("cd $(mktemp -d) && chmod 755 .\n{TOOLS}\n{script}");
    let output = lab.exec("n1", ["timeout", "90", "bash", "-c", &script]).unwrap();
    assert!(output.status.success(), "{script}\n{}\n{}", output.text(), output.errors());
    output
}

/// Compiles a C program and puts it into the home; its path there.
pub(crate) fn program(lab: &Lab, name: &str, source: &str, flags: &[&str]) -> String {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::{AtomicU32, Ordering};
    // Another test may have one of the same name running.
    static MADE: AtomicU32 = AtomicU32::new(0);
    let made = MADE.fetch_add(1, Ordering::Relaxed);
    let place = |ending: &str| {
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("moving-{name}-{}-{made}{ending}", std::process::id()))
    };
    let (from, to) = (place(".c"), place(""));
    std::fs::write(&from, source).unwrap();
    let done = Command::new("cc").args(["-O1", "-pthread", "-o"]).arg(&to).arg(&from).args(flags).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let path = format!("/tmp/{made}/{name}");
    let there = lab.root("n1").unwrap().join(&path[1..]);
    std::fs::create_dir_all(there.parent().unwrap()).unwrap();
    std::fs::copy(&to, &there).unwrap();
    std::fs::set_permissions(there, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::remove_file(from).unwrap();
    std::fs::remove_file(to).unwrap();
    path
}
