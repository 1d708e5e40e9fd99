//! Files that name rooms: sockets and notes in the directory of rooms.

use std::path::Path;

use control_protocol::paths::rooms_dir;
use control_protocol::steward::RoomId;

/// Ids of the rooms with a file of this kind.
pub(crate) fn ids(run_dir: &Path, kind: &str) -> Vec<RoomId> {
    let Ok(entries) = std::fs::read_dir(rooms_dir(run_dir)) else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|e| {
            let name = e.file_name().into_string().ok()?;
            let (id, suffix) = name.split_once('.')?;
            (suffix == kind).then(|| parse(id)).flatten()
        })
        .collect()
}

fn parse(hex: &str) -> Option<RoomId> {
    (hex.len() == 32).then_some(())?;
    u128::from_str_radix(hex, 16).ok().map(|n| RoomId(n.to_be_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_ids_survive_file_names() {
        let id = RoomId([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255]);
        assert_eq!(parse(&id.to_string()), Some(id));
        assert_eq!(parse("+0"), None);
        assert_eq!(parse(&"g".repeat(32)), None);
    }
}
