//! The warden: the room's side towards its home. One process per room, outside the room's
//! namespaces.

mod adoption;
mod advance;
mod after;
mod ahead;
mod answers;
mod args;
mod calls;
mod clock_keeper;
mod compared;
mod contain;
mod cpu_times;
mod describe_guest;
mod device_numbers;
mod devices;
mod direct_link;
mod direct_links;
mod due_before_return;
mod exec_rights;
mod fifos;
mod filtering;
mod follow_up;
mod following;
mod foreign_vdso;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
mod going_home;
mod guests;
mod held;
mod home;
mod home_files;
mod home_link;
mod home_mounts;
mod homeward;
mod homeward_tries;
mod incoming_queue;
mod ledger;
mod limits;
mod listeners;
mod locked;
mod marshal;
mod message;
mod notices;
mod oom_score;
mod page_source;
mod peer_pages;
mod pending;
mod postcopy_queue;
mod proc;
mod readiness;
mod receiver;
mod relatives;
mod report;
mod restarting_calls;
mod scheduled;
mod setup;
mod shared;
mod sharers;
mod signal_action;
mod socket_pairs;
mod spares;
mod standins;
mod tracer;
mod unpassed;
mod uplink;
pub mod wall;
mod windows;

pub use args::{ArgsError, WardenArgs};

use std::process::ExitCode;
use thiserror::Error;

/// Why a room ended or could not be made.
#[derive(Debug, Error)]
pub enum WardenError {
    /// The command line.
    #[error(transparent)]
    Args(#[from] ArgsError),
    /// The kernel refused something.
    #[error(transparent)]
    Os(#[from] os::Error),
    /// The home could not be reached.
    #[error("connecting to home {home} at {at}: {source}")]
    Connect {
        /// Name of the home.
        home: String,
        /// Address and port.
        at: String,
        /// The reason, in words.
        source: std::io::Error,
    },
    /// The link to the home.
    #[error("link to home: {0}")]
    Link(#[from] link::LinkError),
    /// Node certificate and key.
    #[error(transparent)]
    Identity(#[from] identity::Error),
    /// The home spoke nonsense, or another version.
    #[error("home sent {0}")]
    Protocol(String),
    /// The porter could not make the room.
    #[error("making the room: {0}")]
    Room(String),
}

/// Runs a warden until its room ends. `args` are those behind the role's name.
pub fn main(args: &[String]) -> ExitCode {
    os::warm::keep_freed();
    match WardenArgs::parse(args).map_err(WardenError::from).and_then(|args| {
        os::fault::listen(&args.run_dir);
        setup::run(&args)
    }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            tracing::error!("room ended: {e}");
            ExitCode::FAILURE
        }
    }
}
