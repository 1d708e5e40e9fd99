//! Tools of the benchmarks of parallel jobs: compiling their programs, files on other nodes, and
//! a virtual machine of PVM.

use crate::Error;
use crate::balance::ask;
use crate::reach::output;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The longest wait for a daemon of PVM on each node.
const MACHINE_WITHIN: Duration = Duration::from_secs(60);

/// The nodes of a job, and a directory of the same name on each.
pub struct Site {
    /// Program that runs a command on another node.
    on_node: PathBuf,
    /// Names of the other nodes.
    pub nodes: Vec<String>,
    /// Directory of the job.
    pub dir: PathBuf,
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = self.everywhere(&format!("rm -rf {}", self.dir.display()));
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

impl Site {
    /// Makes the directory on these nodes, all others that are alive if none are named, and here.
    pub fn new(on_node: &Path, named: &[String]) -> Result<Site, Error> {
        let nodes = if named.is_empty() { others()? } else { named.to_vec() };
        let dir = PathBuf::from(format!("/var/tmp/tern-bench-{}", std::process::id()));
        std::fs::create_dir_all(&dir).map_err(Error::system(format!("making {}", dir.display())))?;
        let site = Site { on_node: on_node.to_owned(), nodes, dir };
        site.everywhere(&format!("mkdir -p {}", site.dir.display()))?;
        Ok(site)
    }

    /// Builds a command of a shell on another node.
    fn remote(&self, node: &str, line: &str) -> Command {
        let mut command = Command::new(&self.on_node);
        command.args([node, line]);
        command
    }

    /// Gives the path of the program that runs a command on another node.
    pub fn on_node(&self) -> Result<PathBuf, Error> {
        let mut command = Command::new("sh");
        command.args(["-c", "command -v \"$1\"", "sh"]).arg(&self.on_node);
        let found = output(command, b"")?;
        Ok(PathBuf::from(String::from_utf8_lossy(&found).trim()))
    }

    /// Runs a line of a shell on all other nodes at once. Gives what each printed.
    pub fn everywhere(&self, line: &str) -> Result<Vec<Vec<u8>>, Error> {
        self.everywhere_with(line, b"")
    }

    fn everywhere_with(&self, line: &str, input: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        let died = || Error::Refused { why: "a thread died".into() };
        std::thread::scope(|scope| {
            let run = |node: &String| {
                let command = self.remote(node, line);
                scope.spawn(move || output(command, input))
            };
            let all: Vec<_> = self.nodes.iter().map(run).collect();
            all.into_iter().map(|one| one.join().map_err(|_| died())?).collect()
        })
    }

    /// Compiles a C program, with a header of the same directory, and puts it into all nodes.
    pub fn program(&self, name: &str, source: &str, compiler: &[&str]) -> Result<PathBuf, Error> {
        let write = |name: &str, text: &str| {
            let path = self.dir.join(name);
            std::fs::write(&path, text).map_err(Error::system(format!("writing {}", path.display())))
        };
        write("stamp.h", include_str!("parallel/stamp.h"))?;
        write("leave_mpi.h", include_str!("parallel/leave_mpi.h"))?;
        write(&format!("{name}.c"), source)?;
        let program = self.dir.join(name);
        let mut cc = Command::new(compiler[0]);
        cc.args(["-O2", "-o"]).arg(&program).arg(self.dir.join(format!("{name}.c"))).args(&compiler[1..]);
        output(cc, b"")?;
        let bytes = std::fs::read(&program).map_err(Error::system("reading the program"))?;
        let put = format!("cat > {0} && chmod 755 {0}", program.display());
        self.everywhere_with(&put, &bytes)?;
        Ok(program)
    }

    /// Lets tern move all processes of this user, on all nodes, or no longer.
    pub fn let_tern_move(&self, may: bool) -> Result<(), Error> {
        let uid = rustix::process::getuid().as_raw();
        let (moves, sign) = if may { ("moves=on", "") } else { ("moves=off", "-") };
        let scope = format!("scope={sign}user:{uid}");
        ask(&["policy", "set", moves, &scope])?;
        self.everywhere(&format!("tern policy set {moves} {scope}")).map(drop)
    }

    /// Counts the moves of all nodes' policies since their daemons began.
    pub fn moves(&self) -> Result<usize, Error> {
        let counted = |text: &[u8]| {
            let status: serde_json::Value = serde_json::from_slice(text).unwrap_or_default();
            status["moved"].as_u64().unwrap_or(0) as usize
        };
        let here = counted(ask(&["status", "--json"])?.as_bytes());
        let there = self.everywhere("tern status --json")?;
        Ok(here + there.iter().map(|text| counted(text)).sum::<usize>())
    }
}

/// Lists the names of the other nodes that are alive.
fn others() -> Result<Vec<String>, Error> {
    let nodes: Vec<serde_json::Value> = serde_json::from_str(&ask(&["nodes", "--json"])?).unwrap_or_default();
    let others = nodes.iter().filter(|n| n["state"] == "alive" && n["here"] == false);
    Ok(others.filter_map(|n| n["name"].as_str()).map(str::to_owned).collect())
}

/// A running virtual machine of PVM, which is halted with this value.
pub struct Machine {
    dir: PathBuf,
    daemon: Child,
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = output(console(&self.dir), b"halt\n");
        let _ = self.daemon.wait();
    }
}

/// Has a command use the virtual machine whose files are in this directory.
pub fn of_machine(command: &mut Command, dir: &Path) {
    command.current_dir(dir).env("PVM_ROOT", "/usr/lib/pvm3").env("PVM_TMP", dir).env("PVM_ALLOW_ROOT", "1");
}

fn console(dir: &Path) -> Command {
    let mut command = Command::new("pvm");
    of_machine(&mut command, dir);
    command
}

impl Machine {
    /// Starts a daemon of PVM here, and on these nodes of the site.
    pub fn start(site: &Site, nodes: &[String]) -> Result<Machine, Error> {
        let hosts = site.dir.join("hosts");
        let text: String = nodes.iter().map(|node| format!("{node}\n")).collect();
        std::fs::write(&hosts, text).map_err(Error::system("writing the file of hosts"))?;
        // A daemon that was killed leaves its file, and the next one refuses to start.
        let stale = format!("rm -f {0}/pvmd.* {0}/pvml.*", site.dir.display());
        let mut remove = Command::new("sh");
        remove.args(["-c", &stale]);
        output(remove, b"")?;
        site.everywhere(&stale)?;
        let mut command = Command::new("pvmd");
        of_machine(&mut command, &site.dir);
        command.env("PVM_RSH", site.on_node()?).arg(&hosts);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let daemon = command.spawn().map_err(Error::system("running pvmd"))?;
        let machine = Machine { dir: site.dir.clone(), daemon };
        let begun = Instant::now();
        while machine.hosts() < nodes.len() + 1 {
            if begun.elapsed() > MACHINE_WITHIN {
                let why = format!("{} of {} hosts came into the virtual machine", machine.hosts(), nodes.len() + 1);
                return Err(Error::Refused { why });
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(machine)
    }

    fn hosts(&self) -> usize {
        // The console would start a daemon of its own before this one serves.
        let serves = std::fs::read_dir(&self.dir)
            .is_ok_and(|entries| entries.flatten().any(|e| e.file_name().to_string_lossy().starts_with("pvmd.")));
        if !serves {
            return 0;
        }
        let listed = output(console(&self.dir), b"conf\nquit\n").unwrap_or_default();
        String::from_utf8_lossy(&listed).lines().filter(|line| line.contains("LINUX64")).count()
    }
}
