//! FIFOs of home's that guests have opened by name.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// Inode numbers of the FIFOs that were opened by name; of which file systems, is not said, so that
/// others may have the same.
#[derive(Debug, Default)]
pub struct Fifos(Mutex<HashSet<u64>>);

impl Fifos {
    /// The most that are remembered; of others it is not known what they are.
    pub const MAX: usize = 1 << 16;

    /// One is opened.
    pub fn add(&self, inode: u64) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < Self::MAX {
            all.insert(inode);
        }
    }

    /// A file of this number may be one.
    pub fn may_be(&self, inode: u64) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&inode)
    }
}
