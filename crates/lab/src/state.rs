//! The state of a lab that is up: `/run/tern-lab/NAME/state.json`, written by the hub and read by
//! every command.

use std::fs;
use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Context, Error, Result};
use crate::options::{LabName, Options};
use crate::process::Process;
use crate::programs::Programs;

/// The directory of all labs' states.
pub const LABS: &str = "/run/tern-lab";

/// The number of other labs that may end at the worst moment, one after the other, before making a
/// directory fails.
const RACES: u32 = 1000;

/// The state of a lab that is up.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LabState {
    /// Options of the lab.
    pub options: Options,
    /// What the lab and its nodes run.
    pub programs: Programs,
    /// The hub, which holds the switch's network namespace.
    pub hub: Process,
    /// The nodes, n1 first.
    pub nodes: Vec<NodeState>,
}

/// The state of a node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NodeState {
    /// Name of the node: `n1`, `n2` and so on.
    pub name: String,
    /// Address on the lab's network.
    pub address: Ipv4Addr,
    /// PID 1 of the node, by its id on this machine.
    pub init: Process,
    /// The node's cgroups, one per hierarchy, to which its processes belong.
    pub cgroups: Vec<PathBuf>,
    /// Whether the node has made-up user and library files.
    pub foreign: bool,
    /// Whether the node shows this machine's tree.
    pub whole: bool,
    /// The file to which a virtual machine's console writes; `None` for other nodes.
    pub console: Option<PathBuf>,
    /// Factor by which the policy of the node's daemon runs faster.
    pub pace: u32,
}

impl NodeState {
    /// Tells whether the node is a virtual machine. Its processes are then not this machine's, and
    /// requests go to its agent.
    pub fn is_machine(&self) -> bool {
        self.console.is_some()
    }

    /// Gives the groups with all processes of the node, its rooms included, where its limits are.
    pub fn whole_cgroups(&self) -> impl Iterator<Item = &Path> {
        self.cgroups.iter().map(|group| crate::cgroup::whole(group))
    }

    /// Gives the directory of tern's identity on this node.
    pub fn state_dir(&self) -> &'static str {
        if self.whole { "/run/lab/state" } else { MACHINE_STATE_DIR }
    }
}

impl LabState {
    /// Reads the state of a lab.
    ///
    /// # Errors
    /// The lab is not up.
    pub fn load(name: &LabName) -> Result<LabState> {
        let path = directory(name).join("state.json");
        let Ok(text) = fs::read(&path) else { return Err(Error::NoLab(name.to_string())) };
        let state: LabState = serde_json::from_slice(&text)
            .map_err(|source| Error::State { path: path.display().to_string(), source })?;
        match state.hub.is_alive() {
            true => Ok(state),
            false => Err(Error::NoLab(format!("{name} (its hub has died: `tern lab down` clears away the rest)"))),
        }
    }

    /// Writes the state. Readers see the old or the new one.
    pub fn save(&self) -> Result<()> {
        let directory = directory(&self.options.name);
        let path = directory.join("state.json");
        let draft = directory.join("state.json.new");
        let text = serde_json::to_vec_pretty(self)
            .map_err(|source| Error::State { path: path.display().to_string(), source })?;
        fs::write(&draft, text).context(|| format!("write {}", draft.display()))?;
        fs::rename(&draft, &path).context(|| format!("rename to {}", path.display()))
    }

    /// Finds the node of this name.
    pub fn node(&self, name: &str) -> Result<&NodeState> {
        self.nodes.iter().find(|n| n.name == name).ok_or_else(|| Error::NoNode {
            node: name.into(),
            known: match self.nodes.len() {
                1 => "n1".into(),
                n => format!("n1 to n{n}"),
            },
        })
    }
}

/// Gives the directory of a lab.
pub fn directory(name: &LabName) -> PathBuf {
    Path::new(LABS).join(name.as_str())
}

/// Makes a directory below [`LABS`] with its parents. The end of another lab may remove the common
/// directory at any moment before this lab's own is in it; then it is made again.
pub fn make_directory(path: &Path) -> Result<()> {
    let mut made = fs::create_dir_all(path);
    for _ in 0..RACES {
        match &made {
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::AlreadyExists) => {
                made = fs::create_dir_all(path);
            }
            _ => break,
        }
    }
    made.context(|| format!("make {}", path.display()))
}

/// Lists the names of all labs that have a directory, up or not.
pub fn all() -> Vec<LabName> {
    let entries = fs::read_dir(LABS).into_iter().flatten().flatten();
    let mut names: Vec<LabName> = entries.filter_map(|e| e.file_name().to_str()?.parse().ok()).collect();
    names.sort();
    names
}

/// Gives the address of node number `index` (from 1): 10.77.0.1 for n1. Every lab uses the same
/// range in a network of its own.
pub fn address(index: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 77, 0, 0)) + index)
}

/// The address of the switch, from which virtual machines are asked.
pub const SWITCH_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 255, 254);
/// The hardware address of the switch.
pub const SWITCH_HARDWARE: [u8; 6] = [0x02, b't', b'e', b'r', 0xff, 0xfe];
/// The directory of tern's identity on nodes that do not show this machine.
pub const MACHINE_STATE_DIR: &str = "/var/lib/tern";

/// Bits of the lab's network prefix.
pub const PREFIX_BITS: u8 = 16;

/// Gives the hardware address of node number `index`.
pub fn hardware_address(index: u32) -> [u8; 6] {
    let [_, _, high, low] = index.to_be_bytes();
    [0x02, b't', b'e', b'r', high, low]
}

/// Gives the contents of `/etc/hosts`.
pub fn hosts(nodes: u32) -> String {
    let mut text = format!("{}\tlocalhost\n::1\tlocalhost\n", Ipv4Addr::LOCALHOST);
    (1..=nodes).for_each(|n| text.push_str(&format!("{}\tn{n}\n", address(n))));
    text
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_directory_is_made_while_other_labs_take_the_common_one_away() {
        let common = std::env::temp_dir().join(format!("tern-lab-race-{}", std::process::id()));
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut pause = 0;
                while !done.load(Ordering::Relaxed) {
                    let _ = fs::remove_dir(&common);
                    // The pauses vary: with none at all this thread would win every race for a
                    // while.
                    pause = (pause * 5 + 1) % 4096;
                    (0..pause).for_each(|_| std::hint::spin_loop());
                }
            });
            let made: Vec<Result<()>> = (0..5000)
                .map(|_| {
                    let own = common.join("lab");
                    let made = make_directory(&own.join("root"));
                    let _ = fs::remove_dir_all(&own);
                    made
                })
                .collect();
            done.store(true, Ordering::Relaxed);
            assert!(made.iter().all(Result::is_ok), "{made:?}");
        });
        let _ = fs::remove_dir_all(&common);
    }
}
