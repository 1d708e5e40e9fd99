//! Control groups of the real kernel: limits hold, usage is counted, nothing is left behind.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use os::cgroup::{Group, Limits, detect};

/// Ends a child whatever happens to the test.
struct Running(Child);

impl Running {
    fn shell(script: &str) -> Running {
        Running(Command::new("sh").args(["-c", script]).spawn().unwrap())
    }

    fn pid(&self) -> i32 {
        self.0.id() as i32
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A parent group of the test's own, removed with it.
struct Parent(String);

impl Parent {
    fn new(test: &str) -> Parent {
        Parent(format!("tern-test-{test}-{}", std::process::id()))
    }

    fn child(&self) -> String {
        format!("{}/child", self.0)
    }
}

impl Drop for Parent {
    fn drop(&mut self) {
        for group in [self.child(), self.0.clone()] {
            let _ = Group::open(&group).and_then(|group| group.end(Duration::from_secs(5)));
        }
    }
}

fn has(controller: &str) -> bool {
    detect().unwrap().iter().any(|h| h.controllers.iter().any(|c| c == controller))
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_group_limits_counts_and_ends() {
    let parent = Parent::new("room");
    let limits = Limits {
        pids: has("pids").then_some(8),
        memory_bytes: has("memory").then_some(64 << 20),
        cpu_milli: has("cpu").then_some(100),
        cpu_weight: has("cpu").then_some(50),
    };
    let group = Group::create(&parent.child(), &limits).unwrap();
    let mut busy = Running::shell("read go; while :; do :; done");
    group.attach(busy.pid()).unwrap();
    assert_eq!(group.processes(), [busy.pid()]);
    drop(busy.0.stdin.take());
    if has("pids") {
        assert_eq!(group.usage().pids, Some(1));
    }
    let again = Group::open(&parent.child()).unwrap();
    assert_eq!(again.processes(), [busy.pid()]);
    drop(again);
    group.end(Duration::from_secs(20)).unwrap();
    assert!(!busy.0.wait().unwrap().success());
    assert!(Group::open(&parent.child()).is_err());
}

#[test]
fn the_cpu_quota_is_kept() {
    if !has("cpu") || !(has("cpuacct") || detect().unwrap().iter().any(|h| h.unified)) {
        return skip::test("no cpu controller here");
    }
    let parent = Parent::new("cpu");
    let group = Group::create(&parent.child(), &Limits { cpu_milli: Some(200), ..Limits::default() }).unwrap();
    let busy = Running::shell("while :; do :; done");
    group.attach(busy.pid()).unwrap();
    let (start, before_us) = (Instant::now(), group.usage().cpu_us.unwrap());
    until("CPU time", || group.usage().cpu_us.unwrap() - before_us > 100_000);
    let share = (group.usage().cpu_us.unwrap() - before_us) as f64 / start.elapsed().as_micros() as f64;
    // A load beside us can only make it less. One period more than the quota may fall into the
    // measured span.
    assert!(share < 0.25, "{share}");
    drop(busy);
    group.end(Duration::from_secs(20)).unwrap();
}

#[test]
fn weights_share_a_cpu() {
    if !has("cpu") || !(has("cpuacct") || detect().unwrap().iter().any(|h| h.unified)) {
        return skip::test("no cpu controller here");
    }
    let parents = [Parent::new("light"), Parent::new("heavy")];
    let weighing = |at: usize, weight: u64| {
        Group::create(&parents[at].0, &Limits { cpu_weight: Some(weight), ..Limits::default() }).unwrap()
    };
    let (light, heavy) = (weighing(0, 50), weighing(1, 200));
    let busy = [&light, &heavy].map(|group| {
        let busy = Running::shell("taskset -cp 0 $$ > /dev/null; while :; do :; done");
        group.attach(busy.pid()).unwrap();
        busy
    });
    until("CPU time", || heavy.usage().cpu_us.unwrap() > 600_000);
    let (less, more) = (light.usage().cpu_us.unwrap(), heavy.usage().cpu_us.unwrap());
    assert!(less * 2 < more, "{less} us beside {more} us");
    drop(busy);
    light.end(Duration::from_secs(20)).unwrap();
    heavy.end(Duration::from_secs(20)).unwrap();
}

#[test]
fn too_many_processes_and_too_much_memory_are_refused() {
    if !has("pids") || !has("memory") {
        return skip::test("no pids or memory controller here");
    }
    let parent = Parent::new("full");
    let limits = Limits { pids: Some(2), memory_bytes: Some(16 << 20), ..Limits::default() };
    let group = Group::create(&parent.child(), &limits).unwrap();
    let inside = |script: &str| {
        let enter = format!("read go; {script}");
        let mut child =
            Running(Command::new("sh").args(["-c", &enter]).stdin(std::process::Stdio::piped()).spawn().unwrap());
        group.attach(child.pid()).unwrap();
        drop(child.0.stdin.take());
        child.0.wait().unwrap()
    };
    assert!(inside("true").code().is_some());
    assert!(!inside("for i in 1 2 3 4; do sleep 99 & done").success(), "five processes in a group of two");
    // Without an end of line tail keeps all that it reads.
    let killed = inside("exec tail /dev/zero");
    assert_eq!(killed.signal(), Some(9), "more than 16 MB in a group of 16 MB: {killed}");
    group.end(Duration::from_secs(20)).unwrap();
}

#[test]
fn a_dropped_group_is_gone_unless_kept() {
    let parent = Parent::new("drop");
    drop(Group::create(&parent.child(), &Limits::default()).unwrap());
    assert!(Group::open(&parent.child()).is_err());
    Group::create(&parent.child(), &Limits::default()).unwrap().keep();
    Group::open(&parent.child()).unwrap().end(Duration::from_secs(20)).unwrap();
    for wrong in ["", "/", "../x", "a//b", "a/../../b", "/a"] {
        assert!(Group::create(wrong, &Limits::default()).is_err(), "{wrong:?}");
    }
}
