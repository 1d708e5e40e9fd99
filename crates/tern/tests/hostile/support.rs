//! What the attacks have in common: a shared lab, compiled attackers, users without rights.
#![allow(dead_code, reason = "each module uses a part")]

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use lab::{Lab, Output};

/// Bounds every wait; generous, because the machine may be busy.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// Returns the lab of three nodes that all attacks share which leave it working. The last test that holds it takes it down.
pub(crate) fn shared() -> Arc<Lab> {
    static SHARED: Mutex<Weak<Lab>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let lab = Arc::new(crate::common::lab_of(&crate::common::options(3)));
        *shared = Arc::downgrade(&lab);
        lab
    })
}

/// Waits for a condition; panics after [`DEADLINE`].
pub(crate) fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < DEADLINE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Runs a shell script as root on n1, in a fresh directory that everybody may enter. `as_user N CMD` in it runs CMD as user N.
pub(crate) fn at_home(lab: &Lab, script: &str) -> Output {
    const PRELUDE: &str = "cd $(mktemp -d) && chmod 777 .\n\
        as_user() { user=$1; shift; setpriv --reuid $user --regid $user --clear-groups -- \"$@\"; }\n";
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

/// Compiles the attacker `guests/attacks/NAME.c` into a static program.
pub(crate) fn attacker(name: &str) -> Vec<u8> {
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../../guests/attacks/{name}.c"));
    let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let done = Command::new("cc").args(["-static", "-O1", "-o"]).arg(&program).arg(&source).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let bytes = std::fs::read(&program).unwrap();
    std::fs::remove_file(program).unwrap();
    bytes
}
