//! Files that a process has mapped shared in the room, and that home holds for it: whether home's
//! processes may open them while the process moves.

use crate::migration::error::MoveError;
use crate::migration::session::MigrationSession;
use crate::room::event::RoomEvent;
use crate::room::orders::{HomeCall, Order};
use image::{Content, Image};
use migration_plan::protocol::{HomeCommand, Side};
use room_protocol::ToRoom;
use room_protocol::message::Errand;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

impl MigrationSession {
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
