//! The steward: the home's side of one room. It serves the home's files to the room, and has the
//! room's deputies run what must be run at home.
//!
//! [`setup`] makes the steward; [`connection`] lets the warden in; [`frames`] takes what the room
//! sends, in several threads that serve files with borrowed rights; [`control`] answers the daemon;
//! [`event_loop`] alone keeps the steward's privileges, hears the deputies and obeys the orders of
//! the other threads; [`watchdog_keeper`] replaces a watchdog that died.
//!
//! This is the top layer: it imports all others, and none imports it.

mod connection;
mod control;
mod crossing;
mod event_loop;
mod frames;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
mod replies;
mod setup;
mod watchdog_keeper;

use crate::room::args::{ArgsError, StewardArgs};

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
