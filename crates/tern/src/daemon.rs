//! `ternd`, `tern daemon`.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use cli::Dirs;

/// Rooms hosted if not said otherwise.
const ROOMS_MAX: u32 = 256;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where to listen (TCP and UDP), and the address that others are told; as given to `tern init` or `tern join`, else found out
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = cli::address)]
    listen: Option<SocketAddr>,
    /// The most rooms to host; 0: no guests
    #[arg(long, default_value_t = ROOMS_MAX, value_name = "N")]
    rooms: u32,
    /// Memory that the rooms of this node may have together, percent of the machine's: the rest is its owner's
    #[arg(long, default_value_t = 80, value_name = "PERCENT", value_parser = clap::value_parser!(u64).range(1..=100))]
    rooms_memory: u64,
    /// What moves must do without on this machine. `awake`: idle processors are kept from sleeping, for at most 20 ms around a stop (power);
    /// `huge-pages`: memory that is full arrives in huge pages though its program did not ask for them (memory)
    #[arg(long, env = os::expenses::FORBIDDEN, value_delimiter = ',', value_name = "EXPENSE", value_parser = os::expenses::Expense::ALL.map(os::expenses::Expense::name))]
    without: Vec<String>,
    /// Act as if the wall clock were off by so many milliseconds
    #[arg(long, hide = true, default_value_t = 0, allow_hyphen_values = true, value_name = "MS")]
    pretend_clock_offset: i64,
    /// Run the policy, and the gossip of loads, so many times as fast: for experiments with short jobs
    #[arg(long, hide = true, env = "TERN_PACE", default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pace: u32,
}

pub fn main(args: &Args, dirs: &Dirs) -> u8 {
    match run(args, dirs) {
        Ok(()) => 0,
        Err(e) => {
            let mut line = format!("ternd: {e}");
            let mut source = e.source();
            while let Some(cause) = source {
                line = format!("{line}: {cause}");
                source = cause.source();
            }
            eprintln!("{line}");
            1
        }
    }
}

fn run(args: &Args, dirs: &Dirs) -> Result<(), Box<dyn Error>> {
    let identity = identity::Identity::load(&dirs.state)?;
    logging(dirs)?;
    let listen = match args.listen {
        Some(listen) => listen,
        None => noted(&identity)?.unwrap_or((Ipv4Addr::UNSPECIFIED, ctl::paths::PORT).into()),
    };
    node::run(node::Options {
        state: dirs.state.clone(),
        run_dir: dirs.run_dir.clone(),
        listen,
        rooms_max: args.rooms,
        rooms_memory_percent: args.rooms_memory,
        forbidden: args.without.join(","),
        clock_offset_us: args.pretend_clock_offset.saturating_mul(1000),
        pace: args.pace,
        stays: deputy::stays,
    })?;
    Ok(())
}

fn logging(dirs: &Dirs) -> Result<(), Box<dyn Error>> {
    let log = node::Log::open(&dirs.run_dir)
        .map_err(|e| format!("cannot open the log in {}: {e}", dirs.run_dir.display()))?;
    crate::logging::to_log(log);
    Ok(())
}

/// The address that `tern init` or `tern join` was given.
fn noted(identity: &identity::Identity) -> Result<Option<SocketAddr>, identity::Error> {
    let note = identity.read_note("listen")?;
    Ok(note.and_then(|bytes| String::from_utf8(bytes).ok()?.trim().parse().ok()))
}

/// After `tern init --daemon` or `tern join --daemon`: this process goes on as the daemon.
pub fn exec(dirs: &Dirs) -> u8 {
    let error = Command::new("/proc/self/exe")
        .arg0("ternd")
        .args(["--state".as_ref(), dirs.state.as_os_str(), "--run-dir".as_ref(), dirs.run_dir.as_os_str()])
        .exec();
    eprintln!("tern: cannot become the daemon: {error}");
    1
}
