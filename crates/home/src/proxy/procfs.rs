//! The home's /proc, for the room to see: each look is made with the rights of the deputy of who
//! looks, and follows no link.

use crate::proxy::devices;
use crate::room::inquiry::Inquiry;
use crate::room::state::Room;
use crate::room::streams::may_stream;
use homefs::server::Credentials;
use room_protocol::ToRoom;
use room_protocol::message::{CallId, DeviceName, Look};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Weak};

/// The most names of a directory that are told.
const NAMES_MAX: usize = 1 << 15;
/// The longest file that is told, bytes: it comes in one frame.
const CONTENT_MAX: usize = 1 << 20;
/// Files that are no text about something, but memory itself.
const NOT_READ: [&[u8]; 6] = [b"mem", b"pagemap", b"kcore", b"kpagecount", b"kpageflags", b"kpagecgroup"];

/// Answers inquiries until the room is gone.
pub fn serve(room: &Weak<Room>, inquiries: &Receiver<(CallId, Inquiry)>) {
    let proc = match rustix::fs::open("/proc", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
        Ok(proc) => proc,
        Err(e) => return tracing::error!("opening /proc: {e}"),
    };
    for (id, inquiry) in inquiries {
        let Some(room) = room.upgrade() else { return };
        let asker = match &inquiry {
            Inquiry::Look { pid, .. } | Inquiry::Write { pid, .. } | Inquiry::Locks { pid, .. } => {
                Some(*pid).filter(|pid| *pid != 0)
            }
            Inquiry::Name(_) | Inquiry::Stream(_) => None,
        };
        let answered = room.contain(asker, || answer(&room, &proc, &inquiry));
        let (result, out) = match answered.unwrap_or_else(|| Err(errno(libc::EIO))) {
            Ok(_) if matches!(inquiry, Inquiry::Stream(_)) => (1, Vec::new()),
            Ok(out) => (0, out),
            Err(e) => (-i64::from(e.raw_os_error().unwrap_or(libc::EIO)), Vec::new()),
        };
        room.tell(&ToRoom::Return { id, result, out, ready: None });
    }
}

fn answer(room: &Room, proc: &OwnedFd, inquiry: &Inquiry) -> std::io::Result<Vec<u8>> {
    match inquiry {
        Inquiry::Look { pid, path, look } => {
            act_as(room, &rights(room, *pid))?;
            self::look(proc, path, *look)
        }
        Inquiry::Write { pid, path, bytes } => {
            act_as(room, &rights(room, *pid))?;
            write(proc, path, bytes)
        }
        Inquiry::Locks { pid, inode } => {
            let files = room.link.files().ok_or_else(|| errno(libc::EIO))?;
            Ok(files.shown_locks(*pid, *inode).into_bytes())
        }
        Inquiry::Stream(standin) => {
            act_as_root(room)?;
            let may = may_stream(room, *standin);
            tracing::debug!("stand-in {} {} a stream", standin.0, if may { "may be" } else { "is not to be" });
            may.then(Vec::new).ok_or_else(|| errno(libc::EOPNOTSUPP))
        }
        Inquiry::Name(standin) => {
            act_as_root(room)?;
            let link = room.table().link_to(*standin).ok_or_else(|| errno(libc::EBADF))?;
            Ok(std::fs::read_link(link)?.into_os_string().into_vec())
        }
    }
}

fn errno(number: i32) -> std::io::Error {
    std::io::Error::from_raw_os_error(number)
}

fn act_as(room: &Room, who: &Credentials) -> std::io::Result<()> {
    room.link.files().ok_or_else(|| errno(libc::EIO))?.act_as(who)
}

fn act_as_root(room: &Room) -> std::io::Result<()> {
    act_as(room, &Credentials { uid: 0, gid: 0, groups: Arc::from([]), caps: u64::MAX })
}

/// The rights of a deputy, or nobody's.
fn rights(room: &Room, pid: i32) -> Credentials {
    const NOBODY: u32 = 65534;
    match room.table().deputies.get(&pid) {
        Some(deputy) => crate::proxy::files::rights_of_files(&deputy.credentials),
        None => Credentials { uid: NOBODY, gid: NOBODY, groups: Arc::from([]), caps: 0 },
    }
}

fn look(proc: &OwnedFd, path: &[u8], look: Look) -> std::io::Result<Vec<u8>> {
    let open = |flags| open(proc, path, flags);
    let packed = match look {
        Look::Node => {
            let node = File::from(open(OFlags::PATH | OFlags::NOFOLLOW)?);
            postcard::to_stdvec(&devices::described(&node.metadata()?))
        }
        Look::Link => {
            let link = open(OFlags::PATH | OFlags::NOFOLLOW)?;
            return Ok(rustix::fs::readlinkat(&link, c"", Vec::new())?.into_bytes());
        }
        Look::Names => postcard::to_stdvec(&names(&open(OFlags::RDONLY | OFlags::DIRECTORY)?)?),
        Look::Content => return content(path, open),
    };
    packed.map_err(std::io::Error::other)
}

/// Files of processes that are written. The kernel judges by file-system ids and capabilities who
/// may, and those this thread has taken; of others (below sys) it asks for the effective user,
/// which is the steward's.
const WRITTEN: [&[u8]; 2] = [b"oom_adj", b"oom_score_adj"];

/// Writes into a file of a process; what it holds then.
fn write(proc: &OwnedFd, path: &[u8], bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut names = path.split(|b| *b == b'/');
    let is_process = names.next().is_some_and(|first| !first.is_empty() && first.iter().all(u8::is_ascii_digit));
    if !is_process || !names.next().is_some_and(|name| WRITTEN.contains(&name)) || names.next().is_some() {
        return Err(errno(libc::EACCES));
    }
    let file = open(proc, path, OFlags::WRONLY | OFlags::NOFOLLOW)?;
    if !bytes.is_empty() {
        rustix::io::write(&file, bytes)?;
    }
    content(path, |flags| open(proc, path, flags))
}

/// Nothing outside of /proc is opened, and nothing that a link in it leads to.
fn open(proc: &OwnedFd, path: &[u8], flags: OFlags) -> std::io::Result<OwnedFd> {
    let path = if path.is_empty() { b".".as_slice() } else { path };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    Ok(rustix::fs::openat2(proc.as_fd(), path, flags | OFlags::CLOEXEC, Mode::empty(), resolve)?)
}

fn names(directory: &OwnedFd) -> std::io::Result<Vec<DeviceName>> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(directory)?.take(NAMES_MAX) {
        let entry = entry?;
        let kind = match entry.file_type() {
            rustix::fs::FileType::Directory => libc::DT_DIR,
            rustix::fs::FileType::Symlink => libc::DT_LNK,
            rustix::fs::FileType::RegularFile => libc::DT_REG,
            _ => libc::DT_UNKNOWN,
        };
        names.push(DeviceName { name: entry.file_name().to_bytes().to_vec(), ino: entry.ino(), kind });
    }
    Ok(names)
}

/// The whole of a file, read at once.
fn content(path: &[u8], open: impl Fn(OFlags) -> std::io::Result<OwnedFd>) -> std::io::Result<Vec<u8>> {
    let name = path.rsplit(|b| *b == b'/').next().unwrap_or_default();
    if NOT_READ.contains(&name) {
        return Err(errno(libc::EACCES));
    }
    // What would wait for news (kmsg) has none.
    let file = File::from(open(OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW)?);
    if !file.metadata()?.is_file() {
        return Err(errno(libc::EINVAL));
    }
    let mut content = Vec::new();
    file.take(CONTENT_MAX as u64 + 1).read_to_end(&mut content)?;
    if content.len() > CONTENT_MAX { Err(errno(libc::EFBIG)) } else { Ok(content) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;

    fn proc() -> OwnedFd {
        rustix::fs::open("/proc", OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap()
    }

    #[test]
    fn nothing_but_proc_is_seen() {
        let me = std::process::id();
        for path in
            ["../etc/passwd", "/etc/passwd", "self/status", &format!("{me}/root/etc/passwd"), &format!("{me}/exe")]
        {
            assert!(look(&proc(), path.as_bytes(), Look::Content).is_err(), "{path}");
        }
        assert!(look(&proc(), format!("{me}/mem").as_bytes(), Look::Content).is_err());
    }

    #[test]
    fn few_files_are_written() {
        let me = std::process::id().to_string();
        let wrote = write(&proc(), format!("{me}/oom_score_adj").as_bytes(), b"").unwrap();
        assert_eq!(wrote, std::fs::read("/proc/self/oom_score_adj").unwrap());
        for path in [&format!("{me}/clear_refs"), &format!("{me}/task/{me}/oom_score_adj"), "self/oom_score_adj"] {
            assert_eq!(write(&proc(), path.as_bytes(), b"").unwrap_err().raw_os_error(), Some(libc::EACCES), "{path}");
        }
        for path in ["oom_score_adj", "/oom_score_adj", "sys/vm/swappiness", ""] {
            assert!(write(&proc(), path.as_bytes(), b"").is_err(), "{path}");
        }
    }

    #[test]
    fn processes_are_described() {
        let me = std::process::id().to_string();
        let names: Vec<DeviceName> = postcard::from_bytes(&look(&proc(), b"", Look::Names).unwrap()).unwrap();
        assert!(names.iter().any(|n| n.name == me.as_bytes() && n.kind == libc::DT_DIR));
        let stat = look(&proc(), format!("{me}/stat").as_bytes(), Look::Content).unwrap();
        assert!(stat.starts_with(me.as_bytes()));
        let exe = look(&proc(), format!("{me}/exe").as_bytes(), Look::Link).unwrap();
        assert_eq!(exe, std::env::current_exe().unwrap().into_os_string().into_vec());
        let node: room_protocol::message::DeviceNode =
            postcard::from_bytes(&look(&proc(), format!("{me}/cwd").as_bytes(), Look::Node).unwrap()).unwrap();
        assert_eq!(node.mode & libc::S_IFMT, libc::S_IFLNK);
    }
}
