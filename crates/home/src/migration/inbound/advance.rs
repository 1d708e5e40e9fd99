//! Of a process that comes home, pages of files' copies can neither be laid out in its deputy ahead
//! nor follow, for the kernel does not watch what is missing of them. They come while it runs
//! still; those that are the same when it stops need not come again
//! ([`crate::migration::leftover`]).

use crate::migration::error::MoveError;
use crate::migration::session::MigrationSession;
use crate::room::event::RoomEvent;
use migration_plan::Pace;
use room_protocol::ToRoom;
use room_protocol::message::onward::{Order, Said};
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of the next try.
static NUMBER: AtomicU32 = AtomicU32::new(1);

impl MigrationSession {
    /// Has them come. Without them the process stands still for longer. An error: it does not come
    /// at all.
    pub fn come_in_advance(&self, pace: Pace) -> Result<(), MoveError> {
        let come = self.take_in_advance(pace);
        self.done("advance");
        if come.is_err() {
            // What the room counts on must be here.
            self.withdraw_leftover();
        }
        match come {
            Err(e @ (MoveError::CalledOff | MoveError::Silent(_))) => Err(e),
            Err(e) => {
                tracing::debug!("process {}: nothing comes in advance: {e}", self.pid);
                self.check_wanted()
            }
            Ok(()) => self.check_wanted(),
        }
    }

    fn take_in_advance(&self, pace: Pace) -> Result<(), MoveError> {
        os::fault::at("advance")?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        self.leftover.borrow_mut().get_or_insert_default().recall();
        self.room.tell(&ToRoom::Onward { pid: self.pid, order: Order::Advance { number, pace } });
        let mut taken = Ok(());
        loop {
            match self.hear()? {
                RoomEvent::Advance(of, pages) if of == number => {
                    self.count(pages.bytes().len() as u64);
                    if !self.leftover.borrow_mut().get_or_insert_default().advance(&pages.runs, pages.bytes()) {
                        taken = Err("the room sends more than it may".to_owned());
                    }
                }
                RoomEvent::Onward(Said::Advanced { number: of, result }) if of == number => {
                    return taken.and(result).map_err(MoveError::Room);
                }
                _ => {}
            }
        }
    }
}
