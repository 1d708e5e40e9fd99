//! What a daemon tells a steward that it starts.

use control_protocol::steward::{RoomId, RoomKind};
use std::net::SocketAddr;
use std::path::PathBuf;
use thiserror::Error;

/// `--room ID --host NODE --address ADDRESS --owner UID --lost-after MS --run-dir DIR --state DIR
/// [--node-local]`
#[derive(Clone, Debug)]
pub struct StewardArgs {
    /// Name of the room, 32 hexadecimal digits.
    pub room: String,
    /// Node that hosts the room.
    pub host: String,
    /// Where the daemon of that node listens; `None`: streams do not go to the room straight.
    pub address: Option<SocketAddr>,
    /// The user whose processes the room has.
    pub owner: u32,
    /// The room is lost when its node has been out of reach for so long, milliseconds.
    pub lost_after_ms: u32,
    /// The kind of the room.
    pub kind: RoomKind,
    /// Directory of sockets.
    pub run_dir: PathBuf,
    /// Directory of the node's identity.
    pub state: PathBuf,
}

/// The command line is none of a steward's.
#[derive(Debug, Error)]
#[error("steward: {0}")]
pub struct ArgsError(String);

impl StewardArgs {
    /// Where the steward listens to the daemon.
    pub fn socket(&self) -> PathBuf {
        self.run_dir.join("rooms").join(format!("{}.steward", self.room))
    }

    /// Gives the number of the room.
    pub fn room_id(&self) -> Option<RoomId> {
        let byte = |at: usize| u8::from_str_radix(self.room.get(2 * at..2 * at + 2)?, 16).ok();
        let mut id = [0; 16];
        for (at, to) in id.iter_mut().enumerate() {
            *to = byte(at)?;
        }
        Some(RoomId(id))
    }

    /// Refuses a process of another user than the room's, with these user ids (real first).
    ///
    /// # Errors
    /// The reason, in words.
    pub fn check_owner(&self, pid: i32, uids: &[u32]) -> Result<(), String> {
        let owner = os::process::owner(uids);
        if owner == self.owner {
            return Ok(());
        }
        Err(format!("process {pid} is user {owner}'s, and this room has user {}'s processes alone", self.owner))
    }

    /// Refuses a move from the room or to it: in node-local mode a process has what only its node
    /// has.
    ///
    /// # Errors
    /// The reason, in words.
    pub fn check_moves(&self) -> Result<(), String> {
        match self.kind {
            RoomKind::Home => Ok(()),
            RoomKind::NodeLocal => Err(format!("it is in node-local mode on {}, and stays there", self.host)),
        }
    }

    /// Reads the words behind the role's name.
    pub fn parse(words: &[String]) -> Result<StewardArgs, ArgsError> {
        let value = |name: &str| {
            let at = words.iter().position(|w| w == name).ok_or_else(|| ArgsError(format!("{name} is missing")))?;
            words.get(at + 1).cloned().ok_or_else(|| ArgsError(format!("{name} has no value")))
        };
        let room = value("--room")?;
        if room.len() != 32 || !room.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(ArgsError("--room is no room's name".into()));
        }
        let number = |name: &str| {
            let text = value(name)?;
            text.parse::<u32>().map_err(|e| ArgsError(format!("{name} {text}: {e}")))
        };
        Ok(StewardArgs {
            room,
            owner: number("--owner")?,
            lost_after_ms: number("--lost-after")?,
            host: value("--host")?,
            address: value("--address").ok().and_then(|text| text.parse().ok()),
            kind: if words.iter().any(|word| word == "--node-local") { RoomKind::NodeLocal } else { RoomKind::Home },
            run_dir: value("--run-dir")?.into(),
            state: value("--state")?.into(),
        })
    }
}
