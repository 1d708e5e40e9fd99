//! Where things are: names only.

use std::path::{Path, PathBuf};

/// Default directory of sockets.
pub const RUN_DIR: &str = "/run/tern";
/// Environment variable that moves it.
pub const RUN_ENV: &str = "TERN_RUN";
/// Environment variable that moves the state directory.
pub const STATE_ENV: &str = "TERN_STATE";
/// Port of daemons, TCP and UDP.
pub const PORT: u16 = 7437;

/// Gives the daemon's socket for the user's tool.
pub fn daemon_socket(run_dir: &Path) -> PathBuf {
    run_dir.join("ternd.sock")
}

/// Directory of the sockets of stewards and wardens.
pub fn rooms_dir(run_dir: &Path) -> PathBuf {
    run_dir.join("rooms")
}

/// Socket of a room's steward.
pub fn steward_socket(run_dir: &Path, room: crate::steward::RoomId) -> PathBuf {
    rooms_dir(run_dir).join(format!("{room}.steward"))
}

/// Socket of the warden of a room that is hosted here.
pub fn warden_socket(run_dir: &Path, room: crate::steward::RoomId) -> PathBuf {
    rooms_dir(run_dir).join(format!("{room}.warden"))
}

/// Directory of what has happened to this home's processes, a file for each.
pub fn history_dir(run_dir: &Path) -> PathBuf {
    run_dir.join("history")
}

/// Directory of logs.
pub fn log_dir(run_dir: &Path) -> PathBuf {
    run_dir.join("log")
}

/// The control group of all rooms that a node hosts.
pub const ROOMS_GROUP: &str = "tern-rooms";

/// Gives the control group of one room, below [`ROOMS_GROUP`].
pub fn room_group(room: crate::steward::RoomId) -> String {
    format!("{ROOMS_GROUP}/tern-{room}")
}
