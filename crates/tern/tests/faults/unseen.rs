//! What comes by a mapping of the kernel's own while pages go ahead.

use crate::killed::eventually;
use crate::told::{self, Faults, Script};
use lab::Lab;

/// It reads into pages that it has written before, and looks at them when it has come home. The
/// pages go home while it waits for what it reads, and what it reads comes before the next look at
/// what was written.
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

/// A page that was protected between the beginning of the read and its end was not known to be
/// written, and came home as it had been before.
#[test]
fn pages_that_are_read_into_meanwhile() {
    let lab = told::lab(2);
    let (faults, mut script) = (Faults::of(&lab, "n2"), Script::start(&lab, SCRIPT));
    eventually("the read", || is_in(&lab, libc::SYS_readv));
    faults.set("round homeward there:hang");
    script.go_on();
    faults.await_met();
    script.go_on();
    eventually("the next read", || is_in(&lab, libc::SYS_read));
    faults.end();
    script.go_on();
    assert_eq!(script.rest(), ["away", "home", "8192 bytes, 8192 seen"]);
}
