//! `tern bench ring`: a ring of PVM tasks or MPI ranks that send to their right and take from their
//! left, by where they run (Barak and others, Table 2): all at home; over nodes, as the library's
//! launcher places them; the same with tern refining the placement; and begun at home, then moved
//! to the nodes by tern.

use crate::Error;
use crate::balance::ask;
use crate::jobs_over_nodes::{Machine, Site, of_machine};
use crate::stats::median_and_least;
use clap::Args as ClapArgs;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The arguments of `tern bench ring`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// Library of the ring
    #[arg(long, value_parser = ["pvm", "mpich", "openmpi"], default_value = "pvm")]
    library: String,
    /// Route of PVM's messages: from task to task, or through the daemons
    #[arg(long, value_parser = ["direct", "daemon"], default_value = "direct")]
    route: String,
    /// Numbers of tasks; 4 in a quick run
    #[arg(long, value_delimiter = ',', default_values_t = [4, 8, 12, 16])]
    tasks: Vec<u32>,
    /// Sizes of messages, KiB; 1 and 16 in a quick run
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16, 64, 256])]
    kib: Vec<u64>,
    /// Other nodes that take part; the default is all of them
    #[arg(long, value_delimiter = ',')]
    nodes: Vec<String>,
    /// Program that runs a command on another node, as ssh does (`dist/on-node`)
    #[arg(long, default_value = "on-node")]
    on_node: PathBuf,
    /// Network between the nodes, for Open MPI
    #[arg(long, default_value = "eth0")]
    network: String,
    /// Runs of each kind
    #[arg(long, default_value_t = 3)]
    runs: u32,
    /// Repeat less: seconds instead of minutes
    #[arg(long)]
    quick: bool,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// The cycles of the paper's Table 2, and of a quick run.
const CYCLES: u64 = 60;
const CYCLES_QUICK: u64 = 10;
/// The longest wait until all tasks of a ring have begun.
const BEGUN_WITHIN: Duration = Duration::from_secs(60);

/// The ways in which a ring is spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Home,
    Nodes,
    Refined,
    Spread,
}

const WAYS: [Way; 4] = [Way::Home, Way::Nodes, Way::Refined, Way::Spread];

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Home => "home",
            Way::Nodes => "nodes",
            Way::Refined => "refined",
            Way::Spread => "spread",
        }
    }

    fn is_over_nodes(self) -> bool {
        matches!(self, Way::Nodes | Way::Refined)
    }
}

/// The result of one kind of ring.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Library of the ring.
    pub library: String,
    /// Number of tasks.
    pub tasks: u32,
    /// Size of a message, KiB.
    pub kib: u64,
    /// The way in which the ring was spread: home, nodes, refined, or spread.
    pub column: String,
    /// Number of cycles.
    pub cycles: u64,
    /// Median time of the slowest task, seconds.
    pub seconds: f64,
    /// Moves by the policies in all runs.
    pub moves: usize,
}

/// Runs all rings.
pub fn measure(args: &Args) -> Result<String, Error> {
    let site = Site::new(&args.on_node, &args.nodes)?;
    let program = compile(args, &site)?;
    let (tasks, kib) = if args.quick { (vec![4], vec![1, 16]) } else { (args.tasks.clone(), args.kib.clone()) };
    let mut rows = Vec::new();
    for way in WAYS {
        let machine = match (args.library.as_str(), way.is_over_nodes()) {
            ("pvm", true) => Some(Machine::start(&site, &site.nodes)?),
            ("pvm", false) => Some(Machine::start(&site, &[])?),
            _ => None,
        };
        site.let_tern_move(way == Way::Refined)?;
        for tasks in &tasks {
            for kib in &kib {
                eprintln!("{}: {tasks} tasks, {kib} KiB, {}", args.library, way.name());
                let ring = Ring { args, site: &site, program: &program, way, tasks: *tasks, bytes: kib << 10 };
                rows.push(ring.row()?);
            }
        }
        site.let_tern_move(false)?;
        drop(machine);
    }
    rows.sort_by_key(|r| (r.tasks, r.kib));
    Ok(if args.json { crate::figures::json(&rows) } else { table(&rows) })
}

fn compile(args: &Args, site: &Site) -> Result<PathBuf, Error> {
    match args.library.as_str() {
        "pvm" => site.program("ring", include_str!("parallel/ring_pvm.c"), &["cc", "-lpvm3"]),
        "mpich" => site.program("ring", include_str!("parallel/ring_mpi.c"), &["mpicc.mpich"]),
        _ => site.program("ring", include_str!("parallel/ring_mpi.c"), &["mpicc.openmpi"]),
    }
}

/// One kind of ring.
struct Ring<'a> {
    args: &'a Args,
    site: &'a Site,
    program: &'a Path,
    way: Way,
    tasks: u32,
    bytes: u64,
}

impl Ring<'_> {
    fn row(&self) -> Result<Row, Error> {
        let before = self.site.moves()?;
        let runs = if self.args.quick { 1 } else { self.args.runs.max(1) };
        let seconds = (0..runs).map(|_| self.run()).collect::<Result<Vec<f64>, Error>>()?;
        Ok(Row {
            library: self.args.library.clone(),
            tasks: self.tasks,
            kib: self.bytes >> 10,
            column: self.way.name().into(),
            cycles: self.cycles(),
            seconds: median_and_least(&seconds).0,
            moves: self.site.moves()?.saturating_sub(before),
        })
    }

    fn cycles(&self) -> u64 {
        if self.args.quick { CYCLES_QUICK } else { CYCLES }
    }

    /// Runs the ring once. Gives seconds.
    fn run(&self) -> Result<f64, Error> {
        (0..self.tasks).for_each(|task| drop(std::fs::remove_file(self.task_file(task))));
        let hold = self.site.dir.join("hold");
        if self.way == Way::Spread {
            std::fs::write(&hold, "").map_err(Error::system("holding the ring"))?;
        }
        let mut command = self.command()?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().map_err(Error::system("starting the ring"))?;
        if self.way == Way::Spread {
            let spread = self.spread();
            std::fs::remove_file(&hold).map_err(Error::system("letting the ring go"))?;
            spread?;
        }
        let done = child.wait_with_output().map_err(Error::system("running the ring"))?;
        let said = String::from_utf8_lossy(&done.stdout);
        let seconds = said.lines().find_map(|line| {
            line.strip_prefix("all right: ")?.rsplit_once(", ")?.1.strip_suffix(" s")?.parse::<f64>().ok()
        });
        seconds.ok_or_else(|| Error::Failed {
            command: format!("ring of {} tasks", self.tasks),
            status: done.status.to_string(),
            output: format!("{said}{}", String::from_utf8_lossy(&done.stderr)),
        })
    }

    fn task_file(&self, task: u32) -> PathBuf {
        self.site.dir.join(format!("task.{task}"))
    }

    /// Moves the tasks to the nodes in turn, once all of them have begun.
    fn spread(&self) -> Result<(), Error> {
        let begun = Instant::now();
        for (task, node) in (0..self.tasks).zip(self.site.nodes.iter().cycle()) {
            let pid = loop {
                match std::fs::read_to_string(self.task_file(task)) {
                    Ok(pid) => break pid,
                    Err(_) if begun.elapsed() < BEGUN_WITHIN => std::thread::sleep(Duration::from_millis(20)),
                    Err(e) => return Err(Error::system(format!("waiting for task {task}"))(e)),
                }
            };
            ask(&["move", pid.trim(), node])?;
        }
        Ok(())
    }

    fn command(&self) -> Result<Command, Error> {
        let (bytes, cycles, tasks) = (self.bytes.to_string(), self.cycles().to_string(), self.tasks.to_string());
        let mut all = vec!["n1".to_owned()];
        if let Ok(name) = rustix::system::uname().nodename().to_str() {
            all[0] = name.to_owned();
        }
        all.extend(self.site.nodes.iter().cloned());
        let on_node = self.site.on_node()?;
        let mut command = match self.args.library.as_str() {
            "pvm" => {
                let mut command = Command::new(self.program);
                command.args([tasks.as_str(), &self.args.route]);
                of_machine(&mut command, &self.site.dir);
                command
            }
            "mpich" => {
                let mut command = Command::new("mpiexec.mpich");
                command.args(["-n", &tasks]);
                if self.way.is_over_nodes() {
                    command.arg("-launcher-exec").arg(on_node).args(["-hosts", &all.join(",")]);
                }
                command.env("UCX_TLS", "tcp,self").env("MPIR_CVAR_NOLOCAL", "1").arg(self.program);
                command
            }
            _ => {
                let mut command = Command::new("mpiexec.openmpi");
                command.args(["--allow-run-as-root", "--oversubscribe", "-x", "PMIX_MCA_gds", "-n", &tasks]);
                if self.way.is_over_nodes() {
                    command.args(["--host", &all.iter().map(|n| format!("{n}:64")).collect::<Vec<_>>().join(",")]);
                    command.args(["--map-by", "node"]).env("OMPI_MCA_plm_rsh_agent", on_node);
                    command.env("OMPI_MCA_btl_tcp_if_include", &self.args.network);
                    command.env("OMPI_MCA_oob_tcp_if_include", &self.args.network);
                }
                command.env("PMIX_MCA_gds", "hash").env("OMPI_MCA_pml", "ob1").env("OMPI_MCA_btl", "tcp,self");
                command.env("OMPI_MCA_shmem", "mmap").arg(self.program);
                command
            }
        };
        command.current_dir(&self.site.dir).args([bytes, cycles]);
        Ok(command)
    }
}

fn table(rows: &[Row]) -> String {
    let mut text = format!("{:<8} {:>5} {:>5} {:>7}", "library", "tasks", "KiB", "cycles");
    for way in WAYS {
        let _ = write!(text, " {:>11}", format!("{}, s", way.name()));
    }
    let _ = writeln!(text, "  refined/nodes  spread/nodes  spread/home  moves");
    for group in rows.chunk_by(|a, b| (a.tasks, a.kib) == (b.tasks, b.kib)) {
        let of = |way: Way| group.iter().find(|r| r.column == way.name()).map_or(f64::NAN, |r| r.seconds);
        let first = &group[0];
        let _ = write!(text, "{:<8} {:>5} {:>5} {:>7}", first.library, first.tasks, first.kib, first.cycles);
        for way in WAYS {
            let _ = write!(text, " {:>11.4}", of(way));
        }
        let _ = writeln!(
            text,
            "  {:>13.2}  {:>12.2}  {:>11.2}  {:>5}",
            of(Way::Refined) / of(Way::Nodes),
            of(Way::Spread) / of(Way::Nodes),
            of(Way::Spread) / of(Way::Home),
            group.iter().map(|r| r.moves).sum::<usize>()
        );
    }
    text
}
