//! The home's files for this room: with whose rights, and which way the answers go.

use super::shared::Shared;
use homefs::invalidation::Invalidation;
use homefs::offer::Offer;
use homefs::server::{Callers, Credentials, Outlet};
use std::sync::{Arc, Weak};
use wire::Kind;

/// Answers go over the room's link.
pub struct ToTheRoom(pub Arc<Shared>);

impl Outlet for ToTheRoom {
    fn reply(&self, mount: u16, bytes: &[u8], seq: u64) {
        if let Some(downlink) = self.0.downlink.get() {
            let _ = downlink.send(Kind::Fuse, mount, seq, &[bytes]);
        }
    }

    fn invalidate(&self, seq: u64, invalidation: &Invalidation) {
        let mut bytes = Vec::with_capacity(64);
        invalidation.encode(&mut bytes);
        if let Some(downlink) = self.0.downlink.get() {
            let _ = downlink.send(Kind::Invalidate, 0, seq, &[&bytes]);
        }
    }

    fn offer(&self, seq: u64, offer: &Offer) {
        let mut bytes = Vec::with_capacity(128);
        offer.encode(&mut bytes);
        if let Some(downlink) = self.0.downlink.get() {
            let _ = downlink.send(Kind::Offer, 0, seq, &[&bytes]);
        }
    }
}

/// The rights of the deputies whose bodies are in the room, and no others, whatever the hosting node says.
pub struct Hosted(pub Weak<Shared>);

/// Who owns nothing: for the porter, which only finds the places to mount on.
const NOBODY: u32 = 65534;
/// The porter's number in its room.
const PORTER: u32 = 1;

impl Callers for Hosted {
    fn credentials(&self, tid: u32, uid: u32, gid: u32) -> Option<Credentials> {
        let shared = self.0.upgrade()?;
        let table = shared.table();
        let matches = |d: &&super::deputies::Deputy| d.credentials.uid[1] == uid && d.credentials.gid[1] == gid;
        let by_thread = table.deputies.values().find(|d| d.threads.contains_key(&(tid as i32))).filter(matches);
        let found = by_thread.or_else(|| table.deputies.values().find(matches));
        let coming = table.coming.get(&(tid as i32)).filter(|(c, _)| c.uid[1] == uid && c.gid[1] == gid);
        if let (None, Some((credentials, caps))) = (found, coming) {
            return Some(Credentials { uid, gid, groups: Arc::from(credentials.groups.as_slice()), caps: *caps });
        }
        if found.is_none() && (tid == PORTER || tid == 0) {
            return Some(Credentials { uid: NOBODY, gid: NOBODY, groups: Arc::from([]), caps: 0 });
        }
        found.map(|d| Credentials {
            uid,
            gid,
            groups: Arc::from(d.credentials.groups.as_slice()),
            caps: d.capabilities,
        })
    }
}
