//! Running a command natively or placed, and measuring its time.

use crate::Error;
use std::path::PathBuf;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

/// The place where a command runs.
#[derive(Clone, Debug)]
pub enum Where {
    /// On this node.
    Native,
    /// On the node of this name.
    On(String),
}

/// Gives the path of this program, which is also the guest.
pub fn me() -> Result<PathBuf, Error> {
    std::env::current_exe().map_err(Error::system("finding this program"))
}

/// Gives the path of the tool that is measured: the one beside this program, else the one on the
/// search path.
pub fn tern() -> Result<PathBuf, Error> {
    let beside = me()?.with_file_name("tern");
    Ok(if beside.is_file() { beside } else { PathBuf::from("tern") })
}

fn command(place: &Where, argv: &[String]) -> Result<Command, Error> {
    Ok(match place {
        Where::Native => {
            let mut command = Command::new(&argv[0]);
            command.args(&argv[1..]);
            command
        }
        Where::On(node) => {
            let mut command = Command::new(tern()?);
            command.args(["run", "--on", node, "--"]).args(argv);
            command
        }
    })
}

/// Runs a command to its end. Gives its time, microseconds, and its standard error. Standard output
/// is a pipe that is read, or `out`.
pub fn timed(place: &Where, argv: &[String], out: Option<Stdio>) -> Result<(f64, String), Error> {
    let mut command = command(place, argv)?;
    command.stdin(Stdio::null()).stderr(Stdio::piped()).stdout(out.unwrap_or_else(Stdio::piped));
    let start = Instant::now();
    let done = command
        .spawn()
        .and_then(std::process::Child::wait_with_output)
        .map_err(Error::system(format!("running {}", argv[0])))?;
    let took_us = start.elapsed().as_nanos() as f64 / 1000.0;
    let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
    if !done.status.success() {
        return Err(Error::Failed { command: argv.join(" "), status: done.status.to_string(), output: said });
    }
    Ok((took_us, said))
}

/// Runs a guest of this program. Gives the nanoseconds that it measured.
pub fn guest(place: &Where, words: &[&str], out: Option<Stdio>) -> Result<f64, Error> {
    let mut argv = vec![me()?.display().to_string(), "__bench-guest".into()];
    argv.extend(words.iter().map(|w| (*w).to_owned()));
    let (_, said) = timed(place, &argv, out)?;
    figure(&argv, &said)
}

fn figure(argv: &[String], said: &str) -> Result<f64, Error> {
    let last = said.lines().last().unwrap_or_default();
    last.parse().map_err(|_| Error::Failed {
        command: argv.join(" "),
        status: "said no figure".into(),
        output: said.to_owned(),
    })
}

/// Runs a guest as [`guest`] does, with its standard input and output at this process; `serve`
/// handles them.
pub fn guest_with(
    place: &Where,
    words: &[&str],
    serve: impl FnOnce(&mut ChildStdout, &mut ChildStdin),
) -> Result<f64, Error> {
    let mut argv = vec![me()?.display().to_string(), "__bench-guest".into()];
    argv.extend(words.iter().map(|w| (*w).to_owned()));
    let failed = || Error::system(format!("running {}", argv.join(" ")));
    let mut command = command(place, &argv)?;
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed())?;
    if let (Some(mut from), Some(mut to)) = (child.stdout.take(), child.stdin.take()) {
        serve(&mut from, &mut to);
    }
    let done = child.wait_with_output().map_err(failed())?;
    figure(&argv, &String::from_utf8_lossy(&done.stderr))
}
