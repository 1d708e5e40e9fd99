//! What a daemon tells a warden that it starts.

use std::net::SocketAddr;
use std::path::PathBuf;
use thiserror::Error;

/// `--room ID --home NODE --connect ADDR:PORT --run-dir DIR --state DIR`
#[derive(Clone, Debug)]
pub struct WardenArgs {
    /// Name of the room, 32 hexadecimal digits.
    pub room: [u8; 16],
    /// Whose room it is.
    pub home: String,
    /// Where the home's daemon listens.
    pub connect: SocketAddr,
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
        Ok(WardenArgs {
            room: room_id(&value("--room")?).ok_or_else(|| ArgsError("--room is no room's name".into()))?,
            home: value("--home")?,
            connect: connect.parse().map_err(|e| ArgsError(format!("--connect {connect}: {e}")))?,
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
