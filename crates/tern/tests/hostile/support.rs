//! What the attacks have in common: a shared lab, compiled attackers, users without rights.
#![allow(dead_code, reason = "each module uses a part")]

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use lab::{Lab, Output};

/// Bounds every wait; generous, because the machine may be busy.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// Returns the lab of three nodes that all attacks share which leave it working. The last test that
/// holds it takes it down.
pub(crate) fn shared() -> Arc<Lab> {
    static SHARED: Mutex<Weak<Lab>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let lab = Arc::new(crate::common::lab_of(&crate::common::options(3)));
        *shared = Arc::downgrade(&lab);
        lab
    })
}

/// Keeps the other attacks that look at all processes away from the shared lab as long as it is
/// held.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a condition; panics after [`DEADLINE`].
pub(crate) fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < DEADLINE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Runs a shell script as root on n1, in a fresh directory that everybody may enter. `as_user N
/// CMD` in it runs CMD as user N.
pub(crate) fn at_home(lab: &Lab, script: &str) -> Output {
    const PRELUDE: &str = "cd $(mktemp -d) && chmod 777 .\n\
        as_user() { user=$1; shift; setpriv --reuid $user --regid $user --clear-groups -- \"$@\"; }\n\
        as_nobody() { setpriv --reuid nobody --regid nogroup --clear-groups -- \"$@\"; }\n";
    let script = format!("{PRELUDE}{script}");
    lab.exec("n1", ["timeout", "60", "sh", "-c", &script]).unwrap()
}

/// Puts an executable file into a node's /tmp; returns its path there.
pub(crate) fn put(lab: &Lab, node: &str, name: &str, content: &[u8]) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    let path = format!("/tmp/{name}");
    let there = lab.root(node).unwrap().join(&path[1..]);
    std::fs::write(&there, content).unwrap();
    std::fs::set_permissions(there, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Compiles the attacker `attackers/NAME.c` into a static program.
pub(crate) fn attacker(name: &str) -> Vec<u8> {
    let source = PathBuf::from(script(&format!("{name}.c")));
    let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!(
        "{name}-{:?}-{}",
        std::thread::current().id(),
        std::process::id()
    ));
    let done = Command::new("cc").args(["-static", "-O1", "-o"]).arg(&program).arg(&source).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let bytes = std::fs::read(&program).unwrap();
    std::fs::remove_file(program).unwrap();
    bytes
}

/// Not the interpreter of a version manager, which is a script that forks.
pub(crate) const PYTHON: &str = "/usr/bin/python3";

/// The path of an attacker's script, which the home sees too.
pub(crate) fn script(name: &str) -> String {
    let scripts = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/hostile/attackers");
    scripts.join(name).to_str().unwrap().to_owned()
}

/// Whether `tern ps` at home shows no process that is away.
pub(crate) fn nobody_is_away(lab: &Lab) -> bool {
    let listed = lab.exec("n1", ["tern", "ps", "--json"]).unwrap();
    let rows: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap_or_default();
    rows.as_array().is_some_and(Vec::is_empty)
}

/// Another user's process at home, which sleeps; it ends with this.
pub(crate) struct Victim {
    lab: Arc<Lab>,
    /// Its number on n1.
    pub(crate) pid: i32,
}

impl Victim {
    /// Starts one of user `user` on n1.
    pub(crate) fn start(lab: &Arc<Lab>, user: u32) -> Victim {
        let begun = at_home(lab, &format!("as_user {user} sh -c 'sleep 10000 > /dev/null 2>&1 & echo $!'"));
        Victim { lab: Arc::clone(lab), pid: begun.text().trim().parse().unwrap() }
    }

    /// Whether it sleeps, with no tracer.
    pub(crate) fn is_well(&self) -> bool {
        let status = self.lab.exec("n1", ["cat", &format!("/proc/{}/status", self.pid)]).unwrap().text();
        status.contains("Name:\tsleep\n") && status.contains("State:\tS") && status.contains("TracerPid:\t0")
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.lab.exec("n1", ["kill", "-KILL", &self.pid.to_string()]);
    }
}
