//! Programs that have as many files open as home allows them.

use std::process::Stdio;

use crate::{lab, placed};

/// Opens as many files as it may, or `$1`, most of them for reading, a tenth for writing; says how
/// many; then uses them all, though their names are gone.
const OPENS: &str = "
import os, resource, sys
most = int(sys.argv[1]) or resource.getrlimit(resource.RLIMIT_NOFILE)[0]
name = '/tmp/opened.%d' % os.getpid()
files = []
try:
    while len(files) < most:
        number = len(files) % 100
        flags = os.O_RDWR | os.O_CREAT if len(files) % 10 == 0 else os.O_RDONLY
        file = os.open('%s.%d' % (name, number - number % 10), flags, 0o600)
        files.append(file)
        if flags & os.O_CREAT: os.pwrite(file, b'%03d' % number, 0)
except OSError as e:
    print('refused:', e.strerror, end=' ')
for number in range(0, 100, 10): os.unlink('%s.%d' % (name, number))
print(len(files), flush=True)
sys.stdin.read()
wrong = 0
for at, file in enumerate(files):
    number = at % 100
    wrong += os.pread(file, 9, 0) != b'%03d' % (number - number % 10)
    if at % 7 == 0: os.lseek(file, 1, os.SEEK_SET); wrong += os.read(file, 2) != b'%d0' % (number // 10)
print('wrong', wrong)
";

/// So many files one process at home may have open: a third of them was all that the programs of a
/// room had together.
const LIMIT: usize = 600;

#[test]
fn programs_that_have_all_open_that_they_may_leave_others_theirs() {
    let lab = lab(2);
    let limited = format!(
        r#"prlimit --nofile={LIMIT}:{LIMIT} --pid $(tern status --json | sed -n 's/.*"pid": \([0-9]*\).*/\1/p')"#
    );
    let set = lab.exec("n1", ["sh", "-c", &limited]).unwrap();
    assert!(set.status.success(), "{}", set.errors());
    let start = |count: usize| {
        let argv = ["timeout", "-s", "KILL", "150", "tern", "run", "--on", "n2", "--", "python3", "-c", OPENS];
        let mut command = lab.in_node("n1", argv.into_iter().map(String::from).chain([count.to_string()]));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
    };
    // The first three have more than twice as many together as the steward's table holds, ...
    let mut greedy = [start(1000), start(1000), start(1000)];
    let mut said: Vec<_> = greedy.iter_mut().map(crate::lines_of).collect();
    for lines in &mut said {
        assert_eq!(lines.next().unwrap().unwrap(), "1000");
    }
    // ... and others begin, open and read as ever.
    for _ in 0..3 {
        let other = placed(&lab, "n2", &["sh", "-c", "cat /etc/passwd | wc -l; python3 -c 'print(7)'"]);
        assert!(other.text().ends_with('7'), "{} {}", other.text(), other.errors());
    }
    for (child, lines) in greedy.iter_mut().zip(&mut said) {
        drop(child.stdin.take());
        assert_eq!(lines.next().unwrap().unwrap(), "wrong 0");
        assert!(child.wait().unwrap().success());
    }
}
