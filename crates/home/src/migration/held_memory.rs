//! Files that a process has mapped shared in the room, and that home holds for it: whether home's
//! processes may open them while the process moves.

use crate::describe::snapshot::ProcessSnapshot;
use crate::migration::error::MoveError;
use crate::migration::session::MigrationSession;
use crate::room::event::RoomEvent;
use crate::room::orders::{HomeCall, Order};
use checkpoint::BodyError;
use image::{Content, Image};
use migration_plan::protocol::{HomeCommand, Side};
use room_protocol::ToRoom;
use room_protocol::message::Errand;
use std::ffi::OsStr;
use std::fmt::Display;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

impl MigrationSession {
    /// Has home hold the files that the process has mapped shared and writable: it runs yet.
    ///
    /// # Errors
    /// Another process has one of them open.
    pub fn reserve_mapped(&self, observed: &ProcessSnapshot) -> Result<(), BodyError> {
        for file in observed.stored_in() {
            let name = String::from_utf8_lossy(&file.path);
            let stays = |why: &dyn Display| {
                BodyError::NotMigratable(format!("it has {name} mapped shared and writable: {why}"))
            };
            let Some(server) = self.room.link.files() else { return Err(stays(&"the room is gone")) };
            let path = Path::new(OsStr::from_bytes(&file.path));
            let reserved = server.reserve(path, file.inode, &[self.pid]).map_err(|e| stays(&e))?;
            self.reserved.borrow_mut().push(reserved);
        }
        Ok(())
    }

    /// The process stands still, and the room may open those files. `observed`: what the process
    /// was when they were reserved; `now`: what it is. Returns false if another process has opened
    /// one meanwhile.
    pub fn settle_mapped(&self, observed: &ProcessSnapshot, now: &ProcessSnapshot) -> bool {
        let reserved = self.reserved.borrow();
        let Some(server) = self.room.link.files().filter(|_| !reserved.is_empty()) else { return true };
        let new = now.new_since(observed);
        reserved.iter().all(|file| server.settle(file, &new))
    }

    /// The process runs in the room.
    pub fn mapped_there(&self) {
        let Some(server) = self.room.link.files() else { return };
        self.reserved.take().iter().for_each(|file| server.arrived(file));
    }

    /// The process stays at home.
    pub fn mapped_here(&self) {
        let Some(server) = self.room.link.files() else { return };
        self.reserved.take().iter().for_each(|file| server.call_off(file));
    }

    /// What it and its family have mapped in the room is written back, and they stand still: home's
    /// processes may open it, and it may itself.
    pub fn let_go_held(&self, image: &Image) {
        let Some(server) = self.room.link.files() else { return };
        let is_mapped = |place: usize| {
            image
                .areas
                .iter()
                .any(|area| matches!(area.content, Content::File { file, .. } if file as usize == place && area.shared))
        };
        for (n, file) in image.files.iter().enumerate() {
            if is_mapped(n) && server.let_go_held_at(Path::new(OsStr::from_bytes(&file.path)), file.inode) {
                self.let_go.borrow_mut().push(file.clone());
            }
        }
    }

    /// It stays in the room, and what it has mapped there is to be its own again, or it has to come
    /// after all.
    fn hold_again(&self) {
        let Some(server) = self.room.link.files() else { return };
        for file in self.let_go.take() {
            if !server.hold_at(Path::new(OsStr::from_bytes(&file.path)), file.inode) {
                let errand = Errand::call_on(libc::SYS_mmap as u32, &file.path);
                self.room.poller.order(Order::BringHome(HomeCall { pid: self.pid, first: None, errand }));
            }
        }
    }

    /// Has the process go on in the room.
    pub fn stay(&self) -> Result<(), MoveError> {
        self.hold_again();
        self.decide(HomeCommand::Resume, &ToRoom::Resume { pid: self.pid })?;
        self.send_signals_on();
        if !self.protocol.get().is_settled() {
            let _ = self.expect(|heard| matches!(heard, RoomEvent::Whole(_)).then_some(Ok(())));
        }
        Ok(())
    }

    /// Whether the process runs in the room, which owes nothing: another try may begin.
    pub fn has_stayed(&self) -> bool {
        let protocol = self.protocol.get();
        protocol.owner() == Side::Room && protocol.is_settled()
    }
}
