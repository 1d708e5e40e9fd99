//! What the two programs `tern` and `tern-lab` share: the daemon, the roles that it starts, and
//! what the tool needs of the crates of kernel and daemon.

pub mod daemon;
pub mod doctor;
pub mod logging;
pub mod picture;
pub mod roles;

use std::path::Path;

use cli::Host;

/// What the tool needs of the crates of kernel and daemon.
pub const HOST: Host = Host {
    probe: doctor::findings,
    restore_inheritance,
    interrupts,
    begins_at_home,
    become_deputy: home::conversion::become_deputy,
    own_address: node::address::own,
    become_daemon: daemon::exec,
    detach_daemon: daemon::detach,
    abandon: |dirs| node::abandon(&dirs.state, &dirs.run_dir).map_err(|e| daemon::chain(&e)),
};

/// Gives this process back what it started with, for the program that it becomes.
fn restore_inheritance() {
    home::conversion::restore_signals();
    home::conversion::restore_descriptors();
}

fn interrupts() -> std::io::Result<std::os::fd::OwnedFd> {
    os::fds::interrupts().map_err(std::io::Error::other)
}

fn begins_at_home(path: &Path) -> bool {
    homefs::programs::open(path).is_ok_and(|file| homefs::programs::begins_at_home(&file, homefs::programs::who_asks()))
}
