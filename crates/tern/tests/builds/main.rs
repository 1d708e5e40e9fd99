//! Builds on idle hosts: `tern make`, `tern spread` and `tern shell`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod accounts;
#[path = "../common/mod.rs"]
mod common;
mod disturbed;
mod making;
#[path = "../jobs/pty.rs"]
#[allow(dead_code, reason = "its other users need more of it")]
mod pty;
mod sources;
mod spreading;

use std::path::{Path, PathBuf};
use std::process::Command;

use lab::{Lab, Output};
use serde_json::Value;

/// The time after which a test that hangs has failed.
const LIMIT_S: &str = "600";

/// Works for a while, and writes into the file that its argument names whether it is a job: jobs do
/// not know of the coordinator.
pub(crate) const WHERE: &str = r#"
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    volatile unsigned long n = 0;
    while (n < 200000000) n++;
    FILE *out = fopen(argv[1], "w");
    fputs(getenv("TERN_SPREAD") ? "stays" : "a job", out);
    return fclose(out);
}
"#;

/// A directory of n1, for a build.
pub(crate) struct Place {
    /// Its path in n1.
    pub path: String,
    /// Its path for the test.
    pub outside: PathBuf,
}

impl Place {
    pub fn new(lab: &Lab, name: &str) -> Place {
        let path = format!("/tmp/{name}");
        let outside = lab.root("n1").unwrap().join(&path[1..]);
        std::fs::create_dir(&outside).unwrap();
        Place { path, outside }
    }

    pub fn unpack(&self, archive: &Path) {
        let mut tar = Command::new("tar");
        tar.arg("xf").arg(archive).arg("--strip-components=1").current_dir(&self.outside);
        assert!(tar.status().unwrap().success());
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.outside.join(name), text).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.outside.join(name)).unwrap_or_default()
    }

    /// The command that runs a line there, in n1.
    pub fn command(&self, lab: &Lab, line: &str) -> Command {
        let limited = ["timeout", "--foreground", "-s", "KILL", LIMIT_S];
        lab.in_node("n1", [&limited[..], &["bash", "-c", &self.line(line)]].concat())
    }

    /// The same, as the leader of a session: on a terminal.
    pub fn on_terminal(&self, lab: &Lab, line: &str) -> Command {
        lab.in_node("n1", ["bash", "-c", &self.line(line)])
    }

    fn line(&self, line: &str) -> String {
        format!("cd {} && export XDG_CACHE_HOME=/tmp/cache && {line}", self.path)
    }

    /// Runs a line that must succeed.
    pub fn run(&self, lab: &Lab, line: &str) -> Output {
        let output = self.command(lab, line).output().unwrap();
        let output = Output { status: output.status, stdout: output.stdout, stderr: output.stderr };
        assert!(output.status.success(), "{line}: {}\n{}\n{}", output.status, output.text(), output.errors());
        output
    }

    /// A coordinator's report.
    pub fn report(&self) -> Report {
        Report(serde_json::from_str(&self.read("report")).unwrap())
    }

    /// The digests of all files with these endings, by name.
    pub fn digests(&self, lab: &Lab, endings: &[&str]) -> String {
        let names: Vec<String> = endings.iter().map(|ending| format!("-name '*{ending}'")).collect();
        let line = format!("find . -type f \\( {} \\) | sort | xargs sha256sum", names.join(" -o "));
        self.run(lab, &line).text()
    }
}

/// The report of a coordinator.
#[derive(Debug)]
pub(crate) struct Report(Value);

impl Report {
    pub fn number(&self, name: &str) -> u64 {
        self.0[name].as_u64().unwrap()
    }

    /// On how many hosts jobs were placed.
    pub fn hosts(&self) -> usize {
        self.0["hosts"].as_object().unwrap().len()
    }

    /// How many jobs were placed on hosts.
    pub fn placed(&self) -> u64 {
        self.0["hosts"].as_object().unwrap().values().map(|jobs| jobs.as_u64().unwrap()).sum()
    }
}

pub(crate) fn lab_of(nodes: u32) -> Lab {
    common::lab_of(&common::options(nodes))
}

pub(crate) fn ok(lab: &Lab, node: &str, args: &[&str]) -> String {
    let output = lab.exec(node, [&["tern"], args].concat()).unwrap();
    assert!(output.status.success(), "tern {args:?} on {node}: {}", output.errors());
    output.text()
}

/// Waits until no host has work: what ran there last counts as load for a while.
pub(crate) fn calm(lab: &Lab) {
    common::eventually("all hosts are idle", || {
        let nodes: Value = serde_json::from_str(&ok(lab, "n1", &["nodes", "--json"])).unwrap();
        let rows = nodes.as_array().unwrap().iter().filter(|row| row["here"] == false);
        rows.into_iter().all(|row| row["load"]["runnable_milli"].as_u64().is_some_and(|load| load < 400))
    });
}
