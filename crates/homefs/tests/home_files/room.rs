//! Builds a room for one case, runs the case, and removes everything again.

use crate::Case;
use crate::link::{Counts, Link};
use homefs::client::Client;
use homefs::server::{Callers, Credentials, ExportPath, Server};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// A generous time that only a hanging case reaches.
const DEADLINE: Duration = Duration::from_secs(600);
/// The first id of the room's users on this machine.
const FIRST_ID: u32 = 1 << 31;

/// The group that both users of the room are in, beside their own.
pub const SHARED_GROUP: u32 = 3000;

struct Hosted;

impl Callers for Hosted {
    fn credentials(&self, _tid: u32, uid: u32, gid: u32) -> Option<Credentials> {
        match uid {
            0 => Some(Credentials { uid, gid, groups: [].into(), caps: u64::MAX }),
            1000 | 1001 => Some(Credentials { uid, gid, groups: [SHARED_GROUP].into(), caps: 0 }),
            _ => None,
        }
    }
}

/// A directory that is removed with this value.
struct TempDir(PathBuf);

impl TempDir {
    fn new(base: &Path) -> TempDir {
        static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = base.join(format!("homefs-test-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        TempDir(path)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Ends client and server, so that nothing waits for a reply that will not come.
struct Ends(Arc<Client>, Arc<Server>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.close();
        self.1.close();
    }
}

fn spawn(role: &str, case: &Case, dir: &Path) -> (Agent, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([role, case.name]).arg(dir).stdin(Stdio::from(OwnedFd::from(theirs)));
    (Agent(command.spawn().unwrap()), ours)
}

/// Copies a descriptor of the room's process.
fn take_descriptor(from: &Agent, number: i32) -> rustix::io::Result<OwnedFd> {
    use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
    let pid = Pid::from_child(&from.0);
    pidfd_getfd(pidfd_open(pid, PidfdFlags::empty())?, number, PidfdGetfdFlags::empty())
}

/// A room with its client, link and server, which runs one side of a case.
struct Room {
    agent: Agent,
    lines: BufReader<UnixStream>,
    stream: UnixStream,
    ends: Ends,
    counts: Arc<Counts>,
    /// The root of the hosting node's own files.
    local: TempDir,
    _mount: TempDir,
}

impl Room {
    /// Starts the room. `role` tells which side of the case runs in it. The room sees the directory
    /// `export`, mounted below `base`.
    fn start(role: &str, case: &Case, export: &Path, base: &Path) -> Result<Room, String> {
        let (mount, local) = (TempDir::new(base), TempDir::new(base));
        let link = Link::new();
        let counts = link.counts.clone();
        let exports = [ExportPath { path: export.to_owned() }];
        let server = Server::start(&exports, Arc::new(Hosted), link.down.clone()).map_err(|e| e.to_string())?;
        let (agent, stream) = spawn(role, case, &mount.0);
        let mut lines = BufReader::new(stream.try_clone().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).map_err(|e| e.to_string())?;
        let number = line.trim_end().parse().map_err(|_| format!("the room did not come up: {line:?}"))?;
        let device = take_descriptor(&agent, number).map_err(|e| format!("taking the room's device: {e}"))?;

        let up = link.up.clone();
        let _ = up.room.set(agent.0.id());
        let client = Arc::new(OnceLock::new());
        let delay_us = if case.name.ends_with("bench") { 0 } else { 400 };
        link.join(&server, &client, delay_us);
        let root = std::fs::File::open(&local.0).map_err(|e| e.to_string())?;
        let started = Client::start(vec![device], up, Some(root.into())).map_err(|e| e.to_string())?;
        let _ = client.set(started.clone());
        let ends = Ends(started, server);
        for map in ["uid_map", "gid_map"] {
            let path = format!("/proc/{}/{map}", agent.0.id());
            std::fs::write(path, format!("0 {FIRST_ID} {}", FIRST_ID - 2)).map_err(|e| format!("{map}: {e}"))?;
        }
        (&stream).write_all(b"mapped\n").map_err(|e| e.to_string())?;
        Ok(Room { agent, lines, stream, ends, counts, local, _mount: mount })
    }

    /// Joins the room's program with another, and waits until it has ended.
    fn talk_with(self, other: UnixStream) -> Result<(), String> {
        let (client, counts, local) = (self.ends.0.clone(), self.counts.clone(), self.local.0.clone());
        let answer = move |question: &str| match question {
            "?local" => Some(local.display().to_string()),
            "?behind" => Some(counts.behind.load(std::sync::atomic::Ordering::Relaxed).to_string()),
            "?reads" => Some(format!("{} {}", counts.reads(), client.local_bytes())),
            _ => {
                let opcode = question.strip_prefix("?requests ")?.parse().ok()?;
                Some(counts.by_opcode.lock().unwrap().get(&opcode).copied().unwrap_or(0).to_string())
            }
        };
        let (client, server) = (self.ends.0.clone(), self.ends.1.clone());
        let room_client = client.clone();
        let settle = move || room_client.wait_settled(DEADLINE);
        let before = move || client.wait_applied(server.flush_events());
        carry(self.lines, self.stream.try_clone().unwrap(), other.try_clone().unwrap(), settle, answer.clone());
        carry(BufReader::new(other.try_clone().unwrap()), other, self.stream, before, answer);
        let outcome = wait_for(self.agent, "room");
        if std::env::var_os("HOMEFS_COUNTS").is_some() {
            report(&self.counts);
        }
        outcome
    }
}

pub fn run(case: &Case, base: &Path) -> Result<(), String> {
    let home_dir = TempDir::new(base);
    // Cases with this prefix see all of this machine.
    let export = if case.name.starts_with("root_") { Path::new("/") } else { &home_dir.0 };
    let room = Room::start("__room", case, export, base)?;
    // In cases with this prefix the other side is a room, too, with a server of its own.
    let role = if case.name.starts_with("rooms_") { "__second" } else { "__home" };
    let (home, home_stream) = spawn(role, case, &home_dir.0);
    room.talk_with(home_stream).and(wait_for(home, "home"))
}

/// Runs another room of the same home in a process of its own, which runs home's side of the case.
pub fn second(case: &Case, dir: &Path, other: UnixStream) -> Result<(), String> {
    Room::start("__room_home", case, dir, Path::new("/tmp"))?.talk_with(other)
}

fn report(counts: &Counts) {
    use std::sync::atomic::Ordering::Relaxed;
    let (requests, invalidations) = (counts.requests.load(Relaxed), counts.invalidations.load(Relaxed));
    println!("  {requests} requests, {invalidations} invalidations; by opcode {:?}", counts.by_opcode.lock().unwrap());
}

/// Carries lines from one agent to the other; `before` runs between reading a line and passing it
/// on. Questions to the test itself go `back` with their answer.
fn carry(
    mut from: BufReader<UnixStream>,
    mut back: UnixStream,
    mut to: UnixStream,
    before: impl Fn() + Send + 'static,
    answer: impl Fn(&str) -> Option<String> + Send + 'static,
) {
    std::thread::spawn(move || {
        let mut line = String::new();
        while from.read_line(&mut line).is_ok_and(|n| n > 0) {
            let sent = match answer(line.trim_end()) {
                Some(answer) => back.write_all(format!("{answer}\n").as_bytes()),
                None => {
                    before();
                    to.write_all(line.as_bytes())
                }
            };
            if sent.is_err() {
                return;
            }
            line.clear();
        }
        let _ = to.shutdown(std::net::Shutdown::Write);
    });
}

fn wait_for(mut agent: Agent, what: &str) -> Result<(), String> {
    let until = Instant::now() + DEADLINE;
    loop {
        match agent.0.try_wait().map_err(|e| e.to_string())? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(format!("{what}: {status}")),
            None if Instant::now() > until => return Err(format!("{what} does not end")),
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    }
}
