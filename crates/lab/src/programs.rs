//! The two programs of a lab: its own, and the tern that its nodes run.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Context, Error, Result};

/// Name of the program that holds the lab, the benchmarks and the simulator.
pub const LAB: &str = "tern-lab";
/// Name of the program that nodes need.
pub const TERN: &str = "tern";

/// The paths of both programs on this machine, in one directory.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Programs {
    /// `tern-lab`, which the lab's own processes run.
    pub lab: PathBuf,
    /// `tern`, which nodes run.
    pub tern: PathBuf,
}

impl Programs {
    /// Finds both programs, if this process is `tern-lab`.
    ///
    /// # Errors
    /// `tern` is not in the same directory.
    pub fn of_this_process() -> Result<Programs> {
        let lab: PathBuf = std::env::current_exe().context(|| "find this program")?;
        let tern = lab.with_file_name(TERN);
        match tern.is_file() {
            true => Ok(Programs { lab, tern }),
            false => Err(Error::Setup {
                who: "tern lab".into(),
                reason: format!("{} is missing: tern and tern-lab must be in one directory", tern.display()),
            }),
        }
    }

    /// Gives the path of the `tern-lab` that belongs to a `tern`.
    pub fn beside(tern: &Path) -> PathBuf {
        tern.with_file_name(LAB)
    }
}
