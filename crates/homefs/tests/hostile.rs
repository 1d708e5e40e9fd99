//! Messages of a subverted hosting node: the server refuses them, answers once, and goes on. Needs
//! root.

#![expect(clippy::unwrap_used, reason = "a test, which fails by panicking")]

use homefs::invalidation::Invalidation;
use homefs::offer::Offer;
use homefs::proto::{CreateIn, GetattrIn, InHeader, OpenIn, OutHeader, ReadIn};
use homefs::server::{Callers, Credentials, ExportPath, Outlet, Server};
use proptest::prelude::*;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use zerocopy::{FromBytes, Immutable, IntoBytes};

const USER: u32 = 1000;
const OTHER_USER: u32 = 1001;

/// Hosts one ordinary user's process only.
struct OneUser;

impl Callers for OneUser {
    fn credentials(&self, _tid: u32, uid: u32, gid: u32) -> Option<Credentials> {
        (uid == USER && gid == USER).then(|| Credentials { uid, gid, groups: [].into(), caps: 0 })
    }
}

#[derive(Default)]
struct Replies(Mutex<Vec<Vec<u8>>>);

impl Outlet for Replies {
    fn reply(&self, _mount: u16, bytes: &[u8], _seq: u64) {
        self.0.lock().unwrap().push(bytes.to_vec());
    }
    fn invalidate(&self, _seq: u64, _invalidation: &Invalidation) {}
    fn wanted(&self, _: homefs::server::FileId) {}
    fn offer(&self, _seq: u64, _offer: &Offer) {}
}

struct Home {
    dir: PathBuf,
    server: Arc<Server>,
    replies: Arc<Replies>,
}

impl Home {
    fn new() -> Home {
        static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let dir = PathBuf::from(format!("/var/tmp/homefs-hostile-{}-{number}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
        for (name, owner, mode) in [("mine", USER, 0o600), ("others", OTHER_USER, 0o600), ("roots", 0, 0o640)] {
            let path = dir.join(name);
            fs::write(&path, name).unwrap();
            std::os::unix::fs::chown(&path, Some(owner), Some(owner)).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        let closed = dir.join("closed");
        fs::create_dir(&closed).unwrap();
        fs::write(closed.join("inside"), "inside").unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
        let replies = Arc::new(Replies::default());
        let server = Server::start(&[ExportPath { path: dir.clone() }], Arc::new(OneUser), replies.clone()).unwrap();
        Home { dir, server, replies }
    }

    /// Sends one request as this user, and gives the error number and the payload of the only
    /// reply.
    fn ask(&self, opcode: u32, nodeid: u64, uid: u32, body: &[u8]) -> (i32, Vec<u8>) {
        self.replies.0.lock().unwrap().clear();
        let len = (size_of::<InHeader>() + body.len()) as u32;
        let header = InHeader { len, opcode, unique: 8, nodeid, uid, gid: uid, pid: 77, ..Default::default() };
        self.send(0, &[header.as_bytes(), body].concat());
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            if let Some(reply) = self.replies.0.lock().unwrap().pop() {
                let (header, payload) = OutHeader::read_from_prefix(&reply).unwrap();
                assert_eq!((header.unique, header.len as usize), (8, reply.len()));
                return (-header.error, payload.to_vec());
            }
            assert!(Instant::now() < until, "no reply");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Runs in a new thread, which takes on the identity of the caller.
    fn send(&self, mount: u16, bytes: &[u8]) {
        std::thread::scope(|scope| scope.spawn(|| self.server.request(mount, bytes)).join().unwrap());
    }

    fn lookup(&self, dir: u64, name: &str, uid: u32) -> (i32, u64) {
        let (error, payload) = self.ask(1, dir, uid, format!("{name}\0").as_bytes());
        (error, payload.first_chunk().map_or(0, |id| u64::from_le_bytes(*id)))
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        self.server.close();
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn args(fixed: &(impl IntoBytes + Immutable), name: &str) -> Vec<u8> {
    [fixed.as_bytes(), name.as_bytes(), b"\0"].concat()
}

fn with_root(test: impl FnOnce()) {
    if rustix::process::geteuid().is_root() { test() } else { println!("not run: serving files needs root") }
}

#[test]
fn only_hosted_users_are_obeyed() {
    with_root(|| {
        let home = Home::new();
        let (open, read) = (OpenIn::default(), 0o0);
        assert_eq!(read, libc::O_RDONLY);
        let (_, mine) = home.lookup(1, "mine", USER);
        let (_, others) = home.lookup(1, "others", USER);
        let (_, roots) = home.lookup(1, "roots", USER);
        assert_eq!(home.ask(14, mine, USER, open.as_bytes()).0, 0);
        for forged in [0, OTHER_USER, 4242] {
            assert_eq!(home.lookup(1, "mine", forged).0, libc::EACCES, "lookup as {forged}");
            for node in [mine, others, roots] {
                assert_eq!(home.ask(14, node, forged, open.as_bytes()).0, libc::EACCES, "open as {forged}");
            }
            let create = CreateIn { mode: 0o100644, flags: libc::O_RDWR as u32, ..Default::default() };
            assert_eq!(home.ask(35, 1, forged, &args(&create, "new")).0, libc::EACCES);
            assert_eq!(home.ask(10, 1, forged, b"mine\0").0, libc::EACCES, "unlink as {forged}");
        }
        // With the right user, home's permissions apply, whatever the node's kernel thinks of them.
        for node in [others, roots] {
            assert_eq!(home.ask(14, node, USER, open.as_bytes()).0, libc::EACCES);
        }
        assert_eq!(home.ask(10, 1, USER, b"mine\0").0, libc::EACCES, "the directory is root's");
        let (error, closed) = home.lookup(1, "closed", USER);
        assert_eq!(error, 0);
        assert_eq!(home.lookup(closed, "inside", USER).0, libc::EACCES);
        assert!(!home.dir.join("new").exists() && home.dir.join("mine").exists());
    });
}

#[test]
fn nothing_outside_the_export_has_a_name() {
    with_root(|| {
        let home = Home::new();
        for name in ["..", ".", "", "../etc", "/etc/passwd", "closed/inside", "mine/"] {
            assert_eq!(home.lookup(1, name, USER).0, libc::EINVAL, "{name:?}");
        }
        assert_eq!(home.lookup(987_654, "x", USER).0, libc::ESTALE);
        assert_eq!(home.ask(3, 987_654, USER, GetattrIn::default().as_bytes()).0, libc::ESTALE);
        let read = ReadIn { fh: 987_654, size: 10, ..Default::default() };
        assert_eq!(home.ask(15, 1, USER, read.as_bytes()).0, libc::EBADF);
        // A handle of another node is not one of this node.
        let (_, mine) = home.lookup(1, "mine", USER);
        let (_, opened) = home.ask(14, mine, USER, OpenIn::default().as_bytes());
        let fh = u64::from_le_bytes(*opened.first_chunk().unwrap());
        let read = |node| home.ask(15, node, USER, ReadIn { fh, size: 1 << 31, ..Default::default() }.as_bytes());
        assert_eq!(read(1).0, libc::EBADF);
        assert_eq!(read(mine), (0, b"mine".to_vec()));
    });
}

#[test]
fn any_bytes_get_at_most_one_reply() {
    with_root(|| {
        let home = Home::new();
        let (_, mine) = home.lookup(1, "mine", USER);
        let opened = home.ask(14, mine, USER, OpenIn { flags: libc::O_RDWR as u32, open_flags: 0 }.as_bytes()).1;
        let fh = u64::from_le_bytes(*opened.first_chunk().unwrap());
        // Without SETLKW, which waits for locks, and without FORGET of nodes that the test uses
        // later.
        let opcodes = (1u32..60).prop_filter("waits or forgets", |op| ![2, 33, 36, 38, 42].contains(op));
        let word = prop_oneof![Just(0u64), Just(1), Just(mine), Just(fh), Just(u64::MAX), any::<u64>()];
        let body = prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..200),
            proptest::collection::vec(word, 0..12).prop_map(|words| words.as_bytes().to_vec()),
        ];
        let node = prop_oneof![Just(1u64), Just(mine), any::<u64>()];
        // Set `PROPTEST_CASES` for more.
        let cases = ProptestConfig::default().cases.max(2000);
        let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig { cases, ..Default::default() });
        runner
            .run(&(opcodes, node, body), |(opcode, node, body)| {
                let (error, _) = home.ask(opcode, node, USER, &body);
                prop_assert!((0..4096).contains(&error));
                prop_assert!(home.replies.0.lock().unwrap().is_empty());
                Ok(())
            })
            .unwrap();
        for len in 0..200 {
            home.send(0, &vec![0xff; len]);
            home.send(9, &vec![0; len]);
        }
        assert_eq!(home.ask(3, 1, USER, GetattrIn::default().as_bytes()).0, 0, "the server still works");
    });
}

#[test]
fn a_room_that_does_not_answer_holds_no_writer_up() {
    with_root(|| {
        let home = Home::new();
        let path = home.dir.join("readable");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        // Root owns the file, so a thread that acts for the user could not give the lease back.
        for closes in [false, true] {
            let (error, node) = home.lookup(1, "readable", USER);
            assert_eq!(error, 0);
            let (error, opened) = home.ask(14, node, USER, OpenIn::default().as_bytes());
            assert_eq!(error, 0);
            let fh = u64::from_le_bytes(*opened.first_chunk().unwrap());
            if closes {
                home.ask(18, node, USER, homefs::proto::ReleaseIn { fh, ..Default::default() }.as_bytes());
            }
            let start = Instant::now();
            fs::OpenOptions::new().write(true).open(&path).unwrap();
            assert!(start.elapsed() < Duration::from_secs(3), "the writer waited for {:?}", start.elapsed());
        }
    });
}
