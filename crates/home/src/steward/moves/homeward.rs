//! Pre-copy homeward: memory of a body that runs in the room comes ahead, and is laid out in its
//! deputy beside what that needs, while it still does what the body wants done.

use super::{Heard, Move, MoveError};
use crate::steward::shared::Shared;
use checkpoint::{BodyError, Course, Dense, Run};
use control_protocol::moves::{How, Parts, Stage, Wish};
use image::{Area, Image};
use os::inject::Memory;
use room_protocol::ToRoom;
use room_protocol::message::onward::{self, Order, Said, Ticket, Went};
use std::sync::atomic::{AtomicU64, Ordering};

/// Memory of the body in its deputy.
pub struct Laid {
    pid: i32,
    areas: Vec<Area>,
    memory: Memory,
}

impl Laid {
    /// Lays these areas out, empty. Children of the deputy do not get them.
    fn out(room: &Shared, pid: i32, areas: Vec<Area>) -> Result<Laid, BodyError> {
        os::fault::at("lay out ahead")?;
        let memory = Memory::of(pid)?;
        room.visit_deputy(pid, |inside| checkpoint::map_beside(inside, &areas))?;
        Ok(Laid { pid, areas, memory })
    }

    /// The areas of the memory.
    pub fn areas(&self) -> &[Area] {
        &self.areas
    }

    /// They, which are somebody else's to take away from now on.
    pub fn into_areas(self) -> Vec<Area> {
        self.areas
    }

    fn write(&self, runs: &[Run], pages: &[u8]) -> Result<Memory, BodyError> {
        checkpoint::put_pages(runs, pages, &self.areas, &[], &self.memory)?;
        Ok(self.memory.clone())
    }

    /// The deputy as it was.
    pub fn undo(self) {
        let undone = checkpoint::visit_at_length(self.pid, |inside| checkpoint::unmap_beside(inside, &self.areas));
        // One that has ended has no memory.
        if let Err(e) = undone.or_else(|e| if matches!(e, BodyError::Gone) { Ok(()) } else { Err(e) }) {
            tracing::warn!("process {}: memory that was to come home stays in its deputy: {e}", self.pid);
        }
    }
}

/// What has come ahead.
pub struct Ahead {
    /// Where it lies.
    pub laid: Laid,
    /// In which try: the room knows what else is to come.
    pub ticket: Ticket,
    /// How it came.
    pub course: Course,
}

/// Comes ahead now.
struct Coming<'a> {
    room: &'a Shared,
    image: Vec<u8>,
    laid: Option<Laid>,
    dense: Dense,
}

impl<'a> Coming<'a> {
    fn new(room: &'a Shared) -> Coming<'a> {
        Coming { room, image: Vec::new(), laid: None, dense: Dense::default() }
    }

    /// Its place in the deputy; the image is whole when anything else comes.
    fn laid(&mut self, pid: i32) -> Result<&Laid, MoveError> {
        if self.laid.is_none() {
            let image = Image::decode(&self.image).map_err(|e| MoveError::Room(e.to_string()))?;
            let lies_wrong = |a: &Area| a.content != image::Content::Anonymous || a.shared;
            if image.process.pid != pid || image.areas.iter().any(lies_wrong) {
                return Err(MoveError::Room("what it sends ahead is not the process' own".into()));
            }
            self.laid = Some(Laid::out(self.room, pid, image.areas)?);
        }
        self.laid.as_ref().ok_or(MoveError::Body(BodyError::Gone))
    }

    fn write(&mut self, pid: i32, runs: &[Run], pages: &[u8]) -> Result<(), MoveError> {
        let memory = self.laid(pid)?.write(runs, pages)?;
        self.dense.follow(&memory, runs);
        Ok(())
    }

    /// These come, and are full.
    fn expect_dense(&mut self, pid: i32, runs: &[Run]) -> Result<(), MoveError> {
        if !checkpoint::lie_within(runs, self.laid(pid)?.areas()) {
            return Err(MoveError::Room("pages lie in no area of the image".into()));
        }
        self.dense.expect(runs);
        Ok(())
    }
}

impl Move {
    /// Has the memory come ahead, if that is wanted or makes the stop shorter, and can be.
    pub(super) fn come_ahead(&self, wish: Wish) -> Result<Option<Ahead>, MoveError> {
        let tries: &[bool] = match wish.how {
            How::Auto => &[false, true],
            How::Pre => &[true],
            How::Stop | How::Post | How::Flush => &[],
        };
        for watched in tries {
            match self.try_ahead(wish, *watched) {
                Ok(ahead) => return Ok(Some(ahead)),
                Err(e @ (MoveError::CalledOff | MoveError::Silent(_))) => return Err(e),
                Err(e) if wish.how == How::Pre => return Err(e),
                Err(e) => tracing::debug!("process {} comes home without its memory ahead: {e}", self.pid),
            }
        }
        Ok(None)
    }

    fn try_ahead(&self, wish: Wish, watched: bool) -> Result<Ahead, MoveError> {
        os::fault::at("come ahead")?;
        let ticket = next_ticket();
        let (fixed_us, bytes_per_s) =
            self.room.moves.costs("home", "pre", Parts::default()).limited(wish.pace.rate).parts();
        let ahead = onward::Ahead {
            ticket,
            max_freeze_us: wish.max_freeze_us,
            fixed_us,
            bytes_per_s,
            pace: wish.pace,
            watched,
            files_alone: false,
        };
        let taken = os::areas::read(self.pid)?.iter().map(|a| (a.start, a.end)).collect();
        let order = Order::Homeward(onward::Homeward { ahead, taken });
        self.room.tell(&ToRoom::Onward { pid: self.pid, order });
        let mut coming = Coming::new(&self.room);
        match self.take_ahead(&mut coming, ticket) {
            Ok(course) => {
                coming.laid(self.pid)?;
                let laid = coming.laid.ok_or(BodyError::Gone)?;
                Ok(Ahead { laid, ticket, course })
            }
            Err(e) => {
                // One that was only slow must not send into the next try.
                self.room.tell(&ToRoom::Onward { pid: self.pid, order: Order::Enough });
                coming.laid.into_iter().for_each(Laid::undo);
                Err(e)
            }
        }
    }

    /// Takes what comes until the room says that this is all. Whatever fails meanwhile, it is heard
    /// to the end.
    fn take_ahead(&self, coming: &mut Coming<'_>, ticket: Ticket) -> Result<Course, MoveError> {
        let mut outcome: Result<(), MoveError> = Ok(());
        loop {
            match self.hear()? {
                Heard::Onward(Said::Sends { own_bytes }) => self.gauge.begin(Stage::Ahead, own_bytes),
                Heard::Part(part, _) if coming.image.len() + part.len() <= image::IMAGE_BYTES_MAX => {
                    coming.image.extend(part);
                }
                // What comes before its image was under way for a try that was given up.
                Heard::Pages(_) | Heard::There(_) | Heard::Dense(_) if coming.image.is_empty() => {}
                Heard::Pages(pages) => {
                    let bytes = pages.bytes().len() as u64;
                    self.count(bytes);
                    if outcome.is_ok() {
                        outcome = self.check_wanted().and_then(|()| coming.write(self.pid, &pages.runs, pages.bytes()));
                        if outcome.is_err() {
                            self.room.tell(&ToRoom::Onward { pid: self.pid, order: Order::Enough });
                        }
                    }
                    self.room.tell(&ToRoom::Taken { pid: self.pid, bytes });
                }
                Heard::Dense(runs) if outcome.is_ok() => outcome = coming.expect_dense(self.pid, &runs),
                Heard::There(runs) if outcome.is_ok() => {
                    let write = |runs: &[Run], pages: &[u8]| coming.write(self.pid, runs, pages);
                    outcome = self.check_wanted().and_then(|()| self.write_leftover(&runs, write));
                    if outcome.is_err() {
                        self.room.tell(&ToRoom::Onward { pid: self.pid, order: Order::Enough });
                    }
                }
                Heard::Onward(Said::Ahead { ticket: of, result }) if of == ticket => {
                    self.done("ahead");
                    outcome?;
                    let Went { rounds, outrun } = result.map_err(MoveError::NotAhead)?;
                    return Ok(Course { rounds, outrun });
                }
                _ => {}
            }
        }
    }
}

/// No two tries of this steward have the same.
fn next_ticket() -> Ticket {
    static TRIES: AtomicU64 = AtomicU64::new(1);
    u128::from(TRIES.fetch_add(1, Ordering::Relaxed)).to_le_bytes()
}
