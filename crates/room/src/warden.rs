//! The warden: the room's side towards its home. One process per room, outside the room's
//! namespaces.

mod advance;
mod after;
mod ahead;
mod answers;
mod args;
mod calls;
mod compared;
mod contain;
mod cpu_times;
mod describe_guest;
mod device_numbers;
mod devices;
mod direct_link;
mod due_before_return;
mod filtering;
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
mod homeward;
mod ledger;
mod limits;
mod locked;
mod marshal;
mod message;
mod notices;
mod oom_score;
mod peer_pages;
mod proc;
mod readiness;
mod receiver;
mod relatives;
mod report;
mod scheduled;
mod setup;
mod shared;
mod sharers;
mod signal_action;
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
