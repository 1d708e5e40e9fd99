//! A long list of operations, run in the room and natively. The accounts of both must be equal.

use crate::agent::{Peer, as_user, raw};
use crate::room::SHARED_GROUP;
use std::ffi::CString;
use std::fmt::Debug;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown, symlink};
use std::path::Path;

/// An account of operations and results, one line each. It is a file, because other users write to
/// it, too.
struct Account(File);

impl Account {
    fn note<T: Debug>(&mut self, what: &str, result: io::Result<T>) {
        let result = result.map_err(|e| e.raw_os_error());
        writeln!(self.0, "{what}: {result:?}").unwrap();
    }

    fn stat(&mut self, path: &Path) {
        let stat = fs::symlink_metadata(path)
            .map(|m| (format!("{:o}", m.mode()), m.nlink(), m.uid(), m.gid(), if m.is_dir() { 0 } else { m.size() }));
        self.note(&format!("stat {:?}", path.file_name().unwrap()), stat);
    }
}

/// Compares the accounts line by line. Only the place where the operations run differs.
pub fn home(dir: &Path, peer: &mut Peer) {
    peer.expect("done");
    let (room, native) = (dir.join("room"), dir.join("native"));
    fs::create_dir(&native).unwrap();
    fs::set_permissions(&native, Permissions::from_mode(0o755)).unwrap();
    let theirs = fs::read_to_string(room.join("account")).unwrap();
    run(&native);
    let ours = fs::read_to_string(native.join("account")).unwrap();
    for (number, (a, b)) in theirs.lines().zip(ours.lines()).enumerate() {
        assert_eq!(a, b, "line {number}: in the room (left), natively (right)");
    }
    assert_eq!(theirs.lines().count(), ours.lines().count());
    assert!(ours.lines().count() > 100, "{}", ours.lines().count());
}

pub fn room(dir: &Path, peer: &mut Peer) {
    let inside = dir.join("room");
    fs::create_dir(&inside).unwrap();
    run(&inside);
    peer.tell("done");
}

fn run(dir: &Path) {
    let mut account = Account(File::create(dir.join("account")).unwrap());
    fs::set_permissions(dir.join("account"), Permissions::from_mode(0o666)).unwrap();
    for (name, part) in [
        ("files", files as fn(&Path, &mut Account)),
        ("names", names),
        ("owners", owners),
        ("users", users),
        ("xattrs", xattrs),
        ("sizes", sizes),
        ("special", special),
    ] {
        let dir = dir.join(name);
        fs::create_dir(&dir).unwrap();
        part(&dir, &mut account);
    }
    // The room answers writes before home has made them, and the peer hears by another way.
    account.0.sync_all().unwrap();
}

fn files(dir: &Path, account: &mut Account) {
    let path = dir.join("a");
    let mut file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o640).open(&path).unwrap();
    account.note("write", file.write(b"0123456789"));
    account.note("create again", OpenOptions::new().write(true).create_new(true).open(&path).map(drop));
    account.note("pwrite", file.write_at(b"xyz", 4));
    let mut text = String::new();
    file.seek(SeekFrom::Start(0)).unwrap();
    account.note("read back", file.read_to_string(&mut text));
    account.note("content", Ok(text));
    account.stat(&path);
    account.note("set_len", file.set_len(4));
    account.note("content", fs::read(&path));
    account.note("truncate", OpenOptions::new().write(true).truncate(true).open(&path).map(drop));
    account.stat(&path);
    account.note("write behind", file.write_at(b"end", 100_000));
    account.note("zeros before", fs::read(&path).map(|b| (b.len(), b.iter().filter(|x| **x == 0).count())));
    account.note("fsync", file.sync_all());
    account.note("fdatasync", file.sync_data());
    let mut two =
        [OpenOptions::new().append(true).open(&path).unwrap(), OpenOptions::new().append(true).open(&path).unwrap()];
    for i in 0..20 {
        account.note("append", two[i % 2].write(format!("line {i}\n").as_bytes()));
    }
    account.note("appended", fs::read(&path).map(|b| String::from_utf8_lossy(&b[100_000..]).into_owned()));
    account.note("remove open", fs::remove_file(&path));
    account.note("still there", file.read_at(&mut [0; 3], 100_000));
    account.note("still writable", file.write_at(b"more", 200_000));
    account.note("its size", file.metadata().map(|m| (m.len(), m.nlink())));
    account.note("gone", fs::metadata(&path).map(drop));
    account.note("read a directory", fs::read(dir));
    account.note("write a directory", File::create(dir).map(drop));
    account.note("through a file", fs::metadata(dir.join("account/x")).map(drop));
    let source = dir.join("source");
    fs::write(&source, vec![7; 300_000]).unwrap();
    account.note("copy", fs::copy(&source, dir.join("copy")));
    account.note("copied", fs::read(dir.join("copy")).map(|b| b == vec![7; 300_000]));
}

fn names(dir: &Path, account: &mut Account) {
    let at = |name: &str| dir.join(name);
    fs::write(at("one"), b"one").unwrap();
    fs::write(at("two"), b"two").unwrap();
    let open = File::open(at("two")).unwrap();
    account.note("rename over open", fs::rename(at("one"), at("two")));
    let mut old = String::new();
    account.note("old content", (&open).read_to_string(&mut old));
    account.note("old content", Ok(old));
    account.note("new content", fs::read(at("two")));
    account.stat(&at("one"));
    account.note("link", fs::hard_link(at("two"), at("three")));
    account.stat(&at("two"));
    account.note("unlink", fs::remove_file(at("two")));
    account.stat(&at("three"));
    account.note("mkdir", fs::create_dir(at("d")));
    account.note("mkdir again", fs::create_dir(at("d")));
    account.stat(&at("d"));
    fs::write(at("d/inside"), b"").unwrap();
    account.note("rmdir full", fs::remove_dir(at("d")));
    account.note("rename directory", fs::rename(at("d"), at("e")));
    account.note("inside", fs::metadata(at("e/inside")).map(|m| m.len()));
    account.note("rename into itself", fs::rename(at("e"), at("e/f")));
    account.note("rename exchange", rename2(&at("e"), &at("three"), libc::RENAME_EXCHANGE));
    account.stat(&at("e"));
    account.stat(&at("three"));
    account.note("rename noreplace", rename2(&at("e"), &at("three"), libc::RENAME_NOREPLACE));
    account.note("unlink directory", fs::remove_file(at("three")));
    account.note("rmdir file", fs::remove_dir(at("e")));
    account.note("remove all", fs::remove_dir_all(at("three")));
    account.note("symlink", symlink("e", at("s")));
    account.note("readlink", fs::read_link(at("s")));
    account.note("through symlink", fs::read(at("s")));
    account.stat(&at("s"));
    account.note("dangling", symlink("nowhere", at("t")).and_then(|()| fs::read(at("t"))));
    account.note("loop", symlink("loop", at("loop")).and_then(|()| fs::read(at("loop"))));
    account.note("long name", fs::write(at(&"n".repeat(255)), b""));
    account.note("too long name", fs::write(at(&"n".repeat(256)), b""));
    let mut list: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap())
        .map(|e| (e.file_name(), e.file_type().unwrap().is_symlink()))
        .collect();
    list.sort();
    account.note("list", Ok(list));
}

fn rename2(from: &Path, to: &Path, flags: u32) -> io::Result<()> {
    let flags = rustix::fs::RenameFlags::from_bits_retain(flags);
    Ok(rustix::fs::renameat_with(rustix::fs::CWD, from, rustix::fs::CWD, to, flags)?)
}

fn owners(dir: &Path, account: &mut Account) {
    let path = dir.join("f");
    fs::write(&path, b"x").unwrap();
    for mode in [0o600, 0o4755, 0o2755, 0o1777, 0o6755] {
        account.note("chmod", fs::set_permissions(&path, Permissions::from_mode(mode)));
        account.stat(&path);
    }
    account.note("chown clears set-id", chown(&path, Some(1000), Some(1001)));
    account.stat(&path);
    account.note(
        "lchown",
        symlink("f", dir.join("l")).and_then(|()| std::os::unix::fs::lchown(dir.join("l"), Some(1001), None)),
    );
    account.stat(&dir.join("l"));
    let time =
        fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH + std::time::Duration::new(1_000_000_000, 123_456_789));
    account.note("utimens", File::options().write(true).open(&path).and_then(|f| f.set_times(time)));
    account.note("mtime", fs::metadata(&path).map(|m| (m.mtime(), m.mtime_nsec())));
    let shared = dir.join("setgid");
    fs::create_dir(&shared).unwrap();
    chown(&shared, None, Some(SHARED_GROUP)).unwrap();
    fs::set_permissions(&shared, Permissions::from_mode(0o2777)).unwrap();
    as_user(1000, &[SHARED_GROUP], || fs::write(shared.join("of-user"), b"").unwrap());
    account.stat(&shared.join("of-user"));
}

fn users(dir: &Path, account: &mut Account) {
    fs::set_permissions(dir, Permissions::from_mode(0o777)).unwrap();
    let at = |name: &str| dir.join(name);
    as_user(1000, &[SHARED_GROUP], || {
        // SAFETY: a number.
        unsafe { libc::umask(0o027) };
        fs::write(at("mine"), b"mine").unwrap();
        fs::create_dir(at("mydir")).unwrap();
        fs::write(at("private"), b"private").unwrap();
        fs::set_permissions(at("private"), Permissions::from_mode(0o600)).unwrap();
        account.note("setuid by owner", fs::set_permissions(at("mine"), Permissions::from_mode(0o4777)));
        account.stat(&at("mine"));
        account.note(
            "writing keeps it",
            OpenOptions::new().write(true).open(at("mine")).and_then(|mut f| f.write(b"by owner")),
        );
        account.stat(&at("mine"));
        account.note("chown by user", chown(at("mine"), Some(1001), None));
        account.note("chgrp to a group of one's own", chown(at("mine"), None, Some(SHARED_GROUP)));
        account.stat(&at("mine"));
    });
    account.stat(&at("mydir"));
    fs::set_permissions(at("mine"), Permissions::from_mode(0o4777)).unwrap();
    as_user(1001, &[SHARED_GROUP], || {
        account.note("another's 0600", fs::read(at("private")));
        account.note("another's chmod", fs::set_permissions(at("mine"), Permissions::from_mode(0o777)));
        account
            .note("another's write", OpenOptions::new().write(true).open(at("mine")).and_then(|mut f| f.write(b"x")));
        account.stat(&at("mine"));
        account.note("another's unlink", fs::remove_file(at("mydir")));
        account.note("in another's directory", fs::write(at("mydir/x"), b""));
        account.note("list another's directory", fs::read_dir(at("mydir")).map(drop));
        account.note("access", rustix::fs::access(at("private"), rustix::fs::Access::READ_OK).map_err(io::Error::from));
        account.note("access", rustix::fs::access(at("mine"), rustix::fs::Access::EXEC_OK).map_err(io::Error::from));
    });
    fs::set_permissions(dir, Permissions::from_mode(0o1777)).unwrap();
    as_user(1001, &[], || account.note("sticky", fs::remove_file(at("mine"))));
    account.note("root reads", fs::read(at("private")));
}

fn xattr(path: &Path, name: &str) -> io::Result<Vec<u8>> {
    let mut value = vec![0; 1024];
    let len = rustix::fs::getxattr(path, name, &mut value[..])?;
    value.truncate(len);
    Ok(value)
}

fn set_xattr(path: &Path, name: &str, value: &[u8]) -> io::Result<()> {
    Ok(rustix::fs::setxattr(path, name, value, rustix::fs::XattrFlags::empty())?)
}

/// Encodes an ACL as the kernel's extended attribute: (tag, permissions, id).
fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (tag, perm, id) in entries {
        bytes.extend_from_slice(&tag.to_le_bytes());
        bytes.extend_from_slice(&perm.to_le_bytes());
        bytes.extend_from_slice(&id.to_le_bytes());
    }
    bytes
}

fn xattrs(dir: &Path, account: &mut Account) {
    fs::set_permissions(dir, Permissions::from_mode(0o777)).unwrap();
    let path = dir.join("f");
    fs::write(&path, b"secret").unwrap();
    account.note("none", xattr(&path, "user.a"));
    let set = set_xattr(&path, "user.a", b"value");
    account.note("set", set);
    account.note("get", xattr(&path, "user.a"));
    let mut names = vec![0u8; 1024];
    account.note("list", rustix::fs::listxattr(&path, &mut names[..]).map(|n| n > 6).map_err(io::Error::from));
    account.note("remove", rustix::fs::removexattr(&path, "user.a").map_err(io::Error::from));
    account.note("removed", xattr(&path, "user.a"));
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    as_user(1001, &[], || account.note("before the ACL", fs::read(&path)));
    let none = u32::MAX;
    let access = acl(&[(1, 6, none), (2, 4, 1001), (4, 0, none), (0x10, 4, none), (0x20, 0, none)]);
    account.note("set ACL", set_xattr(&path, "system.posix_acl_access", &access));
    account.note("get ACL", xattr(&path, "system.posix_acl_access"));
    account.stat(&path);
    as_user(1001, &[], || account.note("by the ACL", fs::read(&path)));
    as_user(1000, &[], || account.note("without the ACL", fs::read(&path)));
    let default = acl(&[(1, 7, none), (2, 7, 1001), (4, 5, none), (0x10, 7, none), (0x20, 5, none)]);
    account.note("default ACL", set_xattr(dir, "system.posix_acl_default", &default));
    // SAFETY: numbers.
    let before = unsafe { libc::umask(0o077) };
    fs::write(dir.join("inherits"), b"").unwrap();
    fs::create_dir(dir.join("subdir")).unwrap();
    // SAFETY: as above.
    unsafe { libc::umask(before) };
    account.stat(&dir.join("inherits"));
    account.stat(&dir.join("subdir"));
    account.note("inherited", xattr(&dir.join("inherits"), "system.posix_acl_access"));
    account.note("inherited", xattr(&dir.join("subdir"), "system.posix_acl_default"));
}

fn sizes(dir: &Path, account: &mut Account) {
    let path = dir.join("sparse");
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
    file.write_at(b"data", 1 << 20).unwrap();
    file.set_len(4 << 20).unwrap();
    // SAFETY: numbers, on a descriptor that is open.
    let seek = |to: i64, whence: i32| match unsafe { libc::lseek(raw(&file), to, whence) } {
        -1 => Err(io::Error::last_os_error()),
        at => Ok(at),
    };
    account.note("data", seek(0, libc::SEEK_DATA));
    account.note("hole", seek(1 << 20, libc::SEEK_HOLE));
    account.note("no more data", seek(2 << 20, libc::SEEK_DATA));
    account.note("few blocks", file.metadata().map(|m| m.blocks() < 100));
    // SAFETY: numbers, on a descriptor that is open.
    let allocate = |mode: i32, at: i64, len: i64| match unsafe { libc::fallocate(raw(&file), mode, at, len) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    };
    account.note("allocate", allocate(0, 0, 8 << 20));
    account.note("size", fs::metadata(&path).map(|m| m.len()));
    account.note("punch", allocate(libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE, 1 << 20, 4096));
    account.note("punched", {
        let mut b = [1; 4];
        file.read_at(&mut b, 1 << 20).map(|_| b)
    });
    account.note(
        "truncate by path",
        rustix::fs::open(&path, rustix::fs::OFlags::WRONLY, 0.into())
            .and_then(|f| rustix::fs::ftruncate(f, 10))
            .map_err(io::Error::from),
    );
    let c_path = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: a C string and a number.
    account.note(
        "truncate(2)",
        if unsafe { libc::truncate(c_path.as_ptr(), 5) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) },
    );
    account.stat(&path);
    let temporary =
        rustix::fs::open(dir, rustix::fs::OFlags::TMPFILE | rustix::fs::OFlags::RDWR, 0o600.into()).unwrap();
    let temporary = File::from(temporary);
    account.note("tmpfile", temporary.write_at(b"unnamed", 0));
    account.note("tmpfile links", temporary.metadata().map(|m| (m.nlink(), m.len())));
    let named = dir.join("named");
    let proc_path = format!("/proc/self/fd/{}", raw(&temporary));
    account.note(
        "link tmpfile",
        rustix::fs::linkat(rustix::fs::CWD, proc_path, rustix::fs::CWD, &named, rustix::fs::AtFlags::SYMLINK_FOLLOW)
            .map_err(io::Error::from),
    );
    account.note("named", fs::read(&named));
    account.note("statfs", rustix::fs::statfs(dir).map(|s| s.f_namelen).map_err(io::Error::from));
}

fn special(dir: &Path, account: &mut Account) {
    let fifo = dir.join("fifo");
    let made = rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o644.into(), 0);
    account.note("mkfifo", made.map_err(io::Error::from));
    account.stat(&fifo);
    account.note("socket", std::os::unix::net::UnixListener::bind(dir.join("socket")).map(drop));
    account.stat(&dir.join("socket"));
}
