//! A deputy that is stopped as soon as its body stands still, while the room still looks at that:
//! it is ready to be filled when the image comes.

use crate::migration::error::MoveError;
use crate::migration::inbound::prelaid::PrelaidMemory;
use crate::migration::session::MigrationSession;
use checkpoint::{BodyError, Collected};
use image::Image;
use os::areas::Area;
use os::inject::REGION_BYTES;
use std::time::Duration;

/// How long its threads may take to be ready: the room looks at the body meanwhile, and is done
/// soon.
const IDLE_WITHIN: Duration = Duration::from_millis(20);

/// A process that is stopped and looked at.
pub struct EarlyStop {
    /// The way into it.
    pub deputy: Collected,
    /// The areas of its memory.
    pub areas: Vec<Area>,
    /// TIDs of its threads.
    tids: Vec<i32>,
    /// Calls are made in it from here on, [`REGION_BYTES`].
    region: u64,
}

impl MigrationSession {
    /// The body, which has these threads, stands still and makes no call any more. A deputy that is
    /// not ready for it is stopped when the image is there.
    pub fn stop_early(&self, tids: Vec<i32>, laid: Option<&PrelaidMemory>) -> Option<EarlyStop> {
        let mut tids = tids;
        tids.sort_unstable();
        let early = self.stop_deputy(&tids, &[], IDLE_WITHIN);
        let Ok((mut deputy, areas)) = early else { return None };
        let region = deputy.first().and_then(|inside| inside.region()).unwrap_or(0);
        let early = EarlyStop { deputy, areas, tids, region };
        let ahead = laid.into_iter().flat_map(PrelaidMemory::areas).map(|area| (area.start, area.end));
        if early.is_clear_of(ahead) {
            return Some(early);
        }
        early.undo().ok();
        None
    }

    /// Stops the deputy, which has these threads, and enters it: calls are made from where none of
    /// these areas is.
    pub fn stop_deputy(
        &self,
        tids: &[i32],
        beside: &[image::Area],
        within: Duration,
    ) -> Result<(Collected, Vec<Area>), MoveError> {
        let frozen = self.stop_idle(tids, within)?;
        let areas = match os::areas::read(self.pid) {
            Ok(areas) => areas,
            Err(e) => {
                frozen.thaw();
                return Err(e.into());
            }
        };
        // The place must be free of both memories: those of the image count as taken too.
        let mut taken = areas.clone();
        taken.extend(beside.iter().map(|a| Area { start: a.start, end: a.end, ..Default::default() }));
        let known = checkpoint::Known { areas: &taken, ignored: 0, slept: &checkpoint::Slept::new(), witness: None };
        let collected = checkpoint::collect(self.pid, frozen.threads, known, Ok, || {});
        let deputy = collected.map_err(|(e, threads)| {
            threads.into_iter().for_each(|t| drop(t.detach(0)));
            e
        })?;
        Ok((deputy, areas))
    }
}

impl EarlyStop {
    /// Tells whether the stopped deputy serves this image.
    pub fn serves(&self, image: &Image, tids: &[i32]) -> bool {
        self.tids == tids && self.is_clear_of(image.areas.iter().map(|a| (a.start, a.end)))
    }

    /// The calls that are made in it are not made from where any of these areas must be.
    fn is_clear_of(&self, areas: impl Iterator<Item = (u64, u64)>) -> bool {
        let mut areas = areas;
        areas.all(|(start, end)| end <= self.region || self.region + REGION_BYTES <= start)
    }

    /// The deputy serves on.
    pub fn undo(self) -> Result<(), BodyError> {
        self.deputy.give_back()?.into_iter().try_for_each(|t| Ok(t.detach(0)?))
    }
}
