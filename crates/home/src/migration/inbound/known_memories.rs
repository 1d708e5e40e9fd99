//! Memories of the room that a process at home has already, when several come that share them.

use checkpoint::BodyError;
use room_protocol::message::MemoryId;
use std::collections::HashMap;
use std::os::fd::OwnedFd;

/// Memories that are here already.
#[derive(Default)]
pub struct KnownMemories(HashMap<MemoryId, OwnedFd>);

impl KnownMemories {
    /// Finds those of these memories that are here.
    pub fn of(&self, memories: &[MemoryId]) -> Vec<Option<&OwnedFd>> {
        memories.iter().map(|memory| self.0.get(memory)).collect()
    }

    /// Notes that these memories are here; `file` opens the one of each place.
    pub fn learn(
        &mut self,
        memories: &[MemoryId],
        file: impl Fn(usize) -> Result<Option<OwnedFd>, BodyError>,
    ) -> Result<(), BodyError> {
        for (place, memory) in memories.iter().enumerate() {
            if !self.0.contains_key(memory)
                && let Some(file) = file(place)?
            {
                self.0.insert(*memory, file);
            }
        }
        Ok(())
    }
}
