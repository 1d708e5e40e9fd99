//! The first process in a virtual machine. It makes the node's files, network and devices, starts
//! the agent, and reaps.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use rustix::mount::{MountFlags, mount, mount_move};
use rustix::process::{WaitOptions, wait};
use rustix::system::{RebootCommand, reboot};
use serde::{Deserialize, Serialize};

use super::agent;
use crate::error::{Context, Result, chain};
use crate::link;
use crate::options::Options;
use crate::programs::{LAB, TERN};

/// The role of the first process, on the files that the kernel has unpacked.
pub const FIRST: &str = "__lab-machine-first";
/// The role of the same process on the node's own files.
pub const SECOND: &str = "__lab-machine";
/// The file with the [`Plan`], as JSON.
pub const PLAN: &str = "plan";

/// The description of a machine.
#[derive(Debug, Serialize, Deserialize)]
pub struct Plan {
    /// Number of the node.
    pub index: u32,
    /// Options of the lab.
    pub options: Options,
}

/// Runs the role [`FIRST`]: moves the first files to a tmpfs. A room needs a root that can be left,
/// and the kernel's first files cannot be.
pub fn first() -> Result<()> {
    end_on_failure(move_root)
}

/// Runs the role [`SECOND`]: the node.
pub fn second() -> Result<()> {
    end_on_failure(|| {
        set_up()?;
        let agent = Command::new("/bin/tern-lab").arg(agent::ROLE).spawn().context(|| "start the agent")?;
        reap_until_end(agent.id())
    })
}

/// Switches the machine off after a failure, with the reason on its console. If the first process
/// ended, its kernel would panic.
fn end_on_failure(work: impl FnOnce() -> Result<()>) -> Result<()> {
    if let Err(error) = work() {
        eprintln!("tern lab: the machine ends: {}", chain(&error));
    }
    rustix::fs::sync();
    reboot(RebootCommand::PowerOff).context(|| "switch the machine off")
}

/// The programs of a node.
const PROGRAMS: [&str; 2] = ["/bin/tern", "/bin/tern-lab"];

fn move_root() -> Result<()> {
    for module in names_in("/modules")? {
        load(&Path::new("/modules").join(module))?;
    }
    mount_at("tmpfs", "/root", "tmpfs", "mode=755,size=80%")?;
    fs::create_dir("/root/bin").context(|| "make /bin")?;
    for program in PROGRAMS {
        fs::copy(program, format!("/root{program}")).context(|| format!("copy {program}"))?;
    }
    fs::copy(format!("/{PLAN}"), format!("/root/{PLAN}")).context(|| "copy the plan")?;
    // Files that remain below are memory that nothing can reach any more.
    let _ = (fs::remove_dir_all("/modules"), PROGRAMS.map(fs::remove_file));
    std::env::set_current_dir("/root").context(|| "enter the node's files")?;
    mount_move(".", "/").context(|| "make the node's files the root")?;
    rustix::process::chroot(".").context(|| "enter the root")?;
    Err(Command::new("/bin/tern-lab").arg(SECOND).exec()).context(|| "go on as the node")
}

fn load(module: &Path) -> Result<()> {
    let file = File::open(module).context(|| format!("open {}", module.display()))?;
    rustix::system::finit_module(&file, c"", 0).context(|| format!("load {}", module.display()))
}

fn names_in(directory: &str) -> Result<Vec<String>> {
    let entries = fs::read_dir(directory).context(|| format!("read {directory}"))?;
    let mut names: Vec<String> = entries.flatten().filter_map(|e| e.file_name().into_string().ok()).collect();
    names.sort();
    Ok(names)
}

fn set_up() -> Result<()> {
    let text = fs::read(format!("/{PLAN}")).context(|| "read the plan")?;
    let plan: Plan = serde_json::from_slice(&text).map_err(std::io::Error::from).context(|| "understand the plan")?;
    fs::remove_file(format!("/{PLAN}")).context(|| "remove the plan")?;
    for directory in ["dev", "etc", "home", "proc", "run", "sys", "tmp", "var", "var/lib", "var/log", "var/tmp"] {
        fs::create_dir(Path::new("/").join(directory)).context(|| format!("make /{directory}"))?;
    }
    for directory in ["/tmp", "/var/tmp"] {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o1777)).context(|| "open /tmp to all")?;
    }
    mount_at("proc", "/proc", "proc", "")?;
    mount_at("sysfs", "/sys", "sysfs", "")?;
    mount_at("cgroup2", "/sys/fs/cgroup", "cgroup2", "")?;
    let _ = mount_at("fusectl", "/sys/fs/fuse/connections", "fusectl", "");
    mount_at("devtmpfs", "/dev", "devtmpfs", "mode=755")?;
    for directory in ["/dev/pts", "/dev/shm", "/run/lab"] {
        fs::create_dir(directory).context(|| format!("make {directory}"))?;
    }
    mount_at("devpts", "/dev/pts", "devpts", "newinstance,ptmxmode=0666,mode=620")?;
    mount_at("tmpfs", "/dev/shm", "tmpfs", "mode=1777")?;
    for (target, name) in [("/proc/self/fd", "fd"), ("/proc/self/fd/0", "stdin"), ("/proc/self/fd/1", "stdout")] {
        symlink(target, Path::new("/dev").join(name)).context(|| format!("link /dev/{name}"))?;
    }
    let daemon = if plan.options.pace > 1 { LAB } else { TERN };
    symlink(daemon, "/bin/ternd").context(|| "link ternd")?;
    let node = format!("n{}", plan.index);
    rustix::system::sethostname(node.as_bytes()).context(|| "set the host name")?;
    write("/etc/hostname", &format!("{node}\n"))?;
    write("/etc/hosts", &crate::state::hosts(plan.options.all_nodes()))?;
    link::set_node(plan.index, &plan.options)?;
    link::set_switch_neighbour()
}

fn mount_at(source: &str, at: &str, kind: &str, options: &str) -> Result<()> {
    let options = std::ffi::CString::new(options).unwrap_or_default();
    mount(source, at, kind, MountFlags::NOSUID, options.as_c_str()).context(|| format!("mount {kind} on {at}"))
}

fn write(path: &str, text: &str) -> Result<()> {
    fs::write(path, text).context(|| format!("write {path}"))
}

fn reap_until_end(agent: u32) -> Result<()> {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid.as_raw_nonzero().get() as u32 == agent => {
                return Err(std::io::Error::other(format!("it ended: {status:?}"))).context(|| "keep the agent");
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e).context(|| "wait for children"),
        }
    }
}
