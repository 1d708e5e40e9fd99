//! Ending a lab, and removing the remains of an earlier one.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::process::Signal;
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::cgroup;
use crate::error::{Context, Error, Result};
use crate::name_lock::lock;
use crate::options::LabName;
use crate::process::{Process, reap};
use crate::state::{LabState, directory};

/// The time that processes may take to die before stronger measures.
const PATIENCE: Duration = Duration::from_secs(1);
/// The longest time for an end.
const LIMIT: Duration = Duration::from_secs(30);

/// Ends a lab from outside, and waits until nothing is left. Returns false if there was nothing.
pub fn down(name: &LabName) -> Result<bool> {
    let existed = directory(name).exists();
    let begun = Instant::now();
    let (state, _lock) = loop {
        let state = end_hub(name);
        // An `up` that is under way, or a hub that is ending, holds the lock. A lab that has come
        // up meanwhile, perhaps of an `up` that was killed, must end as well.
        match lock(name, LIMIT) {
            Err(Error::AlreadyUp(_)) if begun.elapsed() < LIMIT => {}
            locked => break (state, locked?),
        }
    };
    if let Some(state) = &state {
        state.nodes.iter().for_each(|node| node.init.signal(Signal::KILL));
        if !state.nodes.iter().all(|node| node.init.wait(PATIENCE)) {
            abort_fuse(name)?;
        }
        let stuck = state.nodes.iter().find(|node| !node.init.wait(LIMIT));
        if let Some(node) = stuck {
            return Err(Error::Timeout {
                what: format!("the end of {}", node.name),
                seconds: LIMIT.as_secs(),
                detail: String::new(),
            });
        }
    }
    clear(name)?;
    Ok(existed)
}

/// Ends the hub of a lab that is up. Gives the known state of the lab.
fn end_hub(name: &LabName) -> Option<LabState> {
    let path = directory(name).join("state.json");
    let state: LabState = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
    state.hub.signal(Signal::TERM);
    if !state.hub.wait(LIMIT) {
        state.hub.signal(Signal::KILL);
        state.hub.wait(LIMIT);
    }
    Some(state)
}

/// Removes the files and cgroups of a lab without a living hub. The caller holds the lock.
pub fn clear(name: &LabName) -> Result<()> {
    kill_strays(name);
    cgroup::remove(name, LIMIT)?;
    let directory = directory(name);
    match fs::remove_dir_all(&directory) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(e).context(|| format!("remove {}", directory.display()))
        }
        _ => {
            // The last lab removes the common directory.
            let _ = fs::remove_dir(crate::state::LABS);
            Ok(())
        }
    }
}

/// Kills processes that are left: a hub that was killed has not waited for its nodes, and `lab
/// exec` may have joined their groups from outside.
fn kill_strays(name: &LabName) {
    let own = std::process::id() as i32;
    let strays: Vec<Process> =
        cgroup::processes(name).into_iter().filter(|pid| *pid != own).filter_map(|pid| Process::of(pid).ok()).collect();
    strays.iter().for_each(|process| process.signal(Signal::KILL));
    strays.iter().for_each(|process| {
        process.wait(PATIENCE);
    });
}

/// Kills the hub's children, and waits until the kernel has ended everything in them.
pub fn end_children(name: &LabName, inits: &mut Vec<i32>) -> Result<()> {
    inits.iter().filter_map(|pid| Process::of(*pid).ok()).for_each(|init| init.signal(Signal::KILL));
    let start = Instant::now();
    let mut aborted = false;
    while !inits.is_empty() {
        let ended = reap();
        inits.retain(|pid| !ended.contains(pid));
        if start.elapsed() > PATIENCE && !aborted {
            abort_fuse(name)?;
            aborted = true;
        }
        if start.elapsed() > LIMIT {
            let detail = format!(": processes {:?} are left", cgroup::processes(name));
            return Err(Error::Timeout { what: "the nodes to end".into(), seconds: LIMIT.as_secs(), detail });
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// Breaks the connections of all FUSE mounts that the lab's processes see and this machine does
/// not. A process that serves a FUSE mount and has a file of it open cannot exit, not even by
/// SIGKILL, until its connection is broken.
fn abort_fuse(name: &LabName) -> Result<()> {
    let own = fuse_connections(Path::new("/proc/self/mountinfo"));
    let mounts = |pid: i32| fuse_connections(&PathBuf::from(format!("/proc/{pid}/mountinfo")));
    let mut foreign: BTreeSet<u32> = cgroup::processes(name).into_iter().flat_map(mounts).collect();
    foreign.retain(|connection| !own.contains(connection));
    if foreign.is_empty() {
        return Ok(());
    }
    let control = directory(name).join("root");
    // The control files may not be mounted on this machine, and mounting them must not be visible
    // to it. So a thread with a mount namespace of its own does this.
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| abort_connections(&control, &foreign));
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn abort_connections(control: &Path, connections: &BTreeSet<u32>) -> Result<()> {
    // SAFETY: a mount namespace shares or unshares nothing that Rust's types rely on (unlike
    // CLONE_FILES).
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.context(|| "make a mount namespace")?;
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE).context(|| "make mounts private")?;
    mount("fusectl", control, "fusectl", MountFlags::empty(), None).context(|| "mount FUSE's control files")?;
    for connection in connections {
        // A connection that has ended by itself is gone.
        let _ = fs::write(control.join(connection.to_string()).join("abort"), "1");
    }
    Ok(())
}

/// Reads the minor device numbers of the FUSE mounts in a mountinfo file, which name their
/// connections.
fn fuse_connections(mountinfo: &Path) -> Vec<u32> {
    let text = fs::read_to_string(mountinfo).unwrap_or_default();
    let fuse = text.lines().filter(|l| l.split_once(" - ").is_some_and(|(_, kind)| kind.starts_with("fuse")));
    fuse.filter_map(|l| l.split(' ').nth(2)?.split_once(':')?.1.parse().ok()).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;
    use crate::options::Options;
    use std::process::Command;
    use std::sync::mpsc;

    /// Has failed: the hub of an `up` that was killed was complete just when its end waited for it,
    /// and reported "already up".
    #[test]
    fn labs_that_come_up_meanwhile_end() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let name: LabName = format!("meanwhile-{}", std::process::id()).parse().unwrap();
        let held = lock(&name, PATIENCE).unwrap();
        let mut hub = Command::new("sleep").arg("1000").spawn().unwrap();
        let (says, hears) = mpsc::channel();
        let ending = {
            let name = name.clone();
            std::thread::spawn(move || {
                says.send(rustix::thread::gettid()).unwrap();
                down(&name)
            })
        };
        let call = format!("/proc/self/task/{}/syscall", hears.recv().unwrap().as_raw_nonzero());
        let begun = Instant::now();
        // It has seen no lab, and waits for the lock.
        while !fs::read_to_string(&call).unwrap().starts_with(&format!("{} ", libc::SYS_clock_nanosleep)) {
            assert!(begun.elapsed() < LIMIT, "it does not wait");
        }
        fs::create_dir_all(directory(&name)).unwrap();
        let options = Options::new(name.clone(), 1);
        let hub_process = Process::of(hub.id() as i32).unwrap();
        LabState { options, programs: crate::programs::Programs::default(), hub: hub_process, nodes: Vec::new() }
            .save()
            .unwrap();
        let ended = hub_process.wait(LIMIT);
        let _ = hub.kill();
        hub.wait().unwrap();
        drop(held);
        assert!(matches!(ending.join().unwrap(), Ok(false)) && ended);
        assert!(!directory(&name).exists());
    }
}
