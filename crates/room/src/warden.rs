//! The warden: the room's side towards its home. One process per room, outside the room's
//! namespaces.

pub mod args;
pub mod from_home;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
pub mod limits;
pub mod report;
pub mod setup;
pub mod uplink;

pub use crate::warden::args::{ArgsError, WardenArgs};

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
