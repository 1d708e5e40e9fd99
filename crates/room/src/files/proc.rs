//! The home's /proc. Its entries are the home's, looked at with the rights of the deputy of who
//! asks; those of the processes that live here lead to the room's own process file system, which is
//! mounted unseen, so that what is special about them (open files, memory, namespaces) is the
//! kernel's.

pub mod killed;

use crate::files::devices;
use crate::files::devices::names;
use crate::sandbox::porter::HIDDEN_PROC as HIDDEN;
use crate::state::files::proc::place::known_as;
use crate::state::files::proc::place::{Merged, Place};
use crate::state::files::proc::table::{Proc, Step};
use crate::state::files::proc::{merge, place};
use crate::state::guests::Who;
use crate::state::home_files::is_in_home_file_system;
use crate::state::pending::Pending;
use crate::state::shared::Shared;
use crate::supervisor::room_proc as own;
use homefs::proto::{
    self, Attr, AttrOut, BatchForgetIn, ForgetIn, ForgetOne, InitIn, InitOut, NO_BLOCKS, Opcode, ReadIn, ReleaseIn,
    ReplyBuf, Request,
};
use os::ptrace::HostTid;
use room_protocol::ToHome;
use room_protocol::message::{CallId, DeviceNode, Look, StandinId};
use std::time::Duration;

/// How long the kernel may believe what was said of a process: long enough for one look at it, too
/// short to be noticed.
const VALID: Duration = Duration::from_millis(20);
/// Size of the link that is a descriptor (proc_fd_instantiate in fs/proc/fd.c).
const DESCRIPTOR_SIZE: u64 = 64;
const FOR_EVER: Duration = Duration::from_secs(1 << 32);

/// A request, and who makes it.
struct ProcRequest<'a> {
    room: &'a Shared,
    request: &'a Request<'a>,
    asker: Option<(HostTid, Who)>,
}

type Served = Result<(), i32>;

/// Serves the device until the room is gone; one such thread is enough, for none of its answers
/// waits.
pub fn serve(room: &Shared) {
    let mut buffer = vec![0; proto::MAX_REQUEST_BYTES];
    loop {
        match rustix::io::read(&room.proc.device.0, &mut buffer) {
            Ok(n) => match Request::parse(&buffer[..n]) {
                Ok(request) => {
                    let asker = room.process_of(request.header.pid);
                    // The asking thread waits in the kernel, where no signal ends the wait.
                    if room.contain(asker, || handle(room, &request)).is_none() {
                        room.proc.device.error(request.header.unique, libc::EIO);
                    }
                }
                Err(e) => tracing::error!("/proc: {e}"),
            },
            Err(rustix::io::Errno::NODEV) => return,
            // Not mounted yet: the porter is about to.
            Err(rustix::io::Errno::PERM) => std::thread::sleep(homefs::client::UNTIL_MOUNTED),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::NOENT | rustix::io::Errno::AGAIN) => {}
            Err(e) => {
                tracing::error!("reading requests for /proc: {e}");
                return;
            }
        }
    }
}

/// Serves one request.
pub fn handle(room: &Shared, request: &Request<'_>) {
    let asked = ProcRequest { room, request, asker: devices::asker(room, request) };
    let done = match request.opcode {
        Some(Opcode::Init) => asked.negotiate(),
        Some(Opcode::Forget | Opcode::BatchForget) => return asked.forget(),
        Some(Opcode::Interrupt) => return,
        Some(Opcode::Lookup) => asked.lookup(),
        Some(Opcode::Getattr) => asked.attributes(),
        Some(Opcode::Readlink) => asked.text(),
        Some(Opcode::Opendir) => asked.list(),
        Some(Opcode::Open) => asked.open(),
        Some(Opcode::Read) => asked.read(),
        Some(Opcode::Readdir) => asked.read_names(),
        Some(Opcode::Release | Opcode::Releasedir) => asked.release(),
        Some(Opcode::Setattr) => asked.change(),
        Some(Opcode::Write) => asked.write(),
        Some(Opcode::Statfs) => {
            room.proc.device.value(request.header.unique, &NO_BLOCKS);
            Ok(())
        }
        _ => Err(libc::ENOSYS),
    };
    if let Err(errno) = done {
        room.proc.device.error(request.header.unique, errno);
    }
}

/// Home has answered.
pub fn answered(room: &Shared, unique: u64, result: i64, out: &[u8]) {
    let proc = &room.proc;
    let Some(step) = proc.lock().asked.remove(&unique) else { return };
    let done = if result < 0 { Err(-result as i32) } else { go_on(room, unique, step, out) };
    if let Err(errno) = done {
        proc.device.error(unique, errno);
    }
}

fn go_on(room: &Shared, unique: u64, step: Step, out: &[u8]) -> Served {
    let proc = &room.proc;
    let node = || postcard::from_bytes::<DeviceNode>(out).map_err(|_| libc::EIO);
    match step {
        Step::Lookup(path) => proc.found(unique, &path, names::attributes(0, &node()?), VALID),
        Step::Attributes(id) => {
            let attr = Attr { ino: id, ..names::attributes(id, &node()?) };
            proc.device.value(unique, &AttrOut { attr_valid_nsec: VALID.subsec_nanos(), attr, ..AttrOut::default() });
        }
        Step::Text => proc.device.bytes(unique, out),
        Step::Again(link) if !out.starts_with(b"/") || out.ends_with(b" (deleted)") => {
            proc.device.bytes(unique, link.as_bytes());
        }
        Step::Again(_) => proc.device.bytes(unique, out),
        Step::List => proc.open_listing(unique, postcard::from_bytes(out).map_err(|_| libc::EIO)?),
        Step::Content => proc.open_file(unique, out.to_vec()),
        Step::Info(host, fd) => {
            let flags = os::process::fd_info(host.0, fd).map_err(|_| libc::ENOENT)?.flags;
            proc.open_file(unique, merge::info(&String::from_utf8_lossy(out), flags).into_bytes());
        }
        Step::Locks(host, fd) => {
            let info = own::bytes(host, &format!("fdinfo/{fd}")).ok_or(libc::ENOENT)?;
            proc.open_file(unique, [info.as_slice(), out].concat());
        }
        Step::Written(..) => killed::written(room, unique, step, out),
        Step::Merge(host, what, asker) => {
            let home = String::from_utf8_lossy(out);
            let merged = match what {
                Merged::Stat => {
                    let away = {
                        let guests = room.guests();
                        guests.who(host).map(|who| guests.ticks_away(who.pid)).unwrap_or_default()
                    };
                    own::content(host, "stat").and_then(|room| merge::stat(&home, &room, asker, away))
                }
                Merged::Status => own::content(host, "status").map(|room| merge::status(&home, &room, asker)),
                Merged::Limits => own::content(host, "limits").map(|room| merge::limits(&home, &room)),
            };
            proc.open_file(unique, merged.ok_or(libc::ESRCH)?.into_bytes());
        }
    }
    Ok(())
}

impl ProcRequest<'_> {
    fn unique(&self) -> u64 {
        self.request.header.unique
    }

    fn proc(&self) -> &Proc {
        &self.room.proc
    }

    fn path(&self) -> Result<Vec<u8>, i32> {
        self.proc().lock().nodes.path(self.request.header.nodeid).map(<[u8]>::to_vec).ok_or(libc::ESTALE)
    }

    fn place(&self, path: &[u8]) -> Place {
        let place = {
            let guests = self.room.guests();
            let runs = |pid| guests.get(pid).is_some_and(|guest| guest.runs);
            place::of(path, runs, |pid| guests.get(pid).is_some_and(|guest| guest.has_moved))
        };
        match &place {
            Place::Inside(pid, rest) => self.described_at_home(*pid, rest).unwrap_or(place),
            _ => place,
        }
    }

    /// What is known of a descriptor that stays at home, home's kernel says.
    fn described_at_home(&self, pid: i32, rest: &str) -> Option<Place> {
        let fd = place::described(rest)?;
        let host = self.host(pid).ok()?;
        let Some(standin) = self.room.kept_at_home(host, fd) else {
            // Of locks home knows, too.
            return is_in_home_file_system(host, fd).then_some(Place::Lockable(pid, fd));
        };
        let number = self.room.guests().get(pid)?.numbers.get(&standin).copied()?;
        Some(Place::Info(pid, fd, number))
    }

    /// A thread of a process that lives here.
    fn host(&self, pid: i32) -> Result<HostTid, i32> {
        let guests = self.room.guests();
        let any = || guests.threads_of(pid).first().map(|(host, _)| *host);
        guests.host(pid).or_else(any).ok_or(libc::ENOENT)
    }

    /// Returns whether the asker may look into this process: the asker is root, or its owner.
    fn may_look_into(&self, host: HostTid) -> Result<bool, i32> {
        let owner = own::owner(host).ok_or(libc::ENOENT)?;
        let asker = (self.request.header.uid, self.request.header.gid);
        Ok(asker.0 == 0 || asker == owner)
    }

    fn ask(&self, path: Vec<u8>, look: Look, step: Step) -> Served {
        self.expect(step, |id, pid| ToHome::Inspect { id, pid, path, look })
    }

    /// Asks home, whose answer is used by `step`.
    fn expect(&self, step: Step, question: impl FnOnce(CallId, i32) -> ToHome) -> Served {
        let (pid, unique) = (self.asker.map_or(0, |(_, who)| who.pid), self.unique());
        self.proc().lock().asked.insert(unique, step);
        let id = self.room.home.expect(Pending::Proc { pid, unique });
        self.room.tell(&question(id, pid));
        Ok(())
    }

    fn negotiate(&self) -> Served {
        let init: InitIn = self.request.args().take().map_err(|_| libc::EPROTO)?;
        let reply = InitOut {
            major: proto::KERNEL_VERSION,
            minor: init.minor.min(proto::KERNEL_MINOR_VERSION),
            flags: (proto::init::PARALLEL_DIROPS | proto::init::MAX_PAGES) as u32,
            max_background: 64,
            congestion_threshold: 48,
            max_write: 4096,
            time_gran: 1,
            max_pages: 32,
            ..InitOut::default()
        };
        self.proc().device.value(self.unique(), &reply);
        Ok(())
    }

    fn forget(&self) {
        let mut args = self.request.args();
        let mut state = self.proc().lock();
        if self.request.opcode == Some(Opcode::Forget) {
            let lookups = args.take::<ForgetIn>().map_or(0, |forget| forget.nlookup);
            return state.nodes.forget(self.request.header.nodeid, lookups);
        }
        let count = args.take::<BatchForgetIn>().map_or(0, |batch| batch.count);
        for one in (0..count).map_while(|_| args.take::<ForgetOne>().ok()) {
            state.nodes.forget(one.nodeid, one.nlookup);
        }
    }

    fn lookup(&self) -> Served {
        os::fault::past("look there");
        let name = self.request.args().name().map_err(|_| libc::ENOENT)?.to_bytes();
        let path = self.proc().lock().nodes.below(self.request.header.nodeid, name).ok_or(libc::ESTALE)?;
        let place = self.place(&path);
        if place == Place::Home {
            return self.ask(path.clone(), Look::Node, Step::Lookup(path));
        }
        let valid = match place {
            Place::Hidden | Place::Myself | Place::MyThread | Place::Link(_) => FOR_EVER,
            Place::Process(_) => VALID,
            _ => Duration::ZERO,
        };
        self.proc().found(self.unique(), &path, self.own_attributes(&place)?, valid);
        Ok(())
    }

    fn attributes(&self) -> Served {
        let (id, path) = (self.request.header.nodeid, self.path()?);
        let place = self.place(&path);
        if place == Place::Home {
            return self.ask(path, Look::Node, Step::Attributes(id));
        }
        let attr = Attr { ino: id, ..self.own_attributes(&place)? };
        self.proc().device.value(self.unique(), &AttrOut { attr, ..AttrOut::default() });
        Ok(())
    }

    /// Attributes of what is not the home's; an error if it is not there.
    fn own_attributes(&self, place: &Place) -> Result<Attr, i32> {
        let link = libc::S_IFLNK | 0o777;
        let (pid, mode) = match place {
            Place::Root | Place::Hidden | Place::Home => (None, libc::S_IFDIR | 0o555),
            Place::Myself | Place::MyThread | Place::Link(_) => (None, link),
            Place::Process(pid) => (Some(*pid), libc::S_IFDIR | 0o555),
            Place::Descriptors(pid) => (Some(*pid), libc::S_IFDIR | 0o500),
            Place::Infos(pid) => (Some(*pid), libc::S_IFDIR | 0o555),
            Place::Merged(pid, _) | Place::Maps(pid, _) | Place::Info(pid, ..) | Place::Lockable(pid, _) => {
                (Some(*pid), libc::S_IFREG | 0o444)
            }
            Place::Leads(pid, _) => (Some(*pid), link),
            Place::Descriptor(pid, fd) => {
                (Some(*pid), own::mode(self.host(*pid)?, &format!("fd/{fd}")).ok_or(libc::ENOENT)?)
            }
            Place::Inside(pid, rest) if own::has(self.host(*pid)?, rest) => (Some(*pid), link),
            Place::Inside(..) => return Err(libc::ENOENT),
        };
        let (uid, gid) = match pid {
            Some(pid) => own::owner(self.host(pid)?).ok_or(libc::ENOENT)?,
            None => (0, 0),
        };
        let now = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
        let nlink = if mode & libc::S_IFMT == libc::S_IFDIR { 2 } else { 1 };
        let size = if matches!(place, Place::Descriptor(..)) { DESCRIPTOR_SIZE } else { 0 };
        Ok(Attr { mode, size, uid, gid, nlink, atime: now, mtime: now, ctime: now, blksize: 1024, ..Attr::default() })
    }

    /// Where a link leads.
    fn text(&self) -> Served {
        let path = self.path()?;
        let text = match self.place(&path) {
            Place::Myself => self.asker.map_or(format!("{HIDDEN}/self"), |(_, who)| who.pid.to_string()),
            Place::MyThread => {
                let of = |(_, who): (HostTid, Who)| format!("{}/task/{}", who.pid, who.tid);
                self.asker.map_or(format!("{HIDDEN}/thread-self"), of)
            }
            Place::Link(text) => text,
            Place::Inside(pid, rest) => {
                let up = "../".repeat(1 + rest.matches('/').count());
                format!("{up}{HIDDEN}/{pid}/{rest}")
            }
            Place::Leads(pid, name) => match self.shown(pid, &name, name.as_bytes())? {
                Some(text) => return self.answer_text(&text),
                None => format!("../{HIDDEN}/{pid}/{name}"),
            },
            Place::Descriptor(pid, fd) => return self.descriptor(pid, fd),
            Place::Home => return self.ask(path, Look::Link, Step::Text),
            _ => return Err(libc::EINVAL),
        };
        self.answer_text(text.as_bytes())
    }

    fn answer_text(&self, text: &[u8]) -> Served {
        self.proc().device.bytes(self.unique(), text);
        Ok(())
    }

    /// The text of a link whose text is asked for; nothing if it is followed.
    fn shown(&self, pid: i32, rest: &str, name: &[u8]) -> Result<Option<Vec<u8>>, i32> {
        if !self.asker.is_some_and(|(asker, _)| own::asks_for_text(asker, name)) {
            return Ok(None);
        }
        let host = self.host(pid)?;
        match self.may_look_into(host)? {
            true => own::text(host, rest).map(Some).ok_or(libc::ENOENT),
            false => Err(libc::EACCES),
        }
    }

    /// A descriptor: what stays at home is called as it is called there.
    fn descriptor(&self, pid: i32, fd: i32) -> Served {
        let Some(text) = self.shown(pid, &format!("fd/{fd}"), fd.to_string().as_bytes())? else {
            return self.follow(pid, fd);
        };
        match self.room.kept_at_home(self.host(pid)?, fd) {
            Some(standin) => self.ask_name(pid, standin, Step::Text),
            None => self.answer_text(&known_as(&text)),
        }
    }

    /// Whoever follows the link comes to the very file; but what stays at home is to be opened anew
    /// there, with an offset of its own.
    fn follow(&self, pid: i32, fd: i32) -> Served {
        let link = format!("../../{HIDDEN}/{pid}/fd/{fd}");
        let host = self.host(pid)?;
        let may = self.asker.is_some() && self.may_look_into(host)?;
        match self.room.standin_of(host, fd).filter(|standin| may && standin.is_file()) {
            Some(standin) => self.ask_name(pid, standin, Step::Again(link)),
            None => self.answer_text(link.as_bytes()),
        }
    }

    fn ask_name(&self, pid: i32, standin: StandinId, step: Step) -> Served {
        let unique = self.unique();
        self.proc().lock().asked.insert(unique, step);
        let id = self.room.home.expect(Pending::Proc { pid, unique });
        self.room.tell(&ToHome::NameOf { id, standin });
        Ok(())
    }

    fn list(&self) -> Served {
        let path = self.path()?;
        let names = match self.place(&path) {
            Place::Process(pid) => own::names(self.host(pid)?, ""),
            Place::Descriptors(pid) => own::names(self.host(pid)?, "fd"),
            Place::Infos(pid) => own::names(self.host(pid)?, "fdinfo"),
            Place::Root | Place::Home => return self.ask(path, Look::Names, Step::List),
            _ => return Err(libc::ENOTDIR),
        };
        self.proc().open_listing(self.unique(), names);
        Ok(())
    }

    fn open(&self) -> Served {
        let path = self.path()?;
        match self.place(&path) {
            Place::Merged(pid, what) => {
                let host = self.host(pid)?;
                let may_see_all = self.may_look_into(host)?;
                let is_itself = self.asker.is_some_and(|(_, who)| who.tid == pid);
                self.ask(path, Look::Content, Step::Merge(host, what, merge::Asker { may_see_all, is_itself }))
            }
            Place::Info(pid, fd, number) => {
                let path = format!("{pid}/fdinfo/{number}").into_bytes();
                self.ask(path, Look::Content, Step::Info(self.host(pid)?, fd))
            }
            Place::Lockable(pid, fd) => {
                let host = self.host(pid)?;
                if !self.may_look_into(host)? {
                    return Err(libc::EACCES);
                }
                let inode = os::process::fd_info(host.0, fd).map_err(|_| libc::ENOENT)?.inode;
                self.expect(Step::Locks(host, fd), |id, _| ToHome::LocksOf { id, pid, inode })
            }
            Place::Maps(pid, name) => {
                let host = self.host(pid)?;
                if !self.may_look_into(host)? {
                    return Err(libc::EACCES);
                }
                let content = own::bytes(host, name).ok_or(libc::ESRCH)?;
                self.proc().open_file(self.unique(), self.room.device_numbers.maps(&content));
                Ok(())
            }
            Place::Home => match place::is_killed_by(&path) {
                Some(_) if self.opens_for_writing()? => self.write_at_home(path, Vec::new(), Step::Content),
                _ => self.ask(path, Look::Content, Step::Content),
            },
            _ => Err(libc::EACCES),
        }
    }

    fn read(&self) -> Served {
        let read: ReadIn = self.request.args().take().map_err(|_| libc::EPROTO)?;
        let file = self.proc().lock().files.get(&read.fh).cloned().ok_or(libc::EBADF)?;
        let from = usize::try_from(read.offset).unwrap_or(usize::MAX).min(file.len());
        let to = from.saturating_add(read.size as usize).min(file.len());
        self.proc().device.bytes(self.unique(), &file[from..to]);
        Ok(())
    }

    fn read_names(&self) -> Served {
        let read: ReadIn = self.request.args().take().map_err(|_| libc::EPROTO)?;
        let listing = self.proc().lock().listings.get(&read.fh).cloned().ok_or(libc::EBADF)?;
        let mut reply = ReplyBuf::default();
        reply.clear();
        names::list(&listing, read.offset, read.size as usize, &mut reply);
        self.proc().device.reply(reply.finish(self.unique()));
        Ok(())
    }

    fn release(&self) -> Served {
        let release: ReleaseIn = self.request.args().take().map_err(|_| libc::EPROTO)?;
        let mut state = self.proc().lock();
        state.files.remove(&release.fh);
        state.listings.remove(&release.fh);
        self.proc().device.error(self.unique(), 0);
        Ok(())
    }
}
