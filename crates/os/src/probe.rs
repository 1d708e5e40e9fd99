//! What this machine's kernel offers, found by trying: a release number does not tell what a
//! distribution, a container or an administrator has switched off.

mod child;
mod cpu;
mod files;
mod identity;
mod pages;

pub use cpu::{Cpu, PROGRAM_FEATURES, cpu};

/// Something that a kernel may offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// Linux 6.1 or newer.
    Kernel,
    /// User, PID, mount, network, UTS, IPC and cgroup namespaces together.
    Namespaces,
    /// Time namespaces with offsets.
    TimeNamespace,
    /// User namespaces, with their capabilities, for ordinary users.
    UnprivilegedNamespaces,
    /// `/dev/fuse` can be opened.
    FuseDevice,
    /// A FUSE file system can be mounted inside a user namespace. Its value is the minor protocol
    /// version.
    FuseInNamespace,
    /// Requests that a dead server had read can be brought back.
    FuseResend,
    /// All names of a connection can be made stale at once.
    FuseEpoch,
    /// Seccomp user notification, with a listener of one's own.
    Notification,
    /// Processes can be traced.
    Tracing,
    /// Processes with a given number.
    SetTid,
    /// The next process' number.
    LastPid,
    /// A room may use numbers above this machine's `pid_max`. Its value is this machine's.
    PidMax,
    /// Another process' descriptor can be fetched.
    FetchDescriptor,
    /// Leases on files.
    Leases,
    /// Marks on directories that report names.
    Marks,
    /// The ioctl `PAGEMAP_SCAN` of /proc/PID/pagemap.
    PagemapScan,
    /// Asynchronous write tracking by userfaultfd.
    WriteTracking,
    /// Soft-dirty bits, the older way of write tracking.
    SoftDirty,
    /// Demand paging by userfaultfd, faults of the kernel itself included.
    DemandPaging,
    /// Control groups that limit CPU, memory and processes.
    Limits,
    /// Resource limits may be raised.
    RaiseLimits,
    /// Yama lets processes be traced that are no children. Its value is `ptrace_scope`.
    TraceScope,
    /// Idle processors can be kept from going to sleep.
    Awake,
    /// The kernel tells which Unix sockets are connected.
    SocketPairs,
}

/// What it means if a feature is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// This machine can neither host nor be a home.
    Required,
    /// This machine cannot host.
    Hosting,
    /// It works, at a cost.
    Cost,
}

/// What a try gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It works; the number says more for some features, else it is 0.
    Found(u64),
    /// The kernel refused with this error number.
    Missing(i32),
}

/// One line for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was looked for.
    pub feature: Feature,
    /// What was found.
    pub outcome: Outcome,
    /// Name for people.
    pub name: &'static str,
    /// How much it matters.
    pub need: Need,
    /// What was found, or what its lack costs and what can be done.
    pub text: String,
}

impl Finding {
    /// This user may not try it: that says nothing about root, as whom the daemon runs.
    pub fn is_forbidden(&self) -> bool {
        matches!(self.outcome, Outcome::Missing(libc::EACCES | libc::EPERM)) && !is_root()
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn who() -> &'static str {
    if is_root() { "root" } else { "this user" }
}

/// Tells what makes it possible to open /dev/fuse.
fn may_open() -> &'static str {
    if is_root() { "give the container the device (its device rules forbid it)" } else { "ternd does, as root" }
}

/// What this machine offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Features {
    /// Kernel release, as uname(2).
    pub kernel: String,
    /// What the processor offers.
    pub cpu: Cpu,
    outcomes: [Outcome; ROWS.len()],
}

struct Row {
    feature: Feature,
    name: &'static str,
    need: Need,
    /// What its lack costs.
    lack: &'static str,
    attempt: fn() -> Outcome,
}

const fn row(feature: Feature, name: &'static str, need: Need, attempt: fn() -> Outcome, lack: &'static str) -> Row {
    Row { feature, name, need, lack, attempt }
}

/// In the order of [`Feature`].
#[rustfmt::skip]
const ROWS: [Row; 25] = [
    row(Feature::Kernel, "kernel 6.1 or newer", Need::Required, identity::kernel,
        "older kernels were never tried: install a newer one"),
    row(Feature::Namespaces, "namespaces", Need::Hosting, identity::namespaces,
        "no rooms for guests here: see user.max_*_namespaces, and run outside of a container or chroot"),
    row(Feature::TimeNamespace, "time namespace", Need::Hosting, identity::time_namespace,
        "guests would see this machine's uptime instead of their home's"),
    row(Feature::UnprivilegedNamespaces, "user namespaces for ordinary users", Need::Cost, identity::unprivileged,
        "the daemon must run as root (sysctl kernel.unprivileged_userns_clone, AppArmor's restriction)"),
    row(Feature::FuseDevice, "/dev/fuse", Need::Hosting, files::fuse_device,
        "no home files here: load the module fuse, or give the container /dev/fuse"),
    row(Feature::FuseInNamespace, "FUSE in a user namespace", Need::Hosting, files::fuse_protocol,
        "no home files in rooms"),
    row(Feature::FuseResend, "FUSE resend (6.9)", Need::Cost, files::fuse_resend,
        "file requests under way when a warden dies are lost"),
    row(Feature::FuseEpoch, "FUSE epoch (6.16)", Need::Cost, files::fuse_epoch,
        "names are made stale one by one, and may wait for a lookup under way"),
    row(Feature::Notification, "seccomp user notification", Need::Hosting, identity::notification,
        "calls of guests cannot be forwarded; EBUSY: a container manager has the only listener"),
    row(Feature::Tracing, "tracing", Need::Hosting, identity::tracing,
        "guests can neither fork nor move"),
    row(Feature::SetTid, "processes with given numbers", Need::Hosting, identity::set_tid,
        "guests cannot have the PIDs of their home"),
    row(Feature::LastPid, "ns_last_pid", Need::Hosting, identity::last_pid,
        "guests' children and threads cannot have the numbers of their home"),
    row(Feature::PidMax, "PIDs above this machine's pid_max (6.14)", Need::Cost, identity::pid_max,
        "homes that use higher PIDs cannot come: raise sysctl kernel.pid_max to 4194304"),
    row(Feature::FetchDescriptor, "pidfd_getfd", Need::Required, identity::fetch_descriptor,
        "files of processes that are away cannot be reached"),
    row(Feature::Leases, "file leases", Need::Cost, files::leases,
        "contents of files are asked for at each use (sysctl fs.leases-enable)"),
    row(Feature::Marks, "fanotify with names", Need::Cost, files::marks,
        "names and attributes of home files are asked for at each use"),
    row(Feature::PagemapScan, "PAGEMAP_SCAN (6.7)", Need::Cost, pages::scan,
        "memory is looked through page by page before a move"),
    row(Feature::WriteTracking, "userfaultfd write tracking (6.7)", Need::Cost, pages::write_tracking,
        "pre-copy falls back to soft-dirty bits"),
    row(Feature::SoftDirty, "soft-dirty bits", Need::Cost, pages::soft_dirty,
        "no pre-copy where userfaultfd write tracking is missing too"),
    row(Feature::DemandPaging, "userfaultfd", Need::Cost, pages::demand_paging,
        "no post-copy: a move stops the program until all its memory is there"),
    row(Feature::Limits, "control groups", Need::Cost, identity::limits,
        "guests are not limited in memory, CPU and processes"),
    row(Feature::RaiseLimits, "CAP_SYS_RESOURCE", Need::Cost, identity::raise_limits,
        "guests whose home allows them more than this daemon's hard limits are refused"),
    row(Feature::TraceScope, "tracing of older processes", Need::Cost, identity::trace_scope,
        "without root only what `tern run` started can be moved (Yama)"),
    row(Feature::Awake, "wake-ups without delay", Need::Cost, identity::awake,
        "programs stand still longer when they are moved (/dev/cpu_dma_latency)"),
    row(Feature::SocketPairs, "connections of Unix sockets (sock_diag)", Need::Cost, identity::socket_pairs,
        "guests that make pairs of sockets stay on this node: load the module unix_diag"),
];

const _: () = {
    let mut at = 0;
    while at < ROWS.len() {
        assert!(ROWS[at].feature as usize == at, "a feature without a row in its place");
        at += 1;
    }
};

/// Tries everything. Takes some milliseconds, and makes short-lived child processes.
pub fn probe() -> Features {
    Features { kernel: identity::release(), cpu: cpu(), outcomes: ROWS.each_ref().map(|row| (row.attempt)()) }
}

impl Features {
    /// Tells what the try of this feature gave.
    pub fn outcome(&self, feature: Feature) -> Outcome {
        self.outcomes[feature as usize]
    }

    /// Tells whether the feature works here.
    pub fn has(&self, feature: Feature) -> bool {
        matches!(self.outcome(feature), Outcome::Found(_))
    }

    /// Gives the first feature for whose lack this machine cannot host guests.
    pub fn cannot_host(&self) -> Option<Finding> {
        self.findings().find(|f| f.need != Need::Cost && matches!(f.outcome, Outcome::Missing(_)))
    }

    /// Everything that was looked for, in words.
    pub fn findings(&self) -> impl Iterator<Item = Finding> {
        ROWS.iter().zip(self.outcomes).map(|(row, outcome)| Finding {
            feature: row.feature,
            outcome,
            name: row.name,
            need: row.need,
            text: self.words(row, outcome),
        })
    }

    fn words(&self, row: &Row, outcome: Outcome) -> String {
        match (row.feature, outcome) {
            (Feature::Kernel, Outcome::Found(_)) => self.kernel.clone(),
            (Feature::FuseInNamespace, Outcome::Found(minor)) => format!("protocol 7.{minor}"),
            (Feature::PidMax, Outcome::Found(max)) => format!("yes; this machine's is {max}"),
            (Feature::TraceScope, Outcome::Found(scope)) => format!("yes (ptrace_scope {scope})"),
            (Feature::Limits, Outcome::Found(version)) => format!("version {version}"),
            (_, Outcome::Found(_)) => "yes".into(),
            (Feature::FuseDevice, Outcome::Missing(libc::EACCES | libc::EPERM)) => {
                format!("it is there, but {} may not open it: {}", who(), may_open())
            }
            (_, Outcome::Missing(errno)) => {
                let reason = std::io::Error::from_raw_os_error(errno);
                format!("{}: {}", reason.to_string().split(" (os").next().unwrap_or_default(), row.lack)
            }
        }
    }
}
