//! A lab in which a node meets a fault, and a script on its first node that goes on when it is told
//! to.

use crate::killed::eventually;
use lab::{Lab, Options};
use std::fs;
use std::io::{BufRead, BufReader, Lines, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

/// So many nodes.
pub fn lab(nodes: u32) -> Lab {
    Lab::up(env!("CARGO_BIN_EXE_tern"), &Options::new(Lab::fresh_name("faults").unwrap(), nodes)).unwrap()
}

/// Where a node's processes look for faults.
pub struct Faults(PathBuf);

impl Faults {
    pub fn of(lab: &Lab, node: &str) -> Faults {
        let run = lab.root(node).unwrap().join("run/tern");
        // Of a room's threads some are not the superuser there.
        fs::set_permissions(&run, fs::Permissions::from_mode(0o777)).unwrap();
        Faults(run)
    }

    /// From now on whoever comes to it meets it, once.
    pub fn set(&self, fault: &str) {
        // Of an earlier one.
        let _ = fs::remove_file(self.0.join("fault.done"));
        fs::write(self.0.join("fault"), fault).unwrap();
    }

    pub fn is_met(&self) -> bool {
        self.0.join("fault.done").exists()
    }

    pub fn await_met(&self) {
        eventually("the fault", || self.is_met().then_some(()));
    }

    /// Who hangs in it goes on.
    pub fn end(&self) {
        fs::write(self.0.join("fault.over"), "").unwrap();
    }
}

/// The script, each `read` of which is one [`Script::go_on`].
pub struct Script {
    child: Child,
    to: ChildStdin,
    said: Lines<BufReader<ChildStdout>>,
}

impl Script {
    pub fn start(lab: &Lab, script: &str) -> Script {
        let mut command = lab.in_node("n1", ["timeout", "-s", "KILL", "120", "bash", "-c", script]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to, said) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()).lines());
        Script { child, to, said }
    }

    pub fn go_on(&mut self) {
        self.to.write_all(b"\n").unwrap();
    }

    /// Says this to one that reads lines.
    pub fn tell(&mut self, line: &str) {
        self.to.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// The next line that it says.
    pub fn line(&mut self) -> String {
        self.said.next().unwrap().unwrap()
    }

    /// All that it says until it ends.
    pub fn rest(mut self) -> Vec<String> {
        let rest = self.said.map(Result::unwrap).collect();
        self.child.wait().unwrap();
        rest
    }
}
