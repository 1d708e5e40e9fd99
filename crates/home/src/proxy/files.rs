//! The home's files for this room: with whose rights, and which way the answers go.

use crate::deputy::table::DeputyTable;
use crate::room::state::Room;
use homefs::invalidation::Invalidation;
use homefs::offer::Offer;
use homefs::server::{Callers, Credentials, FileId, Outlet};
use room_protocol::message::HeldFile;
use room_protocol::{Kind, ToRoom};
use std::sync::{Arc, Weak};

/// Answers go over the room's link.
pub struct ToTheRoom(pub Arc<Room>);

impl Outlet for ToTheRoom {
    fn reply(&self, mount: u16, bytes: &[u8], seq: u64) {
        if let Some(downlink) = self.0.link.downlink() {
            let _ = downlink.send(Kind::Fuse, mount, seq, &[bytes]);
        }
    }

    fn report(&self, mount: u16, bytes: &[u8], seq: u64) {
        if let Some(downlink) = self.0.link.downlink() {
            let _ = downlink.post(Kind::Fuse, mount, seq, &[bytes]);
        }
    }

    fn invalidate(&self, seq: u64, invalidation: &Invalidation) {
        let mut bytes = Vec::with_capacity(64);
        invalidation.encode(&mut bytes);
        if let Some(downlink) = self.0.link.downlink() {
            let _ = downlink.send(Kind::Invalidate, 0, seq, &[&bytes]);
        }
    }

    fn wanted(&self, file: FileId) {
        let FileId { device, inode } = file;
        self.0.tell(&ToRoom::Yield { file: HeldFile { device, inode } });
    }

    fn offer(&self, seq: u64, offer: &Offer) {
        let mut bytes = Vec::with_capacity(128);
        offer.encode(&mut bytes);
        if let Some(downlink) = self.0.link.downlink() {
            let _ = downlink.send(Kind::Offer, 0, seq, &[&bytes]);
        }
    }
}

/// The rights of the deputies whose bodies are in the room, and no others, whatever the hosting
/// node says.
pub struct Hosted(pub Weak<Room>);

/// Who owns nothing: for the porter, which only finds the places to mount on.
const NOBODY: u32 = 65534;
/// The number that the kernel gives for nobody in particular, and for processes outside of the
/// room: its warden.
const KERNEL: u32 = 0;
/// The porter's number in its room.
const PORTER: u32 = 1;

impl Callers for Hosted {
    fn credentials(&self, tid: u32, uid: u32, gid: u32) -> Option<Credentials> {
        let shared = self.0.upgrade()?;
        let table = shared.table();
        match tid {
            KERNEL => table.of_kernel(uid, gid).or_else(|| Some(nobody())),
            PORTER => Some(nobody()),
            tid => table.of_thread(i32::try_from(tid).ok()?, uid, gid),
        }
    }
}

/// Rights that reach nothing but what everybody may reach.
fn nobody() -> Credentials {
    Credentials { uid: NOBODY, gid: NOBODY, groups: Arc::from([]), caps: 0 }
}

impl DeputyTable {
    /// The rights of this thread, or of the process that will have it, if it has these ids where
    /// files are concerned.
    fn of_thread(&self, tid: i32, uid: u32, gid: u32) -> Option<Credentials> {
        let deputy = self.deputies.values().find(|d| d.threads.contains_key(&tid));
        let of = deputy.map(|d| d.rights(tid)).or_else(|| self.coming.get(&tid))?;
        Some(rights_of_files(of)).filter(|who| (who.uid, who.gid) == (uid, gid))
    }

    /// What all processes with these ids may do: the room's kernel asks on its own behalf (it
    /// writes back what several have written), and does not say for which.
    fn of_kernel(&self, uid: u32, gid: u32) -> Option<Credentials> {
        let threads = self.deputies.values().flat_map(|d| d.threads.keys().map(|tid| d.rights(*tid)));
        let mut all = threads.filter(|of| (of.uid[FILES], of.gid[FILES]) == (uid, gid));
        let first = all.next()?;
        let (mut groups, mut caps) = (first.groups.clone(), first.capabilities.effective);
        for other in all {
            groups.retain(|group| other.groups.contains(group));
            caps &= other.capabilities.effective;
        }
        Some(Credentials { uid, gid, groups: Arc::from(groups), caps })
    }
}

/// Which of a process' four ids count where files are concerned (setfsuid(2)).
const FILES: usize = 3;

/// What a thread that is so may do with files.
pub fn rights_of_files(of: &room_protocol::message::Credentials) -> Credentials {
    let groups = Arc::from(of.groups.as_slice());
    Credentials { uid: of.uid[FILES], gid: of.gid[FILES], groups, caps: of.capabilities.effective }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deputy::proof::DeputyProof;
    use crate::deputy::record::Deputy;
    use os::pidfd::PidFd;
    use os::process_identity::ProcessIdentity;
    use room_protocol::message::Program;
    use std::os::fd::OwnedFd;

    const USER: u32 = 1000;

    /// A deputy of the user's in these groups with these capabilities. (It is this test: nobody
    /// asks it anything.)
    fn deputy(groups: &[u32], capabilities: u64) -> Deputy {
        let own = std::process::id() as i32;
        let (channel, _theirs) = os::socket::pair().unwrap();
        let proof = DeputyProof::of_coming(ProcessIdentity::of(own).unwrap());
        let program = Program { path: vec![], argv: vec![], envp: vec![] };
        let mut deputy = Deputy::new(PidFd::open(own).unwrap(), proof, program, channel);
        deputy.threads.clear();
        deputy.credentials.uid = [USER; 4];
        deputy.credentials.gid = [USER; 4];
        deputy.credentials.groups = groups.to_vec();
        deputy.credentials.capabilities.effective = capabilities;
        deputy
    }

    fn thread() -> OwnedFd {
        os::socket::pair().unwrap().0
    }

    /// Before, a thread that nobody knew had the rights of any process of its user.
    #[test]
    fn a_request_has_its_own_processes_rights() {
        let mut table = DeputyTable::default();
        for (pid, groups, capabilities) in [(10, &[5, 6][..], 0), (20, &[6, 7], 1)] {
            let mut one = deputy(groups, capabilities);
            one.add_thread(pid, thread(), None);
            one.add_thread(pid + 1, thread(), None);
            table.deputies.insert(pid, one);
        }
        let of = |tid| table.of_thread(tid, USER, USER).map(|who| (who.groups.to_vec(), who.caps));
        assert_eq!(of(11), Some((vec![5, 6], 0)));
        assert_eq!(of(20), Some((vec![6, 7], 1)));
        assert_eq!(of(12), None, "nobody's thread");
        assert!(table.of_thread(10, 0, 0).is_none(), "ids that its process has not");
        let kernel = table.of_kernel(USER, USER).unwrap();
        assert_eq!((kernel.groups.to_vec(), kernel.caps), (vec![6], 0), "what all of them may");
        assert!(table.of_kernel(0, 0).is_none());
    }

    /// Before, a call for a thread that nobody knew was made by any thread that was free.
    #[test]
    fn a_call_is_made_by_its_own_thread() {
        let mut one = deputy(&[], 0);
        one.add_thread(10, thread(), None);
        assert!(one.own_thread(10).is_some() && one.own_thread(11).is_none());
        one.end_thread(10);
        assert!(one.own_thread(10).is_none());
    }
}
