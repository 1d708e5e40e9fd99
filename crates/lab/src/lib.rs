//! A cluster in one machine: every node is a set of namespaces, all of them joined by a switch.
//!
//! ```text
//! tern lab up ── starts ──> hub (__lab-hub)   owns the switch's network namespace; parent of inits
//!                           ├─ n1 init (__lab-init)   PID 1 of the node: sets it up, then reaps
//!                           ├─ n2 init ...
//!                           └─ relay (__lab-relay)    only with --delay: passes frames on
//! ```
//!
//! Nothing of a lab is in the machine's own network namespace: no bridge, no address, no route. So
//! two labs cannot collide, and the kernel itself clears away almost everything when the hub dies.
//! What may be left by a crash is a directory and empty cgroups; the next `up` or `down` of that
//! name removes them.
//!
//! Nodes that `--vm` adds are virtual machines (`machine`): another kernel, CPU and clock, a port
//! of the same switch.
//!
//! # What a node sees
//!
//! | | n1, the home | all other nodes |
//! | --- | --- | --- |
//! | root | this machine's tree | a tmpfs: `bin dev etc home proc run sys tmp var` |
//! | programs | this machine's | `/bin/tern`, `/bin/tern-lab`, `/bin/ternd` |
//! | private | `/tmp /var/tmp /home /run /dev/shm /etc/hostname /etc/hosts` | everything |
//! | `/proc`, `/sys` (read-only), `/sys/fs/cgroup` | its own | its own |
//! | `/dev` | this machine's | a minimum, see below |
//! | tern's state | `/run/lab/state` | `/var/lib/tern` |
//!
//! With `--whole`, all nodes see what n1 sees, like machines with the same packages installed.
//!
//! `/dev` of other nodes has `null zero full random urandom tty fuse userfaultfd pts ptmx shm fd
//! stdin stdout stderr`.
//!
//! A foreign node (`--foreign n3`) carries in addition `/etc/passwd`, `/etc/group`, `/lib64`,
//! `/lib` and `/usr/bin` that are made up, so that anything served from the wrong machine is
//! noticed.

mod api;
mod cgroup;
mod channel;
mod cli;
mod cluster;
mod ended;
mod error;
mod exec;
mod hub;
mod init;
mod link;
mod machine;
mod name_lock;
mod netlink;
mod options;
mod process;
mod programs;
mod relay;
mod root;
mod spawn;
mod state;
mod task;
mod teardown;
mod up;

pub use api::{Lab, Output};
pub use cli::{Args, Command, run};
pub use error::Error;
pub use machine::provide as provide_machines;
pub use options::{LabName, Options, Share};
pub use programs::{LAB as PROGRAM, Programs};
pub use state::{LabState, NodeState};

/// Runs the role that `argv` (without the program's name) names, if it is one of the lab's:
/// `__lab-hub`, `__lab-init`, `__lab-relay`, and inside a virtual machine `__lab-machine` and
/// `__lab-agent`. Gives the exit status of the process.
pub fn role(argv: &[String]) -> Option<u8> {
    let run = match argv.first()?.as_str() {
        "__lab-hub" => hub::main,
        "__lab-init" => init::main,
        "__lab-relay" => relay::main,
        machine::inside::FIRST => machine::inside::first,
        machine::inside::SECOND => machine::inside::second,
        machine::agent::ROLE => machine::agent::main,
        _ => return None,
    };
    Some(match run() {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("{}: {}", argv[0], error::chain(&error));
            1
        }
    })
}
