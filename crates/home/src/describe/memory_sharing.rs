//! The memory that a process may share with others when it moves.

use crate::describe::descriptor_kind::is_memory;
use checkpoint::BodyError;
use image::File;
use os::areas::Shown;
use std::collections::HashSet;
use std::sync::Arc;

/// With which other processes a process that is looked at may share memory.
#[derive(Clone, Debug, Default)]
pub enum MemorySharing {
    /// With no other process.
    #[default]
    Refused,
    /// With those that move together with it, which the caller knows, as it knows their memories.
    Group(Arc<HashSet<Shown>>),
}

impl MemorySharing {
    /// Tells whether a descriptor is open on memory that moves with a group.
    pub fn takes(&self, pid: i32, fd: i32) -> bool {
        match self {
            MemorySharing::Refused => false,
            MemorySharing::Group(memories) => is_memory(pid, fd, memories),
        }
    }

    /// Checks that no file that is opened by its name is memory that moves with a group.
    pub fn check_files(&self, files: &[File]) -> Result<(), BodyError> {
        let MemorySharing::Group(memories) = self else { return Ok(()) };
        let is_memory = |file: &&File| file.removed && memories.iter().any(|(_, inode)| *inode == file.inode);
        match files.iter().find(is_memory) {
            Some(file) => {
                let name = String::from_utf8_lossy(&file.path);
                let why = format!("it has {name}, which has no name any more, open and mapped shared and writable");
                Err(BodyError::NotMigratable(why))
            }
            None => Ok(()),
        }
    }

    /// Tells whether no memory may be shared.
    pub fn is_refused(&self) -> bool {
        matches!(self, MemorySharing::Refused)
    }
}
