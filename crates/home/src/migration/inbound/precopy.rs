//! Pre-copy homeward: memory of a body that runs in the room comes ahead, and is laid out in its
//! deputy beside what that needs, while it still does what the body wants done.

use crate::migration::error::MoveError;
use crate::migration::inbound::prelaid::PrelaidMemory;
use crate::migration::session::MigrationSession;
use crate::room::event::RoomEvent;
use crate::room::state::Room;
use checkpoint::{BodyError, Course, HugePageHints, Run};
use control_protocol::moves::{How, MoveOptions, Parts, Stage};
use image::{Area, Image};
use room_protocol::ToRoom;
use room_protocol::message::onward::{self, Order, Said, Ticket, Went};
use std::sync::atomic::{AtomicU64, Ordering};

/// Memory that came while the body ran.
pub struct ReceivedPrecopy {
    /// Where it lies.
    pub laid: PrelaidMemory,
    /// The try in which it came, by which the room knows what is left to come.
    pub ticket: Ticket,
    /// How it came.
    pub course: Course,
}

/// Memory that is coming while the body runs.
struct IncomingPrecopy<'a> {
    room: &'a Room,
    image: Vec<u8>,
    laid: Option<PrelaidMemory>,
    dense: HugePageHints,
}

impl<'a> IncomingPrecopy<'a> {
    fn new(room: &'a Room) -> IncomingPrecopy<'a> {
        IncomingPrecopy { room, image: Vec::new(), laid: None, dense: HugePageHints::default() }
    }

    /// Lays the memory out in the deputy at the first use, when the image is whole.
    fn laid(&mut self, pid: i32) -> Result<&PrelaidMemory, MoveError> {
        if self.laid.is_none() {
            let image = Image::decode(&self.image).map_err(|e| MoveError::Room(e.to_string()))?;
            let lies_wrong = |a: &Area| a.content != image::Content::Anonymous || a.shared;
            if image.process.pid != pid || image.areas.iter().any(lies_wrong) {
                return Err(MoveError::Room("what it sends ahead is not the process' own".into()));
            }
            self.laid = Some(PrelaidMemory::lay_out(self.room, pid, image.areas)?);
        }
        self.laid.as_ref().ok_or(MoveError::Body(BodyError::Exited))
    }

    fn write(&mut self, pid: i32, runs: &[Run], pages: &[u8]) -> Result<(), MoveError> {
        let memory = self.laid(pid)?.write(runs, pages)?;
        self.dense.follow(&memory, runs);
        Ok(())
    }

    /// Notes runs of pages that will all come, so that they may become huge pages.
    fn expect_dense(&mut self, pid: i32, runs: &[Run]) -> Result<(), MoveError> {
        if !checkpoint::lie_within(runs, self.laid(pid)?.areas()) {
            return Err(MoveError::Room("pages lie in no area of the image".into()));
        }
        self.dense.expect(runs);
        Ok(())
    }
}

impl MigrationSession {
    /// Has the memory come ahead, if that is wanted or makes the stop shorter, and can be.
    pub fn come_ahead(&self, options: MoveOptions) -> Result<Option<ReceivedPrecopy>, MoveError> {
        let tries: &[bool] = match options.how {
            How::Auto => &[false, true],
            How::Pre => &[true],
            How::Stop | How::Post | How::Flush => &[],
        };
        for watched in tries {
            match self.try_ahead(options, *watched) {
                Ok(ahead) => return Ok(Some(ahead)),
                Err(e @ (MoveError::CalledOff | MoveError::Silent(_))) => return Err(e),
                Err(e) if options.how == How::Pre => return Err(e),
                Err(e) => tracing::debug!("process {} comes home without its memory ahead: {e}", self.pid),
            }
        }
        Ok(None)
    }

    fn try_ahead(&self, options: MoveOptions, watched: bool) -> Result<ReceivedPrecopy, MoveError> {
        os::fault::at("come ahead")?;
        let ticket = next_ticket();
        let (fixed_us, bytes_per_s) =
            self.room.sessions.costs("home", "pre", Parts::default()).limited(options.pace.rate).parts();
        let ahead = onward::Ahead {
            ticket,
            max_freeze_us: options.max_freeze_us,
            fixed_us,
            bytes_per_s,
            pace: options.pace,
            watched,
            files_alone: false,
        };
        let taken = os::areas::read(self.pid)?.iter().map(|a| (a.start, a.end)).collect();
        let order = Order::Homeward(onward::Homeward { ahead, taken });
        self.room.tell(&ToRoom::Onward { pid: self.pid, order });
        let mut coming = IncomingPrecopy::new(&self.room);
        match self.take_ahead(&mut coming, ticket) {
            Ok(course) => {
                coming.laid(self.pid)?;
                let laid = coming.laid.ok_or(BodyError::Exited)?;
                Ok(ReceivedPrecopy { laid, ticket, course })
            }
            Err(e) => {
                // One that was only slow must not send into the next try.
                self.room.tell(&ToRoom::Onward { pid: self.pid, order: Order::Enough });
                coming.laid.into_iter().for_each(PrelaidMemory::undo);
                Err(e)
            }
        }
    }

    /// Takes what comes until the room says that this is all. Whatever fails meanwhile, it is heard
    /// to the end.
    fn take_ahead(&self, coming: &mut IncomingPrecopy<'_>, ticket: Ticket) -> Result<Course, MoveError> {
        let mut outcome: Result<(), MoveError> = Ok(());
        loop {
            match self.hear()? {
                RoomEvent::Onward(Said::Sends { own_bytes }) => self.progress.begin(Stage::Ahead, own_bytes),
                RoomEvent::Part(part, _) if coming.image.len() + part.len() <= image::IMAGE_BYTES_MAX => {
                    coming.image.extend(part);
                }
                // What comes before its image was under way for a try that was given up.
                RoomEvent::Pages(_) | RoomEvent::There(_) | RoomEvent::HugePageHints(_) if coming.image.is_empty() => {}
                RoomEvent::Pages(pages) => {
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
                RoomEvent::HugePageHints(runs) if outcome.is_ok() => outcome = coming.expect_dense(self.pid, &runs),
                RoomEvent::There(runs) if outcome.is_ok() => {
                    let write = |runs: &[Run], pages: &[u8]| coming.write(self.pid, runs, pages);
                    outcome = self.check_wanted().and_then(|()| self.write_leftover(&runs, write));
                    if outcome.is_err() {
                        self.room.tell(&ToRoom::Onward { pid: self.pid, order: Order::Enough });
                    }
                }
                RoomEvent::Onward(Said::Ahead { ticket: of, result }) if of == ticket => {
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
