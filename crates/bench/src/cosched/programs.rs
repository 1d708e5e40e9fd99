//! The programs of the benchmark, and jobs that run them in a mode.

use crate::Error;
use crate::reach::output;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The library that carries the messages of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Library {
    /// PVM by its direct route, as in the paper.
    Pvm,
    /// MPICH, whose ranks poll while they wait.
    Mpich,
}

const FILES: [(&str, &str); 7] = [
    ("comm.h", include_str!("comm.h")),
    ("random.h", include_str!("random.h")),
    ("sintree.c", include_str!("sintree.c")),
    ("is.c", include_str!("is.c")),
    ("mg.c", include_str!("mg.c")),
    ("costs.c", include_str!("costs.c")),
    ("interactive.c", include_str!("interactive.c")),
];

/// Starts a virtual machine of PVM, runs the words, and halts it.
const WITH_PVM: &str = r#"
    pvmd > /dev/null 2>&1 < /dev/null &
    until [ -e "$PVM_TMP/pvmd.$(id -u)" ]; do sleep 0.02; done
    "$@"; status=$?
    echo halt | pvm > /dev/null 2>&1
    wait
    exit $status"#;

/// A directory with the compiled programs, removed with this value.
pub struct Programs {
    /// Directory of the programs.
    pub dir: PathBuf,
    library: Library,
}

impl Drop for Programs {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

impl Programs {
    /// Compiles all programs.
    pub fn compile(library: Library) -> Result<Programs, Error> {
        let dir = PathBuf::from(format!("/var/tmp/tern-bench-{}", std::process::id()));
        std::fs::create_dir_all(&dir).map_err(Error::system(format!("making {}", dir.display())))?;
        let programs = Programs { dir, library };
        for (name, text) in FILES {
            let path = programs.dir.join(name);
            std::fs::write(&path, text).map_err(Error::system(format!("writing {}", path.display())))?;
        }
        let (compiler, flags): (_, &[&str]) = match library {
            Library::Pvm => ("cc", &["-DBY_PVM", "-lpvm3"]),
            Library::Mpich => ("mpicc.mpich", &[]),
        };
        for name in ["sintree", "is", "mg"] {
            programs.cc(compiler, name, flags)?;
        }
        for name in ["costs", "interactive"] {
            programs.cc("cc", name, &[])?;
        }
        Ok(programs)
    }

    fn cc(&self, compiler: &str, name: &str, flags: &[&str]) -> Result<(), Error> {
        let mut cc = Command::new(compiler);
        cc.args(["-O2", "-o"]).arg(self.dir.join(name)).arg(self.dir.join(format!("{name}.c")));
        cc.args(flags).arg("-lm");
        output(cc, b"").map(drop)
    }

    /// Runs a program that is no job. Gives its numbers.
    pub fn numbers(&self, name: &str, argument: u32) -> Result<Vec<f64>, Error> {
        let mut command = Command::new(self.dir.join(name));
        command.arg(argument.to_string());
        let text = output(command, b"")?;
        Ok(String::from_utf8_lossy(&text).split_whitespace().filter_map(|word| word.parse().ok()).collect())
    }

    /// Builds the command of a job in a mode. `number` tells jobs apart that run at once.
    pub fn job(&self, mode: &str, job: &Job, number: u32) -> Result<Command, Error> {
        let own = self.dir.join(format!("job-{number}"));
        std::fs::create_dir_all(&own).map_err(Error::system(format!("making {}", own.display())))?;
        let mut command = Command::new("tern");
        command.args(["cosched", "run", mode, "--"]);
        let tasks = job.tasks.to_string();
        match self.library {
            Library::Pvm => {
                // A daemon that was killed leaves its file, and the next one refuses to start.
                let stale = format!("{}/pvmd.{}", own.display(), rustix::process::getuid().as_raw());
                let _ = std::fs::remove_file(stale);
                command.args(["sh", "-c", WITH_PVM, "sh"]);
                command.env("PVM_ROOT", "/usr/lib/pvm3").env("PVM_ALLOW_ROOT", "1").env("PVM_TMP", &own);
            }
            Library::Mpich => {
                command.args(["mpiexec.mpich", "-n", &tasks]);
            }
        }
        command.arg(self.dir.join(job.program)).args(&job.words).arg(&tasks).current_dir(&own);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(command)
    }
}

/// A program with its arguments.
#[derive(Clone, Debug)]
pub struct Job {
    /// Name of the program.
    pub program: &'static str,
    /// Arguments before the number of tasks.
    pub words: Vec<String>,
    /// Number of tasks.
    pub tasks: u32,
}

impl Job {
    /// Gives the name in tables.
    pub fn name(&self) -> String {
        format!("{} {}", self.program, self.words[0])
    }
}

/// Reads the seconds of a job that has ended, and that found its results right.
pub fn seconds(name: &str, done: &std::process::Output) -> Result<f64, Error> {
    let said = String::from_utf8_lossy(&done.stdout);
    let seconds = said.lines().find_map(|line| line.strip_prefix("all right: ")?.strip_suffix(" s")?.parse().ok());
    seconds.ok_or_else(|| Error::Failed {
        command: name.to_owned(),
        status: done.status.to_string(),
        output: format!("{said}{}", String::from_utf8_lossy(&done.stderr)),
    })
}

/// Asks tern, and gives its JSON.
pub fn status(dir: &Path) -> serde_json::Value {
    let asked = Command::new("tern").args(["cosched", "status", "--json"]).current_dir(dir).output();
    asked.ok().and_then(|done| serde_json::from_slice(&done.stdout).ok()).unwrap_or_default()
}
