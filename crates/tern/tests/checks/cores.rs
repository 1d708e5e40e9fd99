//! Cores of placed programs: home's kernel writes them, where the program is at home.

use super::{at_home, shared, wait_for};

const PARENT: &str = r#"
import os, subprocess, sys
child = """
import ctypes, os, sys
marker = "core-marker-%d" % (6 * 7)
if sys.argv[1] == "abort": os.abort()
if sys.argv[1] == "fault": ctypes.string_at(16)
os.kill(os.getpid(), int(sys.argv[1]))
"""
for how in "abort", "fault", "3", "8", "31", "5":
    words = sys.argv[1:] + [sys.executable, "-c", child, how]
    _, status, _ = os.wait4(subprocess.Popen(words, stderr=subprocess.DEVNULL).pid, 0)
    cores = [name for name in os.listdir(".") if name.startswith("core")]
    whole = [b"core-marker-42" in open(name, "rb").read() for name in cores]
    print(how, os.WTERMSIG(status), how == "5" or (os.WCOREDUMP(status), whole))
    [os.unlink(name) for name in cores]
"#;

#[test]
fn who_dies_with_a_core_dies_at_home() {
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap();
    if !pattern.starts_with("core") {
        return skip::test(format_args!("cores do not go to the working directory here, but to {pattern}"));
    }
    let lab = shared();
    let run = |place: &str| at_home(&lab, &format!("ulimit -c unlimited\npython3 - {place} <<'END'{PARENT}END")).text();
    let native = run("");
    assert!(native.contains("fault 11 (True, [True])"), "{native}");
    assert_eq!(run("tern run --on n2 --"), native);
}

#[test]
fn without_a_limit_it_dies_where_it_is() {
    let text = at_home(&shared(), "ulimit -c 0; placed sh -c 'kill -QUIT $$'; echo $?; ls").text();
    assert_eq!(text, "131");
}

#[test]
fn the_node_says_which_fault_it_died_of() {
    let lab = shared();
    let fault = "import ctypes, resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); ctypes.string_at(0x7e57)";
    assert_eq!(at_home(&lab, &format!("placed python3 -c '{fault}'; echo $?")).text(), "139");
    wait_for("the log", || lab.exec("n2", ["tern", "log"]).unwrap().text().contains("a fault at 0x7e57 (code 1)"));
}
