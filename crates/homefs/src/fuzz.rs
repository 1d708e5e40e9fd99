//! A file server with a hostile room, for fuzz targets and tests. Needs root.

use crate::invalidation::Invalidation;
use crate::offer::Offer;
use crate::proto::InHeader;
use crate::server::{Callers, Credentials, ExportPath, Outlet, Server};
use arbitrary::Unstructured;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use zerocopy::{FromBytes, IntoBytes};

const USER: u32 = 1000;
const OTHER_USER: u32 = 1001;
const REQUESTS_MAX: usize = 32;
/// The number of inputs after which a server is replaced.
const INPUTS_MAX: u32 = 200;

struct OneUser;

impl Callers for OneUser {
    fn credentials(&self, _tid: u32, uid: u32, gid: u32) -> Option<Credentials> {
        (uid == USER && gid == USER).then(|| Credentials { uid, gid, groups: [].into(), caps: 0 })
    }
}

/// Numbers of nodes and of open files that the room has learnt.
#[derive(Default)]
struct Learnt(Mutex<Vec<u64>>);

impl Outlet for Learnt {
    fn reply(&self, _mount: u16, bytes: &[u8], _seq: u64) {
        let mut learnt = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = bytes.get(16..24).and_then(|b| u64::read_from_bytes(b).ok())
            && learnt.len() < 1000
        {
            learnt.push(number);
        }
    }
    fn invalidate(&self, _seq: u64, _invalidation: &Invalidation) {}
    fn wanted(&self, _: crate::server::FileId) {}
    fn offer(&self, _seq: u64, _offer: &Offer) {}
}

/// An export, and beside it files that the room must not reach.
struct Home {
    dir: PathBuf,
    server: Arc<Server>,
    learnt: Arc<Learnt>,
    inputs: u32,
}

impl Home {
    fn new(name: &str) -> Option<Home> {
        let dir = PathBuf::from(format!("/var/tmp/homefs-fuzz-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        let export = dir.join("export");
        fs::create_dir_all(&export).ok()?;
        for (path, owner) in [("outside", USER), ("export/mine", USER), ("export/others", OTHER_USER)] {
            let path = dir.join(path);
            fs::write(&path, "as it was").ok()?;
            chown(&path, Some(owner), Some(owner)).ok()?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).ok()?;
        }
        fs::create_dir(export.join("own")).ok()?;
        chown(export.join("own"), Some(USER), Some(USER)).ok()?;
        symlink("../outside", export.join("link")).ok()?;
        let learnt = Arc::new(Learnt::default());
        let server = Server::start(&[ExportPath { path: export }], Arc::new(OneUser), learnt.clone()).ok()?;
        Some(Home { dir, server, learnt, inputs: 0 })
    }

    fn request(&self, input: &mut Unstructured<'_>) -> arbitrary::Result<Vec<u8>> {
        if input.ratio(1, 16)? {
            return Ok(input.arbitrary::<&[u8]>()?.to_vec());
        }
        let opcode = u32::from(input.arbitrary::<u8>()? % 64);
        let nodeid = self.number(input)?;
        let mut body = Vec::new();
        match input.int_in_range(0..=3)? {
            0 => body.extend(input.arbitrary::<&[u8]>()?),
            how => {
                for _ in 0..input.int_in_range(0..=8)? {
                    body.extend(self.number(input)?.to_le_bytes());
                }
                if how > 1 {
                    let names = ["mine", "others", "own", "link", "..", "new", "../outside", "user.a", ""];
                    for _ in 1..how {
                        body.extend(input.choose(&names)?.as_bytes());
                        body.push(0);
                    }
                }
            }
        }
        let len = (size_of::<InHeader>() + body.len()) as u32;
        let uid = *input.choose(&[USER, USER, USER, USER, OTHER_USER, 0])?;
        let header = InHeader { len, opcode, unique: 8, nodeid, uid, gid: uid, pid: 77, ..Default::default() };
        Ok([header.as_bytes(), &body].concat())
    }

    /// Draws a number, a known one if possible.
    fn number(&self, input: &mut Unstructured<'_>) -> arbitrary::Result<u64> {
        let learnt = self.learnt.0.lock().unwrap_or_else(PoisonError::into_inner);
        match input.int_in_range(0..=4)? {
            0 => Ok(1),
            1 if !learnt.is_empty() => Ok(*input.choose(&learnt)?),
            2 => Ok(u64::from(input.arbitrary::<u16>()?)),
            3 => Ok(u64::MAX),
            _ => input.arbitrary(),
        }
    }

    fn check(&self) {
        for name in ["outside", "export/others"] {
            let content = fs::read(self.dir.join(name)).unwrap_or_default();
            assert_eq!(content, b"as it was", "{name} was changed");
        }
        assert_eq!(fs::read_dir(&self.dir).map_or(0, Iterator::count), 2, "a file was made outside of the export");
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        self.server.close();
        let _ = fs::remove_dir_all(&self.dir);
    }
}

static HOME: Mutex<Option<Home>> = Mutex::new(None);

/// Runs requests of a room that hosts one ordinary user's process.
///
/// # Panics
/// A file was changed that is not this user's, or that lies outside of the export.
pub fn file_server(input: &[u8]) {
    let mut home = HOME.lock().unwrap_or_else(PoisonError::into_inner);
    // The old server must end before the new one starts.
    if home.as_ref().is_some_and(|home| home.inputs == INPUTS_MAX) {
        *home = None;
    }
    if home.is_none() {
        *home = Home::new("target");
    }
    let Some(home) = home.as_mut() else { return };
    home.inputs += 1;
    let mut input = Unstructured::new(input);
    // The thread is new, because it takes on the identity of the caller.
    let asks = || {
        for _ in 0..REQUESTS_MAX {
            match home.request(&mut input) {
                Ok(request) if !input.is_empty() => home.server.request(0, &request),
                _ => break,
            }
        }
    };
    let done = std::thread::scope(|scope| scope.spawn(asks).join());
    assert!(done.is_ok(), "the server panicked");
    home.check();
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Has failed with debug assertions: success was reported as error 0.
    #[test]
    fn a_room_may_say_that_it_unmounts() {
        const DESTROY: u32 = 38;
        if let Some(home) = Home::new("unmounts").filter(|_| rustix::process::geteuid().is_root()) {
            let len = size_of::<InHeader>() as u32;
            let header = InHeader { len, opcode: DESTROY, unique: 8, nodeid: 1, ..Default::default() };
            home.server.request(0, header.as_bytes());
        }
    }

    #[test]
    fn no_room_changes_what_is_not_its_users() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let cases = ProptestConfig::default().cases.max(300);
        let config = ProptestConfig { cases, failure_persistence: None, ..Default::default() };
        let mut runner = proptest::test_runner::TestRunner::new(config);
        let done = runner.run(&proptest::collection::vec(any::<u8>(), 0..600), |input| {
            file_server(&input);
            Ok(())
        });
        *HOME.lock().unwrap_or_else(PoisonError::into_inner) = None;
        done.unwrap();
    }
}
