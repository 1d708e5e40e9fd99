//! Whose process it is.

use std::os::unix::fs::MetadataExt as _;

use packet::Peer;

use crate::Error;

/// User of the process, if it is the one who asks, or root asks.
pub(crate) fn owner_or_root(peer: Peer, pid: i32, what: &'static str) -> Result<u32, Error> {
    let path = format!("/proc/{pid}");
    let owner = std::fs::metadata(&path).map_err(|e| Error::file("find process", path, e))?.uid();
    if peer.uid == 0 || peer.uid == owner { Ok(owner) } else { Err(Error::NotAllowed { what }) }
}
