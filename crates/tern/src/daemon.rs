//! `ternd`, `tern daemon`.

use std::error::Error;
use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cli::Dirs;

/// Rooms hosted if not said otherwise.
const ROOMS_MAX: u32 = 256;

/// How long a daemon in the background may take until it serves.
const SERVES_WITHIN: Duration = Duration::from_secs(20);
/// Most that is read of what one said that has ended, bytes.
const WORDS_BYTES: u64 = 16 << 10;

/// The arguments of `ternd`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Start in the background, and end when it serves
    #[arg(long)]
    detach: bool,
    /// Be the daemon that `--detach` starts
    #[arg(long, hide = true)]
    in_background: bool,
    /// Print a unit for systemd that starts this program as the daemon
    #[arg(long, conflicts_with = "detach")]
    unit: bool,
    /// Print a unit for systemd by which other nodes wait for this machine while it sleeps
    #[arg(long, conflicts_with_all = ["detach", "unit"])]
    sleep_unit: bool,
    /// Where to listen (TCP and UDP), and the address that others are told; as given to `tern init`
    /// or `tern join`, else found out
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = cli::address)]
    listen: Option<SocketAddr>,
    /// The most rooms to host; 0: no guests
    #[arg(long, default_value_t = ROOMS_MAX, value_name = "N")]
    rooms: u32,
    /// Memory that the rooms of this node may have together, percent of the machine's: the rest is
    /// its owner's
    #[arg(long, default_value_t = 80, value_name = "PERCENT", value_parser = clap::value_parser!(u64).range(1..=100))]
    rooms_memory: u64,
    /// At SIGTERM, send guests away before the daemon ends, for at most so long, such as 20s.
    /// Without this, guests go on, and the next daemon finds them
    #[arg(long, env = "TERN_DRAIN_AT_END", value_name = "TIME", value_parser = cli::seconds)]
    drain_at_end: Option<u32>,
    /// What moves must do without on this machine. `awake`: idle processors are kept from sleeping,
    /// for at most 20 ms around a stop (power); `huge-pages`: memory that is full arrives in huge
    /// pages though its program did not ask for them (memory)
    #[arg(long, env = os::expenses::FORBIDDEN, value_delimiter = ',', value_name = "EXPENSE", value_parser = os::expenses::Expense::ALL.map(os::expenses::Expense::name))]
    without: Vec<String>,
}

/// The time that a daemon goes by.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    /// How many times as fast as the machine's the clock of the policy and of its gossip runs.
    pub pace: u32,
    /// How far the wall clock is ahead of the machine's, microseconds.
    pub offset_us: i64,
}

impl Clocks {
    /// The machine's own.
    pub const MACHINE: Clocks = Clocks { pace: 1, offset_us: 0 };
}

/// Runs the daemon, starts it in the background, or prints its unit; the exit status.
pub fn main(args: &Args, dirs: &Dirs, clocks: Clocks) -> u8 {
    if args.unit || args.sleep_unit {
        print!("{}", for_this_program(if args.unit { UNIT } else { SLEEP_UNIT }));
        return 0;
    }
    if args.detach {
        // The same words without `--detach`.
        let words: Vec<_> = std::env::args_os().skip(1).filter(|word| word != "--detach" && word != "daemon").collect();
        return background(dirs, &words);
    }
    match run(args, dirs, clocks) {
        Ok(()) => 0,
        Err(e) => {
            // Whoever started it in the background may have gone.
            let _ = writeln!(std::io::stderr(), "ternd: {}", chain(e.as_ref()));
            1
        }
    }
}

/// Gives an error and its causes, in one line.
pub fn chain(error: &dyn Error) -> String {
    let causes = std::iter::successors(error.source(), |cause: &&dyn Error| (*cause).source());
    causes.fold(error.to_string(), |line, cause| format!("{line}: {cause}"))
}

const UNIT: &str = include_str!("../../../dist/ternd.service");
const SLEEP_UNIT: &str = include_str!("../../../dist/tern-sleep.service");

/// Gives a systemd unit, for the program that runs.
fn for_this_program(unit: &str) -> String {
    let program =
        std::env::current_exe().map_or_else(|_| "/usr/local/bin/tern".into(), |path| path.display().to_string());
    unit.replace("/usr/local/bin/tern", &program)
}

/// After `tern init --detach` or `tern join --detach`.
pub fn detach(dirs: &Dirs) -> u8 {
    background(dirs, &directories(dirs))
}

/// Tells where the daemon finds its files, as words of a command line.
fn directories(dirs: &Dirs) -> [OsString; 4] {
    ["--state".into(), dirs.state.clone().into(), "--run-dir".into(), dirs.run_dir.clone().into()]
}

/// Starts the daemon as nobody's child, and waits until it serves.
fn background(dirs: &Dirs, words: &[OsString]) -> u8 {
    match start(dirs, words) {
        Ok(pid) => {
            let log = control_protocol::paths::log_dir(&dirs.run_dir);
            println!("ternd serves (PID {pid}); its log is in {}", log.display());
            0
        }
        Err(e) => {
            eprintln!("tern: ternd does not serve: {}", chain(e.as_ref()));
            1
        }
    }
}

fn start(dirs: &Dirs, words: &[OsString]) -> Result<u32, Box<dyn Error>> {
    if node::is_served(&dirs.run_dir) {
        return Err(format!("another ternd already serves {}", dirs.run_dir.display()).into());
    }
    let mut command = Command::new("/proc/self/exe");
    command.arg0("ternd").arg("--in-background").args(words).current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let begun = Instant::now();
    while begun.elapsed() < SERVES_WITHIN {
        if let Some(status) = child.try_wait()? {
            let mut words = String::new();
            let errors = child.stderr.take().map(|pipe| pipe.take(WORDS_BYTES).read_to_string(&mut words));
            errors.transpose()?;
            let last = words.lines().last().unwrap_or_default();
            return Err(format!("it has ended ({status}): {}", last.trim_start_matches("ternd: ")).into());
        }
        if node::is_served(&dirs.run_dir) {
            return Ok(child.id());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(format!("it has not answered within {SERVES_WITHIN:?}").into())
}

fn run(args: &Args, dirs: &Dirs, clocks: Clocks) -> Result<(), Box<dyn Error>> {
    if args.in_background {
        os::process::lead_session()?;
    }
    let identity = identity::Identity::load(&dirs.state)?;
    logging(dirs)?;
    let listen = match args.listen {
        Some(listen) => listen,
        None => noted(&identity)?.unwrap_or((Ipv4Addr::UNSPECIFIED, control_protocol::paths::PORT).into()),
    };
    node::run(node::Options {
        state: dirs.state.clone(),
        run_dir: dirs.run_dir.clone(),
        listen,
        rooms_max: args.rooms,
        rooms_memory_percent: args.rooms_memory,
        drain_at_end: args.drain_at_end.map(|s| Duration::from_secs(s.into())),
        forbidden: args.without.join(","),
        clock_offset_us: clocks.offset_us,
        pace: clocks.pace,
        leaves_with: home::leaves_with,
        probe: crate::doctor::findings,
        coschedule: coscheduler::hosted,
    })?;
    Ok(())
}

fn logging(dirs: &Dirs) -> Result<(), Box<dyn Error>> {
    let log = node::Log::open(&dirs.run_dir)
        .map_err(|e| format!("cannot open the log in {}: {e}", dirs.run_dir.display()))?;
    crate::logging::to_log(log);
    Ok(())
}

/// Gives the address that `tern init` or `tern join` was given.
fn noted(identity: &identity::Identity) -> Result<Option<SocketAddr>, identity::Error> {
    let note = identity.read_note("listen")?;
    Ok(note.and_then(|bytes| String::from_utf8(bytes).ok()?.trim().parse().ok()))
}

/// After `tern init --daemon` or `tern join --daemon`: this process goes on as the daemon.
pub fn exec(dirs: &Dirs) -> u8 {
    let error = Command::new("/proc/self/exe").arg0("ternd").args(directories(dirs)).exec();
    eprintln!("tern: cannot become the daemon: {error}");
    1
}
