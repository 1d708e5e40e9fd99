//! `tern dump` and `tern undump`: whole processes through files, pipes and sockets.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::OnceLock;

use image::dump::{DumpReader, DumpWriter, Frame, Identity, Origin};
use tempfile::TempDir;

use crate::common;

/// Ends an undumped program that hangs, so that its test fails.
const LIMITED: [&str; 4] = ["timeout", "--foreground", "--signal=KILL", "60"];
/// An ordinary user.
const USER: u32 = 65534;
const GO: &[u8] = b"go\n";

/// The programs of `dumped.c`, built once.
fn programs() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bproc/dumped.c");
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("dumped");
        let mut compiler = Command::new("gcc");
        compiler.args(["-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]).args([&program, &source]);
        assert!(compiler.status().unwrap().success());
        program
    })
}

/// Has a program begin without descriptors of who runs the tests, but for the first three.
pub fn without_descriptors(command: &mut Command) -> &mut Command {
    const CLOSE_RANGE_CLOEXEC: u32 = 4;
    let close = || {
        // SAFETY: numbers only.
        unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, CLOSE_RANGE_CLOEXEC) };
        Ok(())
    };
    // SAFETY: makes one system call.
    unsafe { command.pre_exec(close) }
}

/// Runs a command to its end with a dump, and what follows, at its input.
fn fed(mut command: Command, dump: &[u8], input: &[u8]) -> Output {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let all = [dump, input].concat();
    // A refusal closes the pipe early.
    let writer = std::thread::spawn(move || drop(pipe.write_all(&all)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

/// A user with a directory.
struct Site {
    directory: TempDir,
    user: Option<u32>,
}

/// A program that runs, and is ended with its test.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Site {
    fn of(user: Option<u32>) -> Site {
        let directory = tempfile::tempdir().unwrap();
        let site = Site { directory, user };
        if user.is_some() {
            let path = site.directory.path();
            std::os::unix::fs::chown(path, user, user).unwrap();
        }
        site
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.directory.path());
        without_descriptors(&mut command);
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command
    }

    fn tern(&self, words: &[&str]) -> Command {
        let mut command = self.command(LIMITED[0]);
        command.args(&LIMITED[1..]).arg(common::tern()).args(words);
        command
    }

    /// Starts a command; gives it when it has said a line.
    fn start(&self, mut command: Command) -> Program {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = Vec::new();
        while said.last() != Some(&b'\n') {
            let mut byte = [0];
            child.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
            said.extend(byte);
        }
        Program(child)
    }

    fn program(&self, words: &[&str]) -> Program {
        let mut command = self.command(programs());
        command.args(words);
        self.start(command)
    }

    fn dump(&self, program: &Program, words: &[&str]) -> Output {
        let pid = program.0.id().to_string();
        self.tern(&[&["dump", &pid], words].concat()).stdin(Stdio::null()).output().unwrap()
    }

    /// A dump that must succeed.
    fn dumped(&self, program: &Program, words: &[&str]) -> Vec<u8> {
        let output = self.dump(program, words);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    /// Undumps through a pipe; the program's input follows.
    fn undump(&self, words: &[&str], dump: &[u8], input: &[u8]) -> Output {
        fed(self.tern(&[&["undump"], words].concat()), dump, input)
    }

    /// Undumps, and checks that the program finds all as it was.
    fn goes_on(&self, dump: &[u8], status: i32) {
        let output = self.undump(&[], dump, GO);
        let said = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!((said.as_ref(), output.status.code()), ("right\n", Some(status)), "{errors}");
    }
}

impl Program {
    /// Has the program go on, and checks that the dump has not disturbed it.
    fn finds_itself_undisturbed(mut self, status: i32) {
        self.0.stdin.take().unwrap().write_all(GO).unwrap();
        let mut said = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!((said.as_str(), self.0.wait().unwrap().code()), ("right\n", Some(status)));
    }
}

const PROGRAMS: [(&str, i32); 4] = [("threads", 0), ("files", 0), ("signals", 0), ("child", 4)];

fn programs_go_on(user: Option<u32>) {
    for (name, status) in PROGRAMS {
        // While the original runs, its numbers are taken: the copy gets a namespace.
        let site = Site::of(user);
        let program = site.program(&[name]);
        let dump = site.dumped(&program, &[]);
        site.goes_on(&dump, status);
        if name != "files" {
            program.finds_itself_undisturbed(status);
        }
        // Else it gets the very numbers, if the user may choose them.
        let site = Site::of(user);
        let program = site.program(&[name]);
        let dump = site.dumped(&program, &["--kill"]);
        drop(program);
        site.goes_on(&dump, status);
    }
}

#[test]
fn a_process_goes_on_from_a_dump_and_the_original_too() {
    programs_go_on(None);
}

#[test]
fn ordinary_users_dump_and_undump_their_own() {
    let words = ["--user", "--pid", "--fork", "true"];
    if !Site::of(Some(USER)).command("unshare").args(words).stderr(Stdio::null()).status().unwrap().success() {
        return skip::test("this machine lets ordinary users make no user namespaces");
    }
    programs_go_on(Some(USER));
}

#[test]
fn pages_of_zeros_do_not_travel() {
    const MIB: usize = 64;
    let site = Site::of(None);
    let program = site.program(&["memory", &MIB.to_string()]);
    let dump = site.dumped(&program, &["--kill"]);
    // A page in a hundred is filled.
    assert!(dump.len() < MIB << 20 >> 5, "{} bytes", dump.len());
    site.goes_on(&dump, 0);
}

/// `tern dump PID | ssh HOST tern undump`, with a connection on the loopback instead of ssh.
#[test]
fn a_dump_goes_through_a_connection() {
    let site = Site::of(None);
    let program = site.program(&["memory", "64"]);
    let pid = program.0.id().to_string();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut dump = site.tern(&["dump", "--kill", &pid]).stdout(Stdio::piped()).spawn().unwrap();
    let mut from = dump.stdout.take().unwrap();
    let sender = std::thread::spawn(move || {
        let mut to = TcpStream::connect(address).unwrap();
        std::io::copy(&mut from, &mut to).unwrap();
        to.write_all(GO).unwrap();
    });
    let (connection, _) = listener.accept().unwrap();
    let input = Stdio::from(std::os::fd::OwnedFd::from(connection));
    let output = site.tern(&["undump"]).stdin(input).output().unwrap();
    sender.join().unwrap();
    assert!(dump.wait().unwrap().success());
    assert_eq!((output.stdout.as_slice(), output.status.code()), (&b"right\n"[..], Some(0)));
}

/// Reads numbers, one a line, and gives the first and the last of so many.
fn counted(lines: &mut impl BufRead, many: usize) -> (u64, u64) {
    let numbers: Vec<u64> = lines.lines().take(many).map(|line| line.unwrap().parse().unwrap()).collect();
    assert!(numbers.windows(2).all(|w| w[0] + 1 == w[1]), "{numbers:?}");
    (numbers[0], numbers[many - 1])
}

/// The program counts on from where it was dumped; a signal to tern is one to the program, and its
/// end is tern's.
#[test]
fn signals_and_the_end_are_passed_on() {
    let site = Site::of(None);
    let mut program = site.program(&["counts"]);
    let file = site.directory.path().join("dump");
    let pid = program.0.id().to_string();
    let dump = std::fs::File::create(&file).unwrap();
    assert!(site.tern(&["dump", "--kill", &pid]).stdout(dump).status().unwrap().success());
    let mut said = String::new();
    program.0.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    let last: u64 = said.lines().last().map_or(0, |line| line.parse().unwrap());
    let mut tern = site.command(common::tern());
    let mut tern = tern.arg("undump").arg(&file).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(tern.stdout.take().unwrap());
    assert_eq!(counted(&mut lines, 20).0, last + 1);
    let undumper = rustix::process::Pid::from_child(&tern);
    rustix::process::kill_process(undumper, rustix::process::Signal::TERM).unwrap();
    assert_eq!(tern.wait().unwrap().signal(), Some(libc::SIGTERM));
    // Nothing of the program is left: its end of the pipe is closed.
    lines.read_to_end(&mut Vec::new()).unwrap();
}

/// Callers that ignore SIGCHLD pass that on to what they execute.
#[test]
fn an_end_is_seen_whatever_the_caller_ignores() {
    let site = Site::of(None);
    let program = site.program(&["child"]);
    let dump = site.dumped(&program, &[]);
    drop(program);
    let mut command = site.command(LIMITED[0]);
    command.args(&LIMITED[1..]).args(["bash", "-c", "trap '' CHLD; exec \"$0\" undump"]).arg(common::tern());
    let output = fed(command, &dump, GO);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!((said.as_ref(), output.status.code()), ("right\n", Some(4)));
}

#[test]
fn an_undumped_process_is_dumped_again() {
    let site = Site::of(None);
    let program = site.program(&["counts"]);
    let dump = site.dumped(&program, &[]);
    let file = site.directory.path().join("dump");
    std::fs::write(&file, dump).unwrap();
    // The original runs, so this one has a namespace.
    let mut tern = site.command(common::tern());
    let tern = Program(tern.arg("undump").arg(&file).stdout(Stdio::piped()).spawn().unwrap());
    let children = format!("/proc/{0}/task/{0}/children", tern.0.id());
    let own = |pid: &&str| std::fs::read(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm == b"dumped\n");
    let mut copy = String::new();
    common::eventually("the copy runs", || {
        let all = std::fs::read_to_string(&children).unwrap();
        copy = all.split_whitespace().find(own).unwrap_or_default().to_owned();
        !copy.is_empty()
    });
    let again = site.tern(&["dump", "--kill", &copy]).output().unwrap();
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    let mut child = site.tern(&["undump"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&again.stdout).unwrap();
    counted(&mut BufReader::new(child.stdout.take().unwrap()), 10);
    // Its standard output is closed.
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGPIPE));
}

/// A shell and Python, which have descriptors and handlers of their own.
#[test]
fn interpreters_go_on() {
    let bash = "n=3; f() { n=$((n + 4)); }; echo ready; read word; f; [ \"$word$n\" = go7 ] && (exit 2); \
                [ $? = 2 ] && echo right; exit 6";
    let python = "import os, threading\nlock = threading.RLock()\nlock.acquire()\nprint('ready', flush=True)\n\
                  word = input()\nlock.acquire()\nthread = threading.Thread(target=print, args=('right',))\n\
                  thread.start()\nthread.join()\nos._exit(6 if word == 'go' and open('/proc/self/comm') else 1)";
    for (program, option, script) in [("bash", "-c", bash), ("/usr/bin/python3", "-uc", python)] {
        let site = Site::of(None);
        let mut command = site.command(program);
        command.args([option, script]);
        let program = site.start(command);
        let dump = site.dumped(&program, &[]);
        site.goes_on(&dump, 6);
        program.finds_itself_undisturbed(6);
    }
}

/// The program and its libraries are gone when the dump is used.
#[test]
fn a_whole_dump_needs_no_mapped_file() {
    let site = Site::of(None);
    let copy = site.directory.path().join("copy");
    std::fs::copy(programs(), &copy).unwrap();
    let mut command = site.command(&copy);
    command.arg("threads");
    let program = site.start(command);
    let whole = site.dumped(&program, &["--whole", "--kill"]);
    drop(program);
    std::fs::remove_file(&copy).unwrap();
    assert_eq!(listed(&site, &whole)["files"], serde_json::json!([]));
    site.goes_on(&whole, 0);
}

fn listed(site: &Site, dump: &[u8]) -> serde_json::Value {
    let listed = common::run_with_input(site.tern(&["dump", "--list", "--json"]), dump);
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    serde_json::from_slice(&listed.stdout).unwrap()
}

#[test]
fn a_list_says_what_a_dump_needs() {
    let site = Site::of(None);
    let program = site.program(&["file"]);
    let dump = site.dumped(&program, &[]);
    let listed = listed(&site, &dump);
    assert_eq!((&listed["pid"], &listed["threads"]), (&program.0.id().into(), &1.into()));
    let files = listed["files"].as_array().unwrap();
    let of = |end: &str| files.iter().find(|f| f["path"].as_str().unwrap().ends_with(end)).unwrap();
    let library = of("libc.so.6");
    assert_eq!((&library["mapped"], &library["here"]), (&true.into(), &"same".into()));
    assert!(library["build_id"].as_str().unwrap().len() >= 32);
    assert_eq!(of("/kept")["descriptors"], serde_json::json!([3]));
    std::fs::remove_file(site.directory.path().join("kept")).unwrap();
    let words = common::run_with_input(site.tern(&["dump", "--list"]), &dump);
    let words = String::from_utf8(words.stdout).unwrap();
    assert!(words.contains("kept (open as 3): missing"), "{words}");
    // A program needs its files.
    let refused = site.undump(&[], &dump, GO);
    assert_eq!(refused.status.code(), Some(125));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--close-missing"));
    let output = site.undump(&["--close-missing"], &dump, GO);
    assert_eq!(output.stdout, b"right\n");
}

#[test]
fn a_refusal_names_its_reason_and_the_process_goes_on() {
    let reasons = [
        ("socket", "descriptor 3 is a socket", "--ignore-files"),
        ("lock", "locked, on which the process holds a lock", "--ignore-locks"),
        ("removed", "a file that has no name any more", "--ignore-files"),
    ];
    for (name, reason, way) in reasons {
        let site = Site::of(None);
        let program = site.program(&[name]);
        let refused = site.dump(&program, &[]);
        let why = String::from_utf8_lossy(&refused.stderr);
        assert_eq!((refused.status.code(), refused.stdout.len()), (Some(1), 0));
        assert!(why.contains(reason) && why.contains(way), "{why}");
        let dump = site.dumped(&program, &[way]);
        site.goes_on(&dump, 0);
        program.finds_itself_undisturbed(0);
    }
    let site = Site::of(None);
    let none = site.tern(&["dump", "1999999999"]).output().unwrap();
    assert_eq!(none.status.code(), Some(1));
    // Another user's.
    let (program, other) = (site.program(&["none"]), Site::of(Some(USER)));
    let refused = other.dump(&program, &[]);
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(1), 0));
    program.finds_itself_undisturbed(0);
}

/// Another file under the name of a mapped one would break the program.
#[test]
fn another_program_under_that_name_is_refused() {
    let site = Site::of(None);
    let copy = site.directory.path().join("copy");
    std::fs::copy(programs(), &copy).unwrap();
    let mut command = site.command(&copy);
    command.arg("none");
    let program = site.start(command);
    let dump = site.dumped(&program, &["--kill"]);
    drop(program);
    std::fs::remove_file(&copy).unwrap();
    let missing = site.undump(&[], &dump, GO);
    assert!(String::from_utf8_lossy(&missing.stderr).contains("it needs"), "{missing:?}");
    std::fs::copy("/bin/true", &copy).unwrap();
    let refused = site.undump(&[], &dump, GO);
    assert_eq!(refused.status.code(), Some(125));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("has another build id here"), "{refused:?}");
}

/// A dump, to be changed and written again.
struct Changed {
    origin: Origin,
    identities: Vec<Identity>,
    image: image::Image,
    vdso: Vec<u8>,
    pages: Vec<Frame>,
}

impl Changed {
    fn of(dump: &[u8]) -> Changed {
        let mut reader = DumpReader::begin(dump).unwrap();
        let mut next = || reader.next_frame().unwrap().unwrap();
        let Frame::Origin(origin) = next() else { panic!("no origin") };
        let Frame::Identities(identities) = next() else { panic!("no identities") };
        let Frame::Image(image) = next() else { panic!("no image") };
        let Frame::Vdso(vdso) = next() else { panic!("no code") };
        let pages = std::iter::from_fn(|| reader.next_frame().unwrap()).collect();
        Changed { origin: *origin, identities, image: *image, vdso, pages }
    }

    fn dump(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = DumpWriter::begin(&mut out, &self.origin, &self.identities, &self.image, &self.vdso).unwrap();
        for frame in &self.pages {
            match frame {
                Frame::Pages(runs, bytes) => writer.pages(runs, bytes).unwrap(),
                Frame::Zeros(runs) => writer.zeros(runs).unwrap(),
                _ => {}
            }
        }
        writer.end().unwrap();
        out
    }
}

/// A program keeps addresses of its kernel's vDSO. On a kernel with another one it finds a copy at
/// these, whose functions make their calls.
#[test]
fn a_program_of_another_kernel_finds_its_vdso() {
    let site = Site::of(None);
    let program = site.program(&["signals"]);
    let mut changed = Changed::of(&site.dumped(&program, &["--kill"]));
    drop(program);
    *changed.vdso.last_mut().unwrap() ^= 1;
    let dump = changed.dump();
    site.goes_on(&dump, 0);
}

#[test]
fn a_lesser_processor_is_refused_by_its_features_name() {
    let site = Site::of(None);
    let program = site.program(&["none"]);
    let mut changed = Changed::of(&site.dumped(&program, &["--kill"]));
    drop(program);
    let own = os::probe::cpu().of_programs();
    let lacking = os::probe::PROGRAM_FEATURES.iter().find(|feature| !own.contains(&feature.to_string())).unwrap();
    changed.origin.features.push(lacking.to_string());
    let dump = changed.dump();
    let refused = site.undump(&[], &dump, GO);
    let why = String::from_utf8_lossy(&refused.stderr);
    assert!(why.contains(&format!("this processor lacks {lacking}")) && why.contains("--any-cpu"), "{why}");
    assert_eq!(site.undump(&["--any-cpu"], &dump, GO).stdout, b"right\n");
}

/// Dumps whose frames are well formed, and lie.
#[test]
fn dumps_that_lie_are_refused() {
    let site = Site::of(None);
    let program = site.program(&["file"]);
    let dump = site.dumped(&program, &["--kill"]);
    drop(program);
    let refused = |change: fn(&mut Changed)| {
        let mut changed = Changed::of(&dump);
        change(&mut changed);
        let output = site.undump(&[], &changed.dump(), b"");
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(125), 0), "{why}");
        why
    };
    let lost = |c: &mut Changed| c.pages.insert(0, Frame::Pages(vec![(0x1000, 4096)], vec![1; 4096]));
    assert!(refused(lost).contains("pages lie in no area"));
    let far = |c: &mut Changed| c.pages.insert(0, Frame::Zeros(vec![(u64::MAX << 40, 1 << 39)]));
    assert!(refused(far).contains("pages lie in no"));
    let descriptor = |c: &mut Changed| c.image.descriptors.last_mut().unwrap().opened = image::Opened::Home(9);
    assert!(refused(descriptor).contains("descriptors that no undumper has"));
    let first = |c: &mut Changed| {
        c.image.process.pid = 1;
        c.image.threads[0].tid = 1;
    };
    assert!(refused(first).contains("first process"));
    let high = |c: &mut Changed| {
        c.image.process.pid = i32::MAX;
        c.image.threads[0].tid = i32::MAX;
    };
    assert!(refused(high).contains("making process"));
    let elsewhere = |c: &mut Changed| c.image.process.cwd = b"/nowhere".to_vec();
    assert!(refused(elsewhere).contains("it needs its working directory /nowhere"));
    let device = |c: &mut Changed| c.image.files[0].path = b"/dev/zero".to_vec();
    assert!(refused(device).contains("of another kind"));
    let own = |path: &Path| std::fs::read_link(path.join("cwd")).is_ok_and(|cwd| cwd == site.directory.path());
    common::eventually("no process is left", || {
        !std::fs::read_dir("/proc").unwrap().flatten().any(|entry| own(&entry.path()))
    });
}

/// tern refuses any other stream by its reason, and leaves no process.
#[test]
fn broken_streams_are_refused_and_leave_nothing() {
    let site = Site::of(None);
    let program = site.program(&["threads"]);
    let dump = site.dumped(&program, &["--kill"]);
    drop(program);
    let refused = |stream: &[u8]| {
        let output = site.undump(&[], stream, b"");
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(125), 0), "{why}");
        why
    };
    assert!(refused(b"").contains("this is no dump"));
    assert!(refused(b"#!/bin/sh\nexit\n").contains("this is no dump"));
    for length in [9, 100, dump.len() / 4, dump.len() / 2, dump.len() - 1] {
        assert!(refused(&dump[..length]).contains("cut off"), "{length}");
    }
    // A frame of an unknown kind, and a page that lies in no area.
    let mut unknown = dump.clone();
    unknown[8] = 99;
    assert!(refused(&unknown).contains("not known here"));
    let far = dump.len() - 4096 - 64;
    let mut broken = dump.clone();
    broken.truncate(far);
    broken.extend(vec![0xff; 4096]);
    refused(&broken);
    let own = |path: &Path| std::fs::read_link(path.join("cwd")).is_ok_and(|cwd| cwd == site.directory.path());
    common::eventually("no process is left", || {
        !std::fs::read_dir("/proc").unwrap().flatten().any(|entry| own(&entry.path()))
    });
}

#[test]
fn a_slow_reader_keeps_no_process_waiting() {
    let site = Site::of(None);
    let mut program = site.program(&["counts"]);
    let mut lines = BufReader::new(program.0.stdout.take().unwrap());
    let mut dump = site.command(common::tern());
    let pid = program.0.id().to_string();
    let mut dump = dump.args(["dump", &pid]).stdout(Stdio::piped()).spawn().unwrap();
    let mut beginning = [0; 8];
    // The dump is larger than the pipe, so it is not over.
    dump.stdout.as_mut().unwrap().read_exact(&mut beginning).unwrap();
    counted(&mut lines, 50);
    assert!(dump.try_wait().unwrap().is_none());
    let mut rest = Vec::new();
    dump.stdout.take().unwrap().read_to_end(&mut rest).unwrap();
    assert!(dump.wait().unwrap().success());
    assert!(listed(&site, &[&beginning[..], &rest].concat())["pages"].as_u64().unwrap() > 16);
}

/// A reader that goes away, and Ctrl-C, end the dump and not the process.
#[test]
fn an_interrupted_dump_leaves_the_process_running() {
    let site = Site::of(None);
    let program = site.program(&["memory", "64"]);
    let pid = program.0.id().to_string();
    let mut dump = site.command(common::tern());
    let mut dump = dump.args(["dump", "--stop", &pid]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A process that is to stop stands still while nobody reads.
    let stands = || std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap().contains("tracing stop");
    let writes = |dump: &Child| rustix::io::ioctl_fionread(dump.stdout.as_ref().unwrap()).unwrap() > 0;
    // Its threads have their own registers again when the dump is written, and not a moment before.
    common::eventually("the dump is written", || writes(&dump));
    assert!(stands());
    dump.kill().unwrap();
    dump.wait().unwrap();
    common::eventually("the process goes on", || !stands());
    let mut dump = site.command(common::tern());
    let mut dump = dump.args(["dump", "--stop", &pid]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    common::eventually("the dump is written again", || writes(&dump));
    let dumper = rustix::process::Pid::from_child(&dump);
    rustix::process::kill_process(dumper, rustix::process::Signal::INT).unwrap();
    let ended: ExitStatus = dump.wait().unwrap();
    assert_eq!(ended.code(), Some(1));
    let mut why = String::new();
    dump.stderr.take().unwrap().read_to_string(&mut why).unwrap();
    assert!(why.contains("interrupted"), "{why}");
    let mut dump = site.command(common::tern());
    let mut dump = dump.args(["dump", &pid]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    drop(dump.stdout.take());
    assert_eq!(dump.wait().unwrap().code(), Some(1));
    program.finds_itself_undisturbed(0);
}
