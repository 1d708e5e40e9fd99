//! The C library, used by C programs, by one written for BProc, and from Python.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use lab::Lab;

use crate::{at_home, lab};

/// The library as it is installed, and its examples, built once.
pub fn installed() -> &'static Path {
    static INSTALLED: OnceLock<PathBuf> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libtern");
        std::fs::create_dir_all(&directory).unwrap();
        let words = ["run", "--quiet", "--package", "xtask", "--", "library"];
        let built = Command::new(env!("CARGO")).args(words).arg(&directory).status().unwrap();
        assert!(built.success());
        let shared = ["calls", "old", "dump", "many"].map(|example| (example, false));
        for (example, static_library) in shared.into_iter().chain([("calls", true), ("dump", true)]) {
            compile(&directory, example, static_library);
        }
        directory
    })
}

fn compile(installed: &Path, example: &str, static_library: bool) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../libtern/examples").join(format!("{example}.c"));
    let said = |words: &[&str]| {
        let output = Command::new("pkg-config")
            .args(words)
            .arg("tern")
            .env("PKG_CONFIG_PATH", installed.join("lib/pkgconfig"))
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap().split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let mut compiler = Command::new("gcc");
    compiler.args(["-O1", "-Wall", "-Wextra", "-Werror"]).args(said(&["--cflags"])).arg(&source);
    if static_library {
        compiler.arg("-o").arg(installed.join(format!("{example}-static")));
        compiler.arg(installed.join("lib/libtern.a")).args(["-lgcc_s", "-lm"]);
    } else {
        compiler.arg("-o").arg(installed.join(example)).args(said(&["--libs"]));
        compiler.arg(format!("-Wl,-rpath={}", installed.join("lib").display()));
    }
    assert!(compiler.status().unwrap().success(), "{example}");
}

/// Runs an example at home; what it prints.
fn example(lab: &Lab, name: &str, words: &[&str]) -> String {
    let program = installed().join(name);
    let output = at_home(lab, &[&[program.to_str().unwrap()], words].concat());
    output.text() + &output.errors()
}

#[test]
fn every_call_does_what_its_page_says() {
    let lab = lab(3);
    for calls in ["calls", "calls-static"] {
        assert_eq!(example(&lab, calls, &["nodes"]), "n1 1 1 0:0 0111\nn2 1 0 0:0 0111\nn3 1 0 0:0 0111");
    }
    let calls = |words: &[&str]| example(&lab, "calls", words);
    assert_eq!(calls(&["choose", "n[2-3],home"]), "n2\nn3\nn1");
    assert_eq!(calls(&["execmove", "n2", "/bin/hostname"]), "n2");
    assert_eq!(calls(&["execmove", "home", "/bin/hostname"]), "n1");
    // The program has the descriptors that its caller gave it, and none of the library's.
    assert_eq!(calls(&["execmove", "n2", "/bin/ls", "/proc/self/fd"]).lines().filter(|fd| fd.len() == 1).count(), 4);
    assert_eq!(calls(&["rfork", "n2"]), "child ended with 9");
    assert_eq!(calls(&["move", "n3"]), "n3 n1 1");
    assert_eq!(calls(&["vrfork", "n2", "n3", "n2"]), "ranks add up to 33");
    let printed = calls(&["vexecmove", "n2", "n3"]);
    let mut lines: Vec<&str> = printed.lines().collect();
    lines.sort_unstable();
    let expected = ["2 came", "rank 0 (0) read: .", "rank 0 ended with 0", "rank 1 (1) read: .", "rank 1 ended with 1"];
    assert_eq!(lines, expected);
}

#[test]
fn a_call_that_fails_leaves_no_child_and_says_why() {
    let lab = lab(3);
    let calls = |words: &[&str]| example(&lab, "calls", words);
    assert_eq!(calls(&["choose", "n9"]), "tern_choose: ENXIO");
    assert_eq!(calls(&["choose", "n[2"]), "tern_choose: EINVAL");
    for call in ["rfork", "move"] {
        assert_eq!(calls(&[call, "n9"]), format!("tern_{call}: ENXIO"));
    }
    assert_eq!(calls(&["execmove", "n9", "/bin/true"]), "tern_execmove: ENXIO");
    assert_eq!(calls(&["execmove", "n2", "/bin/none"]), "tern_execmove: ENOENT");
    assert_eq!(calls(&["vrfork"]), "tern_vrfork: EINVAL");
    // One node's failure is its rank's alone.
    assert_eq!(calls(&["vrfork", "n2", "n9"]), "rank 1: ENXIO\nranks add up to 10");
    assert_eq!(calls(&["vexecmove", "n9", "n9"]), "tern_vexecmove: ENXIO");
    // No permission, a daemon that is not there, a node that is down.
    assert!(lab.exec("n3", ["tern", "policy", "set", "local-by=none"]).unwrap().status.success());
    assert_eq!(calls(&["execmove", "n3", "/bin/true"]), "tern_execmove: EACCES");
    let program = installed().join("calls");
    let alone = at_home(&lab, &["env", "TERN_RUN=/nowhere", program.to_str().unwrap(), "rfork", "n2"]);
    assert_eq!(alone.text(), "tern_rfork: ECONNREFUSED");
    lab.kill_node("n3").unwrap();
    crate::common::eventually("n3 is down", || calls(&["nodes"]).contains("n3 0 0"));
    for (words, call) in [(&["rfork", "n3"][..], "tern_rfork"), (&["execmove", "n3", "/bin/true"], "tern_execmove")] {
        assert_eq!(calls(words), format!("{call}: EHOSTDOWN"));
    }
}

/// The node's memory is short: the caller is told, and nothing begins there.
#[test]
fn no_program_begins_where_memory_is_short() {
    const NODE_BYTES: u64 = 1 << 30;
    let mut options = crate::common::options(2);
    options.memory_bytes = Some(NODE_BYTES);
    let lab = crate::common::lab_of(&options);
    assert!(lab.exec("n2", ["tern", "policy", "set", "local-by=n1"]).unwrap().status.success());
    assert_eq!(example(&lab, "calls", &["execmove", "n2", "/bin/hostname"]), "n2");
    let fills = "filled = b'x' * 900_000_000; print('full', flush=True); input()";
    let filler = ["tern", "run", "--on", "n2", "--force", "--", "/usr/bin/python3", "-c", fills];
    let mut child = lab.spawn("n1", filler).unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "full\n");
    crate::common::eventually("the node is short of memory", || {
        example(&lab, "calls", &["execmove", "n2", "/bin/true"]) == "tern_execmove: ENOMEM"
    });
    assert_eq!(example(&lab, "calls", &["vexecmove", "n2", "n2"]), "tern_vexecmove: ENOMEM");
    drop(child.stdin.take());
    child.wait().unwrap();
}

#[test]
fn old_programs_and_python_use_it_too() {
    let lab = lab(3);
    let printed = example(&lab, "old", &[]);
    assert_eq!(printed, "2 nodes\nends add up to 3bproc_move: No such device or address\n");
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../libtern/python");
    let script = format!(
        "import os, sys; sys.path.insert(0, {python:?}); import tern\n\
         print([node.name for node in tern.nodes()], tern.choose('all'))\n\
         pids = tern.vexecmove(['n2', 'n3'], '/bin/sh', ['sh', '-c', 'exit 4'])\n\
         print([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids], tern.processes())\n\
         try: tern.move('n9')\n\
         except OSError as e: print(e.errno)"
    );
    let library = format!("TERN_LIBRARY={}", installed().join("lib/libtern.so.0").display());
    let output = at_home(&lab, &["env", &library, "/usr/bin/python3", "-c", &script]);
    let expected = format!("['n1', 'n2', 'n3'] ['n2', 'n3']\n[4, 4] []\n{}", libc::ENXIO);
    assert_eq!(output.text(), expected, "{}", output.errors());
}

/// Runs the example of dumps, without a daemon and without a lab.
fn dumping(directory: &Path, program: &str, words: &[&str]) -> (String, Option<i32>) {
    let mut command = Command::new("timeout");
    command.args(["--foreground", "--signal=KILL", "60"]).arg(installed().join(program)).args(words);
    command.current_dir(directory).env("TERN_PROGRAM", crate::common::tern());
    let output = crate::dump::without_descriptors(&mut command).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    (String::from_utf8(output.stdout).unwrap(), output.status.code())
}

#[test]
fn programs_dump_themselves_and_become_dumps() {
    let directory = tempfile::tempdir().unwrap();
    for program in ["dump", "dump-static"] {
        let run = |words: &[&str]| dumping(directory.path(), program, words);
        assert_eq!(run(&["oneself", "file"]), ("original, same PID, mutex held\n".to_owned(), Some(5)));
        // Has failed: the first thread ended the process before tern had let go of the others.
        for _ in 0..20 {
            assert_eq!(run(&["undump", "file"]), ("copy, same PID, mutex held\n".to_owned(), Some(6)));
        }
        assert_eq!(run(&["old", "old"]), (String::new(), Some(7)));
        let mut sleeper = Command::new("sleep");
        let mut sleeper = crate::dump::without_descriptors(&mut sleeper).arg("1000").spawn().unwrap();
        let dumped = run(&["another", "sleeper", &sleeper.id().to_string()]);
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        assert_eq!(dumped, (String::new(), Some(0)));
    }
}

#[test]
fn dumps_that_fail_say_why_and_leave_the_caller_as_it_was() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("none"), "no dump").unwrap();
    let run = |words: &[&str]| dumping(directory.path(), "dump", words);
    let expected = |said: &str| (format!("{said}\n"), Some(1));
    assert_eq!(run(&["undump", "none"]), expected("tern_undump: ENOEXEC"));
    assert_eq!(run(&["undump", "absent"]), expected("tern_undump: EBADF"));
    assert_eq!(run(&["another", "file", "0"]), expected("tern_dump_pid: EINVAL"));
    assert_eq!(run(&["another", "file", "1999999999"]), expected("tern_dump_pid: ESRCH"));
    // A dump that is cut off.
    assert_eq!(run(&["oneself", "whole"]).1, Some(5));
    let whole = std::fs::read(directory.path().join("whole")).unwrap();
    std::fs::write(directory.path().join("half"), &whole[..whole.len() / 2]).unwrap();
    assert_eq!(run(&["undump", "half"]), expected("tern_undump: ENOEXEC"));
    let mut command = Command::new(installed().join("dump"));
    command.args(["undump", "whole"]).current_dir(directory.path()).env("TERN_PROGRAM", "/nowhere");
    let output = command.output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "tern_undump: ENOENT\n");
}

#[test]
fn python_dumps_itself() {
    let directory = tempfile::tempdir().unwrap();
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../libtern/python");
    let script = format!(
        "import os, sys; sys.path.insert(0, {python:?}); import tern\n\
         fd = os.open('file', os.O_WRONLY | os.O_CREAT)\n\
         if tern.dump(fd): tern.undump(os.open('file', os.O_RDONLY))\n\
         print('copy')"
    );
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-c", &script]).current_dir(directory.path()).env("TERN_PROGRAM", crate::common::tern());
    command.env("TERN_LIBRARY", installed().join("lib/libtern.so.0"));
    let output = crate::dump::without_descriptors(&mut command).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "copy\n", "{}", String::from_utf8_lossy(&output.stderr));
}

/// Nothing but the functions of the header is seen, each under its version.
#[test]
fn its_symbols_have_versions() {
    let shared = installed().join("lib/libtern.so.0");
    let output =
        Command::new("nm").args(["-D", "--defined-only", "--with-symbol-versions"]).arg(shared).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let functions: Vec<&str> = text.lines().filter_map(|line| line.split(" T ").nth(1)).collect();
    assert_eq!(functions.len(), 13, "{text}");
    assert!(functions.iter().all(|name| name.starts_with("tern_") && name.ends_with("@@TERN_0")), "{functions:?}");
    let header = std::fs::read_to_string(installed().join("include/tern.h")).unwrap();
    for name in functions {
        let name = name.split('@').next().unwrap();
        assert!(header.contains(&format!("{name}(")), "{name}");
        assert!(installed().join(format!("share/man/man3/{name}.3")).exists(), "{name}");
    }
}
