//! Placed programs that map files of home's shared and writable: they stay away while no other
//! process opens the files.

use std::process::Command;

use lab::Lab;

use crate::{Running, lab, placed};

/// Runs a shell script at home.
fn at_home(lab: &Lab, script: &str) -> lab::Output {
    lab.exec("n1", ["timeout", "-s", "KILL", "150", "bash", "-c", script]).unwrap()
}

fn is_missing(program: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output().unwrap();
    if found.stdout.is_empty() {
        println!("{program} is not installed");
    }
    found.stdout.is_empty()
}

/// Asserts that a script, placed with `--strict`, prints this at its end.
fn stays_away(lab: &Lab, script: &str, last: &str) {
    let run = ["timeout", "-s", "KILL", "150", "tern", "run", "--strict", "--on", "n2", "--", "bash", "-ec", script];
    let ran = lab.exec("n1", run).unwrap();
    assert_eq!(ran.text().lines().last(), Some(last), "{} {}", ran.status, ran.errors());
}

#[test]
fn java_stays_away_with_its_statistics() {
    if is_missing("javac") {
        return;
    }
    let script = r#"
    mkdir /tmp/java; cd /tmp/java
    echo 'class Sum { public static void main(String[] a) { int s = 0; for (int i = 0; i < 9; i++) s += i; System.out.println(s); } }' > Sum.java
    javac Sum.java; java Sum"#;
    stays_away(&lab(2), script, "36");
}

#[test]
fn go_build_stays_away_with_what_it_links() {
    if is_missing("go") {
        return;
    }
    let script = r#"
    mkdir /tmp/go; cd /tmp/go; export HOME=/tmp/go GOCACHE=/tmp/go/cache GOFLAGS=-mod=mod GOTOOLCHAIN=local
    printf 'module here\ngo 1.18\n' > go.mod
    printf 'package main\nfunc main() { println("built") }\n' > main.go
    go build -o built .; ./built 2>&1"#;
    stays_away(&lab(2), script, "built");
}

/// All writers map the index of the log, and have locks in it.
#[test]
fn writers_of_one_database_stay_away() {
    if is_missing("sqlite3") {
        return;
    }
    let script = r#"
    cd /tmp; sqlite3 db 'pragma journal_mode = wal; create table t(a);'
    for i in 1 2 3 4; do
        for j in 1 2 3 4 5; do sqlite3 -cmd '.timeout 60000' db "insert into t values ($i * 100 + $j);"; done & pids="$pids $!"
    done
    for pid in $pids; do wait $pid; done
    sqlite3 db 'select count(*), sum(a) from t;'"#;
    stays_away(&lab(2), script, "20|5060");
}

#[test]
fn a_linker_and_git_stay_away() {
    if is_missing("ld.gold") || is_missing("git") {
        return;
    }
    let script = r#"
    mkdir /tmp/built; cd /tmp/built; export HOME=/tmp/built
    echo 'int main(void) { return 7; }' > a.c; gcc -fuse-ld=gold -o a a.c; ./a || echo $? > said
    git init -q .; git add .; git -c user.email=a@b -c user.name=n commit -qm one; git gc -q; git fsck; git ls-files | wc -l
    cat said"#;
    stays_away(&lab(2), script, "7");
}

/// A process that stores in a file that it has mapped, and says what it does.
const STORES: &str = r#"
import mmap, os, sys
f = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600); os.ftruncate(f, 3 * 4096)
m = mmap.mmap(f, 3 * 4096); os.close(f)
m[0:6] = b"synced"; m.flush(0, 4096); m[8192:8198] = b"stored"
print("stored", flush=True); sys.stdin.readline()
m[8192:8198] = b"latest"
print("latest", flush=True); sys.stdin.readline()
"#;

fn third_page(lab: &Lab, file: &str) -> String {
    at_home(lab, &format!("tail -c +8193 {file} | head -c 6")).text()
}

/// A reader at home waits until the pages are there, and the process goes on at home.
#[test]
fn a_reader_at_home_sees_what_was_stored_away() {
    use std::io::Write as _;
    let lab = lab(2);
    let mut running = Running::start(&lab, "n2", &["python3", "-c", STORES, "/tmp/file"]);
    assert_eq!(running.line(), "stored");
    assert_eq!(third_page(&lab, "/tmp/file"), "stored");
    writeln!(running.child.stdin.as_mut().unwrap()).unwrap();
    assert_eq!(running.line(), "latest");
    assert_eq!(third_page(&lab, "/tmp/file"), "latest");
    drop(running.child.stdin.take());
    let (status, _, errors) = running.end();
    assert!(status.success() && errors.contains("came home from n2 for mmap(2) of /tmp/file"), "{status} {errors}");
}

/// A process that ends without msync(2) has stored all the same.
#[test]
fn what_a_process_stored_is_there_when_it_has_ended() {
    let lab = lab(2);
    let argv = ["python3", "-c", STORES, "/tmp/file"];
    let ran = placed(&lab, "n2", &argv);
    assert_eq!((ran.text().as_str(), ran.errors().as_str()), ("stored\nlatest", ""));
    assert_eq!(third_page(&lab, "/tmp/file"), "latest");
}

/// With a node only that is lost which no msync(2) has sent home, and nobody waits for it.
#[test]
fn what_was_synced_outlives_the_node() {
    let lab = lab(2);
    let mut running = Running::start(&lab, "n2", &["python3", "-c", STORES, "/tmp/file"]);
    assert_eq!(running.line(), "stored");
    lab.kill_node("n2").unwrap();
    assert!(!running.end().0.success());
    assert_eq!(at_home(&lab, "head -c 6 /tmp/file; stat -c ' %s' /tmp/file").text(), "synced 12288");
    let third = third_page(&lab, "/tmp/file");
    assert!(["stored", "\0\0\0\0\0\0"].contains(&third.as_str()), "{third:?}");
}

/// Processes that only read a file in which another one stores go with it.
#[test]
fn readers_of_the_room_see_what_is_stored_at_home() {
    let lab = lab(2);
    let script = r#"
import mmap, os, sys, time
f = os.open("/tmp/file", os.O_RDWR | os.O_CREAT, 0o600); os.ftruncate(f, 4096)
m = mmap.mmap(f, 4096); m[0] = 1
child = os.fork()
if child == 0:
    m.close(); os.close(f)
    f = os.open("/tmp/file", os.O_RDONLY); m = mmap.mmap(f, 4096, prot=mmap.PROT_READ)
    print("reads", flush=True)
    while m[0] != 9: time.sleep(0.001)
    os._exit(5)
sys.stdin.readline(); m[0] = 9
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"#;
    let mut running = Running::start(&lab, "n2", &["python3", "-c", script]);
    assert_eq!(running.line(), "reads");
    assert_eq!(at_home(&lab, "head -c 1 /tmp/file | od -An -tu1 | tr -d ' '").text(), "1");
    drop(running.child.stdin.take());
    let (status, said, errors) = running.end();
    assert!(status.success() && said == "5\n", "{status} {said} {errors}");
    assert!(errors.contains("came home"), "{errors}");
}
