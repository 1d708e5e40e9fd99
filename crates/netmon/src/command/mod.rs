//! The command `tern netmon`.

mod args;
mod monitor;
mod plot;
mod show;
mod sinks;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use args::Args;

use crate::cluster::Cluster;
use crate::file::{self, Recording};

/// Why the command failed.
#[derive(Debug, thiserror::Error)]
enum Error {
    /// A file cannot be read or written.
    #[error("cannot {doing} {}: {source}", path.display())]
    File {
        /// The step that failed.
        doing: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file is no recording.
    #[error("{}: {source}", path.display())]
    Recording {
        /// Path of the file.
        path: PathBuf,
        /// Why it is none.
        source: file::Error,
    },
    /// A sampler cannot be started, or has failed.
    #[error("the {name} sampler failed")]
    Sampler {
        /// Name of the sampler.
        name: &'static str,
    },
}

/// Runs the command. Gives the exit status.
pub fn main(args: &Args, cluster: Arc<dyn Cluster>) -> u8 {
    let done = match &args.what {
        Some(args::What::Plot(plot)) => plot::plot(plot),
        Some(args::What::Show(show)) => show::show(show),
        None => monitor::monitor(args, &cluster),
    };
    match done {
        Ok(()) => 0,
        Err(e) => {
            eprintln!("tern: netmon: {e}");
            1
        }
    }
}

/// Reads a recording, and says if its end is missing.
fn read(path: &Path) -> Result<Recording, Error> {
    let bytes = std::fs::read(path).map_err(|source| Error::File { doing: "read", path: path.into(), source })?;
    let recording = file::read(&bytes).map_err(|source| Error::Recording { path: path.into(), source })?;
    if recording.torn_bytes > 0 {
        eprintln!(
            "tern: netmon: {}: the last {} bytes are torn and are left out",
            path.display(),
            recording.torn_bytes
        );
    }
    Ok(recording)
}

/// Prints text. False: nobody reads any more (`tern netmon --json | head`).
fn print(text: &str) -> bool {
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes()).and_then(|()| output.flush()).is_ok()
}
