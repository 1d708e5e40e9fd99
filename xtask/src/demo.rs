//! `cargo xtask demo`: a lab of 3 nodes; programs placed on nodes that have nothing installed; what
//! it costs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::packages;
use crate::tool::{Result, build_release, output, run, tree};

/// How long a program may take to show up.
const LIMIT: Duration = Duration::from_secs(20);

/// Where Debian keeps the headers of this architecture; gcc's driver tells cc1.
const MULTIARCH: &str = "x86_64-linux-gnu";
/// CPU time after which a program is shown, microseconds: it runs, and all its threads are there.
const SHOWN_AFTER_US: i64 = 300_000;

/// A lab that goes down at the end.
struct Lab {
    tern: PathBuf,
    name: String,
}

impl Lab {
    fn up(tern: PathBuf, nodes: u32) -> Result<Lab> {
        let lab = Lab { tern, name: format!("demo-{}-0", std::process::id()) };
        run(lab.command(&["up", "--nodes", &nodes.to_string()]).stdout(Stdio::null()))?;
        Ok(lab)
    }

    /// `tern lab ARGUMENTS` of this lab.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.tern);
        command.args(["lab", "--name", &self.name]).args(arguments);
        command
    }

    /// A command on n1, in the demo's directory there.
    fn at_home(&self, words: &[&str]) -> Command {
        let mut command = self.command(&["exec", "n1", "--", "env", "--chdir=/tmp"]);
        command.args(words);
        command
    }

    /// Puts a file into n1's /tmp.
    fn put(&self, name: &str) -> Result<()> {
        let text = fs::read_to_string(tree().join("xtask/demo").join(name)).map_err(|e| format!("{name}: {e}"))?;
        let init = self.home_init()?;
        fs::write(format!("/proc/{init}/root/tmp/{name}"), text).map_err(|e| format!("{name} on n1: {e}"))
    }

    fn home_init(&self) -> Result<i64> {
        let labs: serde_json::Value = serde_json::from_str(&output(&mut self.command(&["status", "--json"]))?)
            .map_err(|e| format!("tern lab status: {e}"))?;
        let mut all = labs.as_array().into_iter().flatten();
        let own = all.find(|lab| lab["options"]["name"] == self.name.as_str());
        own.and_then(|lab| lab["nodes"][0]["init"]["pid"].as_i64()).ok_or_else(|| "the demo's lab is not up".into())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = self.command(&["down"]).stdout(Stdio::null()).status();
    }
}

/// Shows it all.
pub fn run_demo() -> Result<()> {
    if !packages::is_root() {
        return Err("the demo needs root, to make a lab (try: sudo -E cargo xtask demo)".into());
    }
    let tern = build_release()?;
    let start = Instant::now();
    let lab = Lab::up(tern, 3)?;
    head(&format!("A lab of 3 nodes is up after {} ms", start.elapsed().as_millis()));
    print!("{}", output(&mut lab.at_home(&["tern", "nodes"]))?);
    println!("n2 holds:  {}", one_line(&output(&mut lab.command(&["ls", "n2", "/"]))?));
    println!("programs:  {}", one_line(&output(&mut lab.command(&["ls", "n2", "/bin"]))?));
    for name in ["threads.py", "figures.py", "program.c", "session.py"] {
        lab.put(name)?;
    }
    python(&lab)?;
    compile(&lab)?;
    session(&lab)?;
    moving(&lab)?;
    figures(&lab)?;
    head(&format!("Done, {:.1} s; the lab goes down", start.elapsed().as_secs_f32()));
    Ok(())
}

/// A Python program with threads runs on n2, which has no Python; ps at home shows it.
fn python(lab: &Lab) -> Result<()> {
    head("A Python program with 8 threads, placed on n2");
    let python = interpreter();
    let mut child = Placed(
        lab.at_home(&["sh", "-c", &format!("tern run --on n2 -- {python} threads.py; exit $?")])
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("cannot start it: {e}"))?,
    );
    let row = child.wait_for_row(lab)?;
    let pid = row["guest"]["pid"].to_string();
    println!("$ tern run --on n2 -- {python} threads.py &");
    println!("$ tern ps");
    print!("{}", output(&mut lab.at_home(&["tern", "ps"]))?);
    println!("$ ps -o pid,ppid,user,stat,args -p {pid}");
    print!("{}", output(&mut lab.at_home(&["ps", "-o", "pid,ppid,user,stat,args", "-p", &pid]))?);
    print!("{}", child.finish()?);
    Ok(())
}

/// A compile on n3, which has no compiler; the result is the one that home's compiler makes
/// natively.
fn compile(lab: &Lab) -> Result<()> {
    head("A C program, compiled and assembled on n3");
    let cc1 = compiler()?;
    let steps: [&[&str]; 3] = [
        &[
            "tern",
            "run",
            "--on",
            "n3",
            "--",
            &cc1,
            "-quiet",
            "-imultiarch",
            MULTIARCH,
            "-O2",
            "program.c",
            "-o",
            "placed.s",
        ],
        &["tern", "run", "--on", "n3", "--", "as", "placed.s", "-o", "placed.o"],
        &[&cc1, "-quiet", "-imultiarch", MULTIARCH, "-O2", "program.c", "-o", "native.s"],
    ];
    for step in steps {
        println!("$ {}", step.join(" "));
        run(&mut lab.at_home(step))?;
    }
    run(&mut lab.at_home(&["cmp", "placed.s", "native.s"]))?;
    run(&mut lab.at_home(&["gcc", "placed.o", "-o", "program", "-lm"]))?;
    println!("placed.s equals native.s; linked at home, the program says:");
    print!("{}", output(&mut lab.at_home(&["sh", "-c", "./program < program.c"]))?);
    Ok(())
}

/// A computation that was started by a plain shell, moved to two nodes and home again while it
/// works.
const MOVED: &str = r#"
"$0" -c '
import hashlib
h = hashlib.sha256(b"tern")
for turn in range(40):
    for i in range(60000): h.update(h.digest())
    print(turn, h.hexdigest()[:16], flush=True)
' > said & pid=$!
for place in n2 n3 home; do
    until [ "$(cat said 2> /dev/null | wc -l)" -gt "${lines:-0}" ]; do sleep 0.05; done
    echo "$ tern move PID $place"; tern move $pid $place
    [ $place = home ] || tern ps
    lines=$(wc -l < said)
done
wait $pid; echo "ended with $? and said:"; tail -1 said; rm said"#;

fn moving(lab: &Lab) -> Result<()> {
    head("A running computation, moved to n2, to n3, and home");
    run(&mut lab.at_home(&["sh", "-ec", MOVED, interpreter()]))
}

/// An interactive shell on n2: a build, a pipeline, Ctrl-C.
fn session(lab: &Lab) -> Result<()> {
    head("A shell on n2, which has neither make nor a compiler; its terminal is at home");
    run(&mut lab.at_home(&[interpreter(), "session.py", "n2"]))
}

fn figures(lab: &Lab) -> Result<()> {
    head("What it costs (one machine, 3 nodes: CPU and memory are shared)");
    run(&mut lab.at_home(&[interpreter(), "figures.py", &compiler()?]))
}

/// A placed program that is killed if the demo ends before it.
struct Placed(Child);

impl Placed {
    /// Waits until `tern ps` shows the program at work.
    fn wait_for_row(&mut self, lab: &Lab) -> Result<serde_json::Value> {
        let start = Instant::now();
        while start.elapsed() < LIMIT {
            let rows: serde_json::Value =
                serde_json::from_str(&output(&mut lab.at_home(&["tern", "ps", "--json"]))?).unwrap_or_default();
            if let Some(row) = rows
                .as_array()
                .and_then(|rows| rows.iter().find(|row| row["guest"]["cpu_us"].as_i64() >= Some(SHOWN_AFTER_US)))
            {
                return Ok(row.clone());
            }
            if let Ok(Some(status)) = self.0.try_wait() {
                return Err(format!("the placed program ended with {status} before it was seen"));
            }
            sleep(Duration::from_millis(10));
        }
        Err("tern ps does not show the placed program".into())
    }

    /// Waits for its end; what it printed.
    fn finish(mut self) -> Result<String> {
        let mut text = String::new();
        let read = self.0.stdout.as_mut().map(|out| std::io::Read::read_to_string(out, &mut text));
        read.transpose().map_err(|e| format!("cannot read its output: {e}"))?;
        match self.0.wait() {
            Ok(status) if status.success() => Ok(text),
            Ok(status) => Err(format!("the placed program ended with {status}")),
            Err(error) => Err(format!("cannot wait for the placed program: {error}")),
        }
    }
}

impl Drop for Placed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn head(text: &str) {
    println!("\n== {text}");
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The system's Python: that of a version manager is a script which forks.
fn interpreter() -> &'static str {
    if Path::new("/usr/bin/python3").exists() { "/usr/bin/python3" } else { "python3" }
}

/// gcc's compiler proper, which needs no fork.
fn compiler() -> Result<String> {
    let path = output(Command::new("gcc").arg("-print-prog-name=cc1"))?.trim().to_owned();
    match Path::new(&path).is_absolute() {
        true => Ok(path),
        false => Err("gcc is not installed (apt-get install gcc)".into()),
    }
}
