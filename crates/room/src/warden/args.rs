//! What a daemon tells a warden that it starts.

use control_protocol::steward::RoomKind;
use os::id_ranges::IdRange;
use std::net::SocketAddr;
use std::path::PathBuf;
use thiserror::Error;

/// `--room ID --home NODE --connect ADDR:PORT --owner UID --id-range N --rooms-memory BYTES
/// --run-dir DIR --state DIR [--node-local [--node-root]]`
#[derive(Clone, Debug)]
pub struct WardenArgs {
    /// Name of the room, 32 hexadecimal digits.
    pub room: [u8; 16],
    /// Whose room it is.
    pub home: String,
    /// Where the home's daemon listens.
    pub connect: SocketAddr,
    /// Ids of its processes here, which no other room has.
    pub ids: IdRange,
    /// Memory that all rooms of this node together may have, bytes.
    pub rooms_memory_bytes: u64,
    /// The kind of the room.
    pub kind: RoomKind,
    /// Directory of sockets.
    pub run_dir: PathBuf,
    /// Directory of the node's identity.
    pub state: PathBuf,
}

/// The command line is none of a warden's.
#[derive(Debug, Error)]
#[error("warden: {0}")]
pub struct ArgsError(String);

impl WardenArgs {
    /// Reads the words behind the role's name.
    pub fn parse(words: &[String]) -> Result<WardenArgs, ArgsError> {
        let value = |name: &str| {
            let at = words.iter().position(|w| w == name).ok_or_else(|| ArgsError(format!("{name} is missing")))?;
            words.get(at + 1).cloned().ok_or_else(|| ArgsError(format!("{name} has no value")))
        };
        let connect = value("--connect")?;
        let number = |name: &str| {
            let text = value(name)?;
            text.parse::<u64>().map_err(|e| ArgsError(format!("{name} {text}: {e}")))
        };
        let id = |name: &str| {
            let id = number(name)?;
            u32::try_from(id).map_err(|_| ArgsError(format!("{name} {id}: too large")))
        };
        Ok(WardenArgs {
            room: room_id(&value("--room")?).ok_or_else(|| ArgsError("--room is no room's name".into()))?,
            home: value("--home")?,
            ids: match words.iter().any(|word| word == "--node-root") {
                true => IdRange::of_machine(),
                false => IdRange::new(id("--id-range")?, id("--owner")?).map_err(|e| ArgsError(e.to_string()))?,
            },
            rooms_memory_bytes: number("--rooms-memory")?,
            connect: connect.parse().map_err(|e| ArgsError(format!("--connect {connect}: {e}")))?,
            kind: if words.iter().any(|word| word == "--node-local") { RoomKind::NodeLocal } else { RoomKind::Home },
            run_dir: value("--run-dir")?.into(),
            state: value("--state")?.into(),
        })
    }
}

fn room_id(hex: &str) -> Option<[u8; 16]> {
    if hex.len() != 32 || !hex.is_ascii() {
        return None;
    }
    let mut id = [0; 16];
    for (i, byte) in id.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).ok()?;
    }
    Some(id)
}
