//! Real daemons on loopback addresses, each with its own state and run directory.
#![allow(clippy::unwrap_used, dead_code, reason = "tests; not every test file uses everything")]

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Generous: this machine may be busy.
const DEADLINE: Duration = Duration::from_secs(60);

/// The tern to be tested: `TERN_BINARY` (`cargo xtask test` gives the optimised one), else the one
/// that was built with the test.
fn tern() -> PathBuf {
    std::env::var_os("TERN_BINARY").map_or_else(|| env!("CARGO_BIN_EXE_tern").into(), PathBuf::from)
}

/// Lets other users into the test's directory, and gives them a tern there: where this project
/// lies, they may not be let in.
pub fn make_passable(keep: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(keep, std::fs::Permissions::from_mode(0o755)).unwrap();
    // By a process of its own: one that another test starts meanwhile would inherit the file, open
    // for writing.
    assert!(Command::new("cp").arg(tern()).arg(keep.join("tern")).status().unwrap().success());
}

/// Waits until `condition` gives something.
pub fn eventually<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(start.elapsed() < DEADLINE, "not within {DEADLINE:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A machine of the test: directories, and perhaps a daemon.
pub struct Node {
    pub name: String,
    dir: PathBuf,
    _keep: std::sync::Arc<tempfile::TempDir>,
    daemon: Option<Child>,
    /// Where it listened first, with the port that the kernel chose: it listens there again.
    listen: Option<SocketAddr>,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("--- log of {}\n{}", self.name, self.log());
        }
    }
}

impl Node {
    pub fn new(keep: &std::sync::Arc<tempfile::TempDir>, name: &str) -> Node {
        let dir = keep.path().join(name);
        std::fs::create_dir_all(&dir).unwrap();
        Node { name: name.into(), dir, _keep: std::sync::Arc::clone(keep), daemon: None, listen: None }
    }

    pub fn state(&self) -> PathBuf {
        self.dir.join("state")
    }

    pub fn run_dir(&self) -> PathBuf {
        self.dir.join("run")
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let passable = self._keep.path().join("tern");
        let mut command = Command::new(if passable.exists() { passable } else { tern() });
        command.args(args).env("TERN_STATE", self.state()).env("TERN_RUN", self.run_dir());
        command
    }

    pub fn tern(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Standard output of a command that must succeed.
    pub fn ok(&self, args: &[&str]) -> String {
        let output = self.tern(args);
        assert!(output.status.success(), "tern {args:?} on {}: {}", self.name, String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Standard error of a command that must fail.
    pub fn fails(&self, args: &[&str]) -> String {
        let output = self.tern(args);
        assert!(!output.status.success(), "tern {args:?} on {} succeeded", self.name);
        String::from_utf8(output.stderr).unwrap()
    }

    pub fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.ok(args)).unwrap()
    }

    /// Starts the daemon and waits until it serves.
    pub fn start(&mut self, args: &[&str]) {
        let program = self.command(&[]);
        self.start_program(program, args);
    }

    /// Starts a daemon whose clock is ahead by so many milliseconds.
    pub fn start_ahead(&mut self, offset_ms: u32, args: &[&str]) {
        let offset_ms = offset_ms.to_string();
        let mut program = Command::new(lab::Programs::beside(&tern()));
        program.env("TERN_STATE", self.state()).env("TERN_RUN", self.run_dir());
        self.start_program(program, &[&["--pretend-clock-offset", &offset_ms], args].concat());
    }

    fn start_program(&mut self, mut program: Command, args: &[&str]) {
        let listen = self.listen.map(|a| a.to_string());
        program.arg("daemon").args(args).args(listen.iter().flat_map(|a| ["--listen", a.as_str()]));
        let child = program
            .env("TERN_LOG", "debug")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        self.daemon = Some(child);
        eventually(&format!("{} serves", self.name), || {
            let ended = self.daemon.as_mut().unwrap().try_wait().unwrap();
            assert!(ended.is_none(), "the daemon of {} ended: {ended:?}", self.name);
            self.tern(&["status"]).status.success().then_some(())
        });
        self.listen = Some(self.address());
    }

    /// Ends the daemon by SIGKILL.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.daemon.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Waits for the daemon to end by itself.
    pub fn ended(&mut self) -> bool {
        let mut child = self.daemon.take().unwrap();
        eventually("the daemon ends", || child.try_wait().unwrap()).success()
    }

    pub fn is_serving(&mut self) -> bool {
        self.daemon.as_mut().is_some_and(|c| c.try_wait().unwrap().is_none()) && self.tern(&["status"]).status.success()
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.run_dir().join("log/tern.log")).unwrap_or_default()
    }

    pub fn address(&self) -> SocketAddr {
        self.json(&["status", "--json"])["address"].as_str().unwrap().parse().unwrap()
    }

    /// Names of nodes in this state, as this node sees them.
    pub fn names(&self, state: &str) -> Vec<String> {
        let rows = self.json(&["nodes", "--json"]);
        let mut names: Vec<String> = rows
            .as_array()
            .unwrap()
            .iter()
            .filter(|r| r["state"] == state)
            .map(|r| r["name"].as_str().unwrap().to_owned())
            .collect();
        names.sort();
        names
    }

    pub fn sees_alive(&self, expected: &[&str]) {
        let mut last = Vec::new();
        let start = Instant::now();
        loop {
            let now = self.names("alive");
            if now == expected {
                return;
            }
            last.clone_from(&now);
            assert!(start.elapsed() < DEADLINE, "{} sees {last:?} alive, expected {expected:?}", self.name);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn invite(&self, args: &[&str]) -> String {
        let mut all = vec!["invite", "--loopback"];
        all.extend(args);
        self.ok(&all).trim().to_owned()
    }

    pub fn join(&self, token: &str, number: u8) -> Output {
        self.tern(&["join", token, "--name", &self.name, "--addr", &loopback(number)])
    }
}

fn loopback(number: u8) -> String {
    format!("127.0.0.{number}:0")
}

/// A node that has founded a cluster; its daemon serves.
pub fn founder(keep: &std::sync::Arc<tempfile::TempDir>, name: &str) -> Node {
    let mut node = Node::new(keep, name);
    node.ok(&["init", "--name", name, "--addr", &loopback(1)]);
    node.start(&[]);
    node
}

/// A cluster of `count` nodes n1, n2, ... that all see each other.
pub fn cluster(keep: &std::sync::Arc<tempfile::TempDir>, count: u8) -> Vec<Node> {
    let mut nodes = vec![founder(keep, "n1")];
    for number in 2..=count {
        let mut node = Node::new(keep, &format!("n{number}"));
        let joined = node.join(&nodes[0].invite(&[]), number);
        assert!(joined.status.success(), "{}", String::from_utf8_lossy(&joined.stderr));
        node.start(&[]);
        nodes.push(node);
    }
    let names: Vec<String> = (1..=count).map(|i| format!("n{i}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    nodes.iter().for_each(|n| n.sees_alive(&names));
    nodes
}

pub fn temp() -> std::sync::Arc<tempfile::TempDir> {
    std::sync::Arc::new(tempfile::tempdir().unwrap())
}

pub fn exists(path: impl AsRef<Path>) -> bool {
    path.as_ref().exists()
}
