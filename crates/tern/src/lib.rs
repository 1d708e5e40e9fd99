//! What the two programs `tern` and `tern-lab` share: the daemon, the roles that it starts, and
//! what the tool needs of the crates of kernel and daemon.

pub mod daemon;
pub mod doctor;
pub mod dumping;
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
    begin_job,
    begin_coscheduled: |dirs, mode| coscheduler::begin_own(&dirs.run_dir, mode),
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

/// Makes a child that stands for this process.
fn begin_job(dies_with_parent: bool) -> std::io::Result<cli::Begun> {
    let ended = |ended: os::job::Ended| cli::Ended {
        success: ended.is_success(),
        cpu_us: ended.cpu_us,
        end: Box::new(move || ended.exit_status()),
    };
    Ok(match os::job::begin(dies_with_parent).map_err(std::io::Error::other)? {
        os::job::Begun::Child => cli::Begun::Child,
        os::job::Begun::Parent(job) => {
            cli::Begun::Parent(Box::new(move || job.wait().map(ended).map_err(std::io::Error::other)))
        }
    })
}

fn interrupts() -> std::io::Result<std::os::fd::OwnedFd> {
    os::fds::interrupts().map_err(std::io::Error::other)
}

fn begins_at_home(path: &Path) -> bool {
    homefs::programs::open(path).is_ok_and(|file| homefs::programs::begins_at_home(&file, homefs::programs::who_asks()))
}
