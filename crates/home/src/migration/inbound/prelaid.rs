//! Memory of a body, laid out in its deputy beside the deputy's own while the body still runs.

use crate::room::state::Room;
use checkpoint::{BodyError, Run};
use image::Area;
use os::inject::Memory;

/// Memory of the body in its deputy.
pub struct PrelaidMemory {
    pid: i32,
    areas: Vec<Area>,
    memory: Memory,
}

impl PrelaidMemory {
    /// Lays these areas out, empty. Children of the deputy do not inherit them.
    pub fn lay_out(room: &Room, pid: i32, areas: Vec<Area>) -> Result<PrelaidMemory, BodyError> {
        os::fault::at("lay out ahead")?;
        let memory = Memory::of(pid)?;
        room.visit_deputy(pid, |inside| checkpoint::map_beside(inside, &areas))?;
        Ok(PrelaidMemory { pid, areas, memory })
    }

    /// The areas of the memory.
    pub fn areas(&self) -> &[Area] {
        &self.areas
    }

    /// Gives up the areas: the caller unmaps them from now on.
    pub fn into_areas(self) -> Vec<Area> {
        self.areas
    }

    /// Writes pages to where they belong; the memory of the deputy, to be looked at.
    pub fn write(&self, runs: &[Run], pages: &[u8]) -> Result<Memory, BodyError> {
        checkpoint::put_pages(runs, pages, &self.areas, &[], &self.memory)?;
        Ok(self.memory.clone())
    }

    /// Unmaps the areas from the deputy.
    pub fn undo(self) {
        let undone = checkpoint::visit_at_length(self.pid, |inside| checkpoint::unmap_beside(inside, &self.areas));
        // One that has ended has no memory.
        if let Err(e) = undone.or_else(|e| if matches!(e, BodyError::Exited) { Ok(()) } else { Err(e) }) {
            tracing::warn!("process {}: memory that was to come home stays in its deputy: {e}", self.pid);
        }
    }
}
