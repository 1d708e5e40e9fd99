//! The processes of a case: one at home and one in the room. They exchange lines through the test's
//! own process.

use crate::cases;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The other process of the case. A line from home reaches the room only when the room's kernel has
/// applied all earlier changes.
pub struct Peer {
    stream: BufReader<UnixStream>,
}

impl Peer {
    fn on_stdin() -> Peer {
        // SAFETY: descriptor 0 is the socket that the test gave us; nothing else here uses it.
        Peer { stream: BufReader::new(unsafe { UnixStream::from_raw_fd(0) }) }
    }

    pub fn tell(&mut self, line: &str) {
        assert!(!line.contains('\n'));
        self.stream.get_mut().write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    pub fn hear(&mut self) -> String {
        let mut line = String::new();
        assert!(self.stream.read_line(&mut line).unwrap() > 0, "the other side is gone");
        line.trim_end().to_owned()
    }

    pub fn expect(&mut self, line: &str) {
        assert_eq!(self.hear(), line);
    }
}

pub fn main(role: &str, args: &[String]) -> ExitCode {
    let case = cases::ALL.iter().find(|c| c.name == args[0]).unwrap();
    let dir = PathBuf::from(&args[1]);
    die_with_parent();
    match role {
        "__home" => {
            let mut peer = Peer::on_stdin();
            (case.home)(&dir, &mut peer);
            ExitCode::SUCCESS
        }
        "__room_home" => enter_room(&dir, case.home),
        // SAFETY: descriptor 0 is the socket that the test gave us; nothing else here uses it.
        "__second" => match crate::room::second(case, &dir, unsafe { UnixStream::from_raw_fd(0) }) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                println!("second room: {why}");
                ExitCode::FAILURE
            }
        },
        _ => enter_room(&dir, case.room),
    }
}

fn die_with_parent() {
    // SAFETY: numbers only.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

/// Enters new namespaces; the test maps the ids. Then mounts, and runs the case as PID 1.
fn enter_room(dir: &Path, run: fn(&Path, &mut Peer)) -> ExitCode {
    // SAFETY: numbers only; this process has one thread.
    check(unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS | libc::CLONE_NEWPID) }, "unshare");
    let mut peer = Peer::on_stdin();
    // A process of the new user namespace must open the device, still as real root. The test takes
    // a copy.
    let device = File::options().read(true).write(true).open("/dev/fuse").unwrap();
    peer.tell(&device.as_raw_fd().to_string());
    peer.expect("mapped");
    // SAFETY: numbers only.
    unsafe {
        check(libc::setgroups(0, std::ptr::null()), "setgroups");
        check(libc::setresgid(0, 0, 0), "setresgid");
        check(libc::setresuid(0, 0, 0), "setresuid");
    }
    die_with_parent();
    let inside = move || {
        mount(dir, device);
        run(dir, &mut peer);
    };
    forked(inside)
}

fn mount(dir: &Path, device: File) {
    let options =
        format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions", device.as_raw_fd());
    rustix::mount::mount(
        "homefs",
        dir,
        "fuse.homefs",
        rustix::mount::MountFlags::NODEV,
        Some(&*std::ffi::CString::new(options).unwrap()),
    )
    .unwrap();
}

fn check(result: i32, what: &str) {
    assert!(result >= 0, "{what}: {}", std::io::Error::last_os_error());
}

/// Runs a closure in a child and gives its exit code; a panic there gives 101.
pub fn forked(run: impl FnOnce()) -> ExitCode {
    ExitCode::from(fork_status(run))
}

fn fork_status(run: impl FnOnce()) -> u8 {
    // SAFETY: this process has one thread, so the child may do anything.
    let pid = unsafe { libc::fork() };
    check(pid, "fork");
    if pid == 0 {
        die_with_parent();
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        std::process::exit(if done.is_ok() { 0 } else { 101 });
    }
    let mut status = 0;
    // SAFETY: the child is ours.
    while unsafe { libc::waitpid(pid, &raw mut status, 0) } < 0 {}
    if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) as u8 } else { 128 }
}

/// Runs a closure as an ordinary user in a child, which must succeed.
pub fn as_user(uid: u32, groups: &[u32], run: impl FnOnce()) {
    let status = fork_status(|| {
        // SAFETY: numbers and one slice.
        unsafe {
            check(libc::setgroups(groups.len(), groups.as_ptr()), "setgroups");
            check(libc::setresgid(uid, uid, uid), "setresgid");
            check(libc::setresuid(uid, uid, uid), "setresuid");
        }
        die_with_parent();
        run();
    });
    assert_eq!(status, 0, "as user {uid}");
}

/// A child that runs while this process does something else.
pub struct Background(i32);

impl Background {
    pub fn start(run: impl FnOnce()) -> Background {
        // SAFETY: this process has one thread, so the child may do anything.
        let pid = unsafe { libc::fork() };
        check(pid, "fork");
        if pid == 0 {
            die_with_parent();
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
            std::process::exit(if done.is_ok() { 0 } else { 101 });
        }
        Background(pid)
    }

    /// Waits until the child sleeps.
    pub fn falls_asleep(&self) {
        let path = format!("/proc/{}/stat", self.0);
        while !std::fs::read_to_string(&path).unwrap().contains(") S ") {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: a child of ours that has not been waited for.
        unsafe { libc::kill(self.0, signal) };
    }

    /// Waits for the child to end, and gives its wait status.
    pub fn wait(self) -> i32 {
        let mut status = 0;
        // SAFETY: the child is ours.
        while unsafe { libc::waitpid(self.0, &raw mut status, 0) } < 0 {}
        status
    }
}

/// Gives the raw descriptor of a file, for calls that std lacks.
pub fn raw(file: &std::fs::File) -> i32 {
    file.as_raw_fd()
}
