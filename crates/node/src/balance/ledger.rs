//! What the parts of the daemon share about moving.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use ::policy::Mover;

use super::effective_speed;
use crate::placed::{self, Placed};

/// What the parts of the daemon share about moving.
#[derive(Default)]
pub(crate) struct Balance {
    /// Promises to others.
    pub(super) guests: Mutex<Mover>,
    /// What the policy placed.
    pub(crate) placed: Placed,
    /// What users put in scope.
    pub(crate) trees: Placed,
    /// Processes that the policy has moved.
    pub(crate) moved: AtomicU64,
    /// What this home's processes get elsewhere.
    pub(crate) speeds: effective_speed::ByNode,
}

impl Balance {
    pub(crate) fn load(run_dir: &Path) -> Balance {
        Balance {
            placed: Placed::load(run_dir, placed::PLACED),
            trees: Placed::load(run_dir, placed::TREES),
            ..Balance::default()
        }
    }
}
