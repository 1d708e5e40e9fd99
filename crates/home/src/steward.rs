//! The steward: the home's side of one room. It serves the home's files to the room, and has the
//! room's deputies run what must be run at home.

mod args;
mod channel;
mod closing;
mod confinement;
mod contain;
mod control;
mod deputies;
pub mod deputy_watchdog;
mod devices;
mod early;
mod errand;
mod files;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
mod history;
mod manner;
mod messages;
mod mounts;
mod moves;
mod orders;
mod place;
mod placement_request;
mod poller;
mod privileged;
mod processes;
mod proof;
mod rights;
mod setup;
mod shared;
mod standins;
mod stops;

pub use moves::{picture, stays};

pub use args::{ArgsError, StewardArgs};

use std::process::ExitCode;
use thiserror::Error;

/// Why a steward ended.
#[derive(Debug, Error)]
pub enum StewardError {
    /// The command line.
    #[error(transparent)]
    Args(#[from] ArgsError),
    /// The kernel refused something.
    #[error(transparent)]
    Os(#[from] os::Error),
    /// Node certificate and key.
    #[error(transparent)]
    Identity(#[from] identity::Error),
    /// The home's files cannot be served.
    #[error(transparent)]
    Files(#[from] homefs::server::ServeError),
}

/// Runs a steward until its room ends. `args` are those behind the role's name.
pub fn main(args: &[String]) -> ExitCode {
    os::warm::keep_freed();
    let listening = |args: StewardArgs| {
        os::fault::listen(&args.run_dir);
        setup::run(args)
    };
    match StewardArgs::parse(args).map_err(StewardError::from).and_then(listening) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            tracing::error!("steward: {e}");
            ExitCode::FAILURE
        }
    }
}
