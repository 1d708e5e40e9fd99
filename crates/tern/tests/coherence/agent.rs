//! Programs that do with files what they are told: at home, or in a room.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use lab::Lab;

/// The program's source.
const SOURCE: &str = include_str!("input/agent.c");

/// A running agent.
pub struct Agent {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

/// Compiles the agent into the home of a lab, and makes a directory for it; gives both paths.
pub fn prepare(lab: &Lab) -> (String, String) {
    let root = lab.root("n1").unwrap();
    let source = root.join("tmp/agent.c");
    std::fs::write(&source, SOURCE).unwrap();
    let done = Command::new("cc").args(["-O1", "-o"]).arg(root.join("tmp/agent")).arg(&source).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let place = lab.exec("n1", ["mktemp", "-d"]).unwrap().text();
    ("/tmp/agent".to_owned(), place.trim().to_owned())
}

impl Agent {
    /// Starts an agent in a directory of home, on a node.
    pub fn start(lab: &Lab, place: &str, node: &str) -> Agent {
        let how = if node == "n1" { String::new() } else { format!("tern run --strict --on {node} -- ") };
        let script = format!("cd {place} && exec {how}/tmp/agent");
        let mut command = lab.in_node("n1", ["sh", "-c", &script]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to, from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Agent { child, to, from }
    }

    /// Gives the agent a line.
    pub fn tell(&mut self, line: &str) {
        self.to.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Waits for the agent's answer.
    pub fn hear(&mut self) -> String {
        let mut line = String::new();
        assert!(self.from.read_line(&mut line).unwrap() > 0, "an agent has ended");
        line.trim_end_matches('\n').to_owned()
    }

    /// Has the agent do something.
    pub fn ask(&mut self, line: &str) -> String {
        self.tell(line);
        self.hear()
    }

    /// Ends the agent.
    pub fn end(mut self) {
        drop(self.to);
        assert!(self.child.wait().unwrap().success());
    }
}
