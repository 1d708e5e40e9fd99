//! What comes by a mapping of the kernel's own while pages go ahead.

use crate::killed::eventually;
use lab::{Lab, Options};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

/// It reads into pages that it has written before, and looks at them when it has come home. The pages go home while it waits for what it reads, and what it reads
/// comes before the next look at what was written.
const SCRIPT: &str = r#"
cd $(mktemp -d); mkfifo in
python3 -c "
import mmap, os
pages = mmap.mmap(-1, 8192, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); pages[:] = b'a' * 8192
source = os.open('in', os.O_RDWR)
got = os.readv(source, [pages])
os.read(source, 1)
print(got, 'bytes,', pages[:].count(b'b'), 'seen')" & pid=$!
exec 9> in
tern move $pid n2 --how stop && echo away
read -r
tern move $pid home --how pre & mover=$!
read -r
head -c 8192 /dev/zero | tr '\0' b >&9
read -r
wait $mover && echo home
echo >&9; wait $pid
"#;

/// The body on that node waits in readv(2), or has read.
fn is_in(lab: &Lab, call: i64) -> Option<()> {
    let is_it = |pid: &i32| {
        let text = |what: &str| std::fs::read_to_string(format!("/proc/{pid}/{what}")).unwrap_or_default();
        text("comm").trim() == "python3" && text("syscall").starts_with(&format!("{call} "))
    };
    lab.processes("n2").unwrap().iter().any(is_it).then_some(())
}

/// A page that was protected between the beginning of the read and its end was not known to be written, and came home as it had been before.
#[test]
fn pages_that_are_read_into_meanwhile() {
    use std::io::{Read, Write};
    let lab = Lab::up(env!("CARGO_BIN_EXE_tern"), &Options::new(Lab::fresh_name("faults").unwrap(), 2)).unwrap();
    let there = lab.root("n2").unwrap().join("run/tern");
    // Of a room's threads some are not the superuser there.
    std::fs::set_permissions(&there, std::fs::Permissions::from_mode(0o777)).unwrap();
    let mut script = lab.in_node("n1", ["timeout", "-s", "KILL", "60", "bash", "-c", SCRIPT]);
    let mut script = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut next = script.stdin.take().unwrap();
    eventually("the read", || is_in(&lab, libc::SYS_readv));
    std::fs::write(there.join("fault"), "round homeward there:hang").unwrap();
    next.write_all(b"\n").unwrap();
    eventually("the first round", || there.join("fault.done").exists().then_some(()));
    next.write_all(b"\n").unwrap();
    eventually("the next read", || is_in(&lab, libc::SYS_read));
    std::fs::write(there.join("fault.over"), "").unwrap();
    next.write_all(b"\n").unwrap();
    let mut said = String::new();
    script.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    script.wait().unwrap();
    assert_eq!(said, "away\nhome\n8192 bytes, 8192 seen\n");
}
