//! The steward's link to its room, and the server of home's files, which answers over it.

use crate::room::streams::HomeStreams;
use checkpoint::BodyError;
use homefs::server::Server;
use link::{Bulk, Sender};
use room_protocol::{Kind, ToRoom};
use std::sync::{Arc, OnceLock};

/// The two ends of a room's link at home; both are there once the warden has come.
#[derive(Default)]
pub struct RoomLink {
    /// The home ends of the room's streams.
    pub streams: HomeStreams,
    downlink: OnceLock<Arc<Sender>>,
    files: OnceLock<Arc<Server>>,
}

impl RoomLink {
    /// The sending end, once the warden has come.
    pub fn downlink(&self) -> Option<&Sender> {
        self.downlink.get().map(Arc::as_ref)
    }

    /// The sending end, to be kept by a thread.
    pub fn shared_downlink(&self) -> Option<Arc<Sender>> {
        self.downlink.get().cloned()
    }

    /// The home's files, once they are served.
    pub fn files(&self) -> Option<&Arc<Server>> {
        self.files.get()
    }

    /// Takes the sending end of the warden's connection.
    ///
    /// # Errors
    /// The room has its warden already, or a thread cannot be started.
    pub fn connect(&self, downlink: Sender) -> Result<(), String> {
        let downlink = Arc::new(downlink);
        downlink.write_posts().map_err(|e| format!("starting a thread: {e}"))?;
        self.downlink.set(downlink).map_err(|_| "the room has its warden already".to_owned())
    }

    /// Takes the server of the home's files.
    pub fn serve(&self, files: Arc<Server>) {
        let _ = self.files.set(files);
    }

    /// Milliseconds since the room's node was heard last, if its kernel owes an answer.
    pub fn silent_ms(&self) -> Option<u64> {
        let silence = self.downlink().and_then(Sender::silence)?;
        Some(silence.as_millis() as u64)
    }

    /// Tells the room something, after all that has changed in the home's files until now.
    pub fn tell(&self, message: &ToRoom) {
        let Some(downlink) = self.downlink() else { return };
        // Bytes that have come for a process go before this message.
        self.streams.flush(self);
        let seq = self.files().map_or(0, |files| files.flush_events());
        match postcard::to_stdvec(message) {
            // A link that fails is noticed by its receiver.
            Ok(bytes) => drop(downlink.send(Kind::Message, 0, seq, &[&bytes])),
            Err(e) => tracing::error!("encoding a message to the room: {e}"),
        }
    }

    /// Sends a frame of a stream, after all that has changed in the home's files until now.
    pub fn send_stream(&self, frame: &[u8]) {
        let Some(downlink) = self.downlink() else { return };
        let seq = self.files().map_or(0, |files| files.flush_events());
        // A link that fails is noticed by its receiver.
        drop(downlink.send(Kind::Stream, 0, seq, &[frame]));
    }

    /// Sends a frame that belongs to a move.
    ///
    /// # Errors
    /// The link is gone: the process stays.
    pub fn send_frame(&self, kind: Kind, parts: &[&[u8]]) -> Result<(), BodyError> {
        self.connected()?.send(kind, 0, 0, parts).map_err(failed)
    }

    /// Sends a frame of pages as its stream wants it; the bytes that it took on the link.
    ///
    /// # Errors
    /// The link is gone: the process stays.
    pub fn send_pages(&self, bulk: &mut Bulk, kind: Kind, parts: &[&[u8]]) -> Result<u64, BodyError> {
        bulk.send(self.connected()?, kind, parts).map_err(failed)
    }

    fn connected(&self) -> Result<&Sender, BodyError> {
        self.downlink().ok_or_else(|| BodyError::NotMigratable("the link to the room is gone".into()))
    }
}

fn failed(e: link::LinkError) -> BodyError {
    BodyError::NotMigratable(format!("the link to the room: {e}"))
}
