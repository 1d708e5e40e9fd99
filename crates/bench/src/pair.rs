//! One end of `tern bench pairs`. In a node it starts a process, and on command sends its memory to
//! another node in one of several ways.
//!
//! Standard input has the size of the victim's program (8 bytes), the program, then commands, one
//! on each line. Each command is answered by a line.

use crate::victim::{MINIMAL, Shape, Victim};
use crate::{Error, stream};
use clap::Args as ClapArgs;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufRead, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const MIB: u64 = 1 << 20;
/// The largest program that is accepted; a static C program is smaller.
const PROGRAM_BYTES_MAX: u64 = 64 * MIB;

/// The name of the program that is moved.
pub const PROGRAM: &str = "victim";

/// The arguments of `tern bench pair`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// Name of the other node
    #[arg(long)]
    to: String,
    /// Address of `tern bench sink` there
    #[arg(long)]
    sink: SocketAddr,
    /// Memory of the process, MiB
    #[arg(long)]
    mib: u64,
    /// Memory strategy of moves
    #[arg(long, default_value = "stop")]
    how: String,
    /// Directory for the program, created and removed
    #[arg(long)]
    dir: PathBuf,
}

/// The result of one node's command.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Done {
    /// Bytes that were sent.
    pub bytes: u64,
    /// Duration of the command, microseconds.
    pub us: f64,
    /// Freeze time of the process, microseconds.
    pub still_us: f64,
}

/// Serves commands until standard input ends.
pub fn serve(args: &Args) -> Result<String, Error> {
    let dir = &args.dir;
    std::fs::create_dir_all(dir).map_err(Error::system(format!("making {}", dir.display())))?;
    let outcome = converse(args, dir);
    let _ = std::fs::remove_dir_all(dir);
    outcome.map(|()| String::new())
}

fn converse(args: &Args, dir: &Path) -> Result<(), Error> {
    let failed = |doing: &str| Error::system(doing.to_owned());
    let mut input = std::io::stdin().lock();
    let mut size = [0; 8];
    input.read_exact(&mut size).map_err(failed("reading the program's size"))?;
    let program = dir.join(PROGRAM);
    let mut file = File::create(&program).map_err(failed("making the program's file"))?;
    let size = u64::from_le_bytes(size).min(PROGRAM_BYTES_MAX);
    std::io::copy(&mut input.by_ref().take(size), &mut file).map_err(failed("writing the program"))?;
    file.set_permissions(std::fs::Permissions::from_mode(0o700)).map_err(failed("making the program executable"))?;
    drop(file);
    let shape = Shape { bytes: args.mib * MIB, ..MINIMAL };
    // The first moves make the room.
    let first = Victim::start(&program, MINIMAL)?;
    first.relocate(&args.to, &[])?;
    first.relocate("home", &[])?;
    first.end()?;
    answer("ready")?;
    let mut victim = None;
    for line in input.lines() {
        let line = line.map_err(failed("reading what is to be done"))?;
        let done = match (&line.split(' ').collect::<Vec<_>>()[..], &victim) {
            // The other node may have cached pages of a process that was there before.
            (["fresh"], _) => {
                victim.take().map_or(Ok(()), Victim::end)?;
                victim = Some(Victim::start(&program, shape)?);
                Done::default()
            }
            (["move"], Some(victim)) => send(victim, &args.to, &args.how, &[])?,
            (["move", buffer], Some(victim)) => send(victim, &args.to, &args.how, &["--buffer", buffer])?,
            (["home"], Some(victim)) => send(victim, "home", "stop", &[])?,
            (["stream"], _) => {
                let bytes = args.mib * MIB;
                let mb_s = stream::plain(args.sink, bytes)?;
                Done { bytes, us: bytes as f64 / mb_s, still_us: 0.0 }
            }
            _ => break,
        };
        answer(&serde_json::to_string(&done).unwrap_or_default())?;
    }
    victim.map_or(Ok(()), Victim::end)
}

fn answer(words: &str) -> Result<(), Error> {
    let mut out = std::io::stdout();
    writeln!(out, "{words}").and_then(|()| out.flush()).map_err(Error::system("answering"))
}

fn send(victim: &Victim, to: &str, how: &str, more: &[&str]) -> Result<Done, Error> {
    let words: Vec<String> = ["--how", how].iter().chain(more).map(|word| (*word).to_owned()).collect();
    let legs = victim.relocate(to, &words)?;
    let sum = |f: fn(&control_protocol::moves::HopReport) -> u64| legs.iter().map(f).sum::<u64>();
    Ok(Done { bytes: sum(|l| l.page_bytes), us: sum(|l| l.total_us) as f64, still_us: sum(|l| l.freeze_us) as f64 })
}
