//! Whom a process has open files in common with.

use checkpoint::BodyError;
use os::in_flight;
use os::opened::{self, FileId, Holders};
use os::process::{self, FdInfo, ProcessFd};
use std::collections::{HashMap, HashSet};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Other processes than one, and what they have open and in common with it; that is found out when
/// it is asked for, once.
#[derive(Clone, Debug)]
pub struct Others {
    pid: i32,
    processes: Vec<i32>,
    open: Arc<OnceLock<Open>>,
}

/// Who has the files open that were looked for. (What else a machine's processes have open would be
/// tens of thousands.)
#[derive(Debug)]
struct Open {
    looked_for: HashSet<FileId>,
    found: Holders,
    /// Which descriptors' open files are in common: all eventfds have one inode, and then each is
    /// compared with all.
    in_common: Mutex<HashMap<(i32, FileId), bool>>,
}

impl Open {
    fn of(pid: i32, processes: &[i32], looked_for: HashSet<FileId>) -> Open {
        if looked_for.is_empty() || processes.is_empty() {
            return Open { looked_for, found: Holders::new(), in_common: Mutex::default() };
        }
        let mut on_the_way = OnTheWay::of(pid);
        let found = opened::holders(pid, &looked_for, processes, &on_the_way.waiting);
        for (file, holders) in &found {
            holders.iter().for_each(|holder| on_the_way.seen(holder.pid, holder.fd, *file));
        }
        let open = Open { looked_for, found, in_common: Mutex::default() };
        open.and(on_the_way)
    }

    /// What is on its way in messages, others have.
    fn and(mut self, on_the_way: OnTheWay) -> Open {
        let own = |file: FileId| {
            let all = opened::files_of(on_the_way.pid).unwrap_or_default().into_iter();
            all.filter(move |(_, own)| *own == file).map(|(fd, _)| fd)
        };
        let me = std::process::id() as i32;
        for carried in on_the_way.carried() {
            let Ok(file) = opened::file_of(me, carried.as_raw_fd()) else { continue };
            if !self.looked_for.contains(&file) {
                continue;
            }
            self.found.entry(file).or_default();
            let is_it = |fd: &i32| {
                process::one_file(
                    ProcessFd { pid: on_the_way.pid, fd: *fd },
                    ProcessFd { pid: me, fd: carried.as_raw_fd() },
                )
            };
            let in_common = self.in_common.get_mut().unwrap_or_else(PoisonError::into_inner);
            in_common.extend(own(file).filter(is_it).map(|fd| ((fd, file), true)));
        }
        self
    }
}

/// Sockets in which bytes wait, and with them descriptors, perhaps.
struct OnTheWay {
    pid: i32,
    waiting: HashSet<FileId>,
    /// One descriptor of each.
    sockets: HashMap<FileId, (i32, i32)>,
}

impl OnTheWay {
    /// Those that the process itself has are known already.
    fn of(pid: i32) -> OnTheWay {
        let waiting = in_flight::waiting(pid).unwrap_or_else(|e| {
            tracing::debug!("{e}");
            HashSet::new()
        });
        let mut on_the_way = OnTheWay { pid, waiting, sockets: HashMap::new() };
        if !on_the_way.waiting.is_empty() {
            let own = opened::files_of(pid).unwrap_or_default();
            own.into_iter().for_each(|(fd, file)| on_the_way.seen(pid, fd, file));
        }
        on_the_way
    }

    fn seen(&mut self, process: i32, fd: i32, file: FileId) {
        if self.waiting.contains(&file) {
            self.sockets.entry(file).or_insert((process, fd));
        }
    }

    /// Duplicates of all descriptors in them.
    fn carried(&self) -> Vec<OwnedFd> {
        let all = self.sockets.values().map(|(process, fd)| in_flight::carried(*process, *fd));
        all.flat_map(Result::unwrap_or_default).collect()
    }
}

/// Checks that no message in a socket that the process has open carries what is used by calls of
/// its own: away it would be a stand-in, of which nobody can ask that.
pub fn check_messages(pid: i32) -> Result<(), BodyError> {
    let own_calls = ["anon_inode:[timerfd]", "anon_inode:[eventpoll]"];
    let on_the_way = OnTheWay::of(pid);
    let me = std::process::id() as i32;
    for (_, fd) in on_the_way.sockets.values() {
        for carried in in_flight::carried(pid, *fd).unwrap_or_default() {
            let name = process::link(me, &format!("fd/{}", carried.as_raw_fd())).unwrap_or_default();
            if own_calls.iter().any(|own| name.as_os_str() == *own) || checkpoint::is_memory(&name) {
                let name = name.display();
                let why = format!(
                    "a message that waits in its descriptor {fd} carries a descriptor ({name}) that cannot be stood in for"
                );
                return Err(BodyError::Retryable(why));
            }
        }
    }
    Ok(())
}

impl Others {
    /// All but this one.
    pub fn beside(pid: i32) -> os::Result<Others> {
        Ok(Others::these(pid, process::all()?.into_iter().filter(|p| *p != pid).collect()))
    }

    fn these(pid: i32, processes: Vec<i32>) -> Others {
        Others { pid, processes, open: Arc::default() }
    }

    /// Those of them who were not there before.
    pub fn since(&self, before: &Others) -> Others {
        let new = self.processes.iter().copied().filter(|p| before.processes.binary_search(p).is_err());
        Others::these(self.pid, new.collect())
    }

    /// PIDs of the other processes.
    pub fn processes(&self) -> &[i32] {
        &self.processes
    }

    /// One of them has the same open file.
    pub fn have(&self, fd: i32) -> bool {
        self.with_its_file(fd, |file, open| {
            let mut in_common = open.in_common.lock().unwrap_or_else(PoisonError::into_inner);
            let candidates = || open.found.get(&file).into_iter().flatten();
            let is_one = || candidates().any(|other| process::one_file(ProcessFd { pid: self.pid, fd }, *other));
            *in_common.entry((fd, file)).or_insert_with(is_one)
        })
    }

    /// One of them has the same open file, or any end of the same pipe, if that would be
    /// `made_anew` elsewhere.
    pub fn share(&self, fd: i32, made_anew: bool) -> bool {
        let name = process::link(self.pid, &format!("fd/{fd}")).unwrap_or_default();
        let is_pipe = made_anew && name.as_os_str().as_bytes().starts_with(b"pipe:");
        // Whoever has it open, however, can map it.
        let is_memory = checkpoint::is_memory(&name);
        // The other end of a pipe may be with somebody who cannot be seen: outside the container
        // that this home is.
        if is_pipe && !has_both_ends(self.pid, &name) {
            return true;
        }
        match is_pipe || is_memory {
            true => self.with_its_file(fd, |file, open| open.found.contains_key(&file)),
            false => self.have(fd),
        }
    }

    fn with_its_file(&self, fd: i32, ask: impl FnOnce(FileId, &Open) -> bool) -> bool {
        let Ok(file) = opened::file_of(self.pid, fd) else { return false };
        let own = || opened::files_of(self.pid).unwrap_or_default().into_iter().map(|(_, file)| file).collect();
        let open = self.open.get_or_init(|| Open::of(self.pid, &self.processes, own()));
        match open.looked_for.contains(&file) {
            true => ask(file, open),
            // It was opened since.
            false => ask(file, &Open::of(self.pid, &self.processes, HashSet::from([file]))),
        }
    }
}

/// Those beside a process when it is looked at again: it stands still then, and of who was there
/// the first time is known what they have.
pub struct Company<'a> {
    now: &'a Others,
    before: Option<Before<'a>>,
}

struct Before<'a> {
    others: &'a Others,
    descriptors: &'a [(i32, FdInfo)],
    new: Others,
}

impl<'a> Company<'a> {
    /// `before`: those beside it then, and the descriptors that it had.
    pub fn new(now: &'a Others, before: Option<(&'a Others, &'a [(i32, FdInfo)])>) -> Company<'a> {
        let before = before.map(|(others, descriptors)| Before { others, descriptors, new: now.since(others) });
        Company { now, before }
    }

    /// Does the same as [`Others::share`].
    pub fn share(&self, fd: i32, info: &FdInfo, made_anew: bool) -> bool {
        let is_it = |(then, seen): &(i32, FdInfo)| *then == fd && FdInfo { offset: info.offset, ..*seen } == *info;
        match &self.before {
            Some(before) if before.descriptors.iter().any(is_it) => {
                before.others.share(fd, made_anew) || before.new.share(fd, made_anew)
            }
            _ => self.now.share(fd, made_anew),
        }
    }
}

fn has_both_ends(pid: i32, pipe: &Path) -> bool {
    let all = process::descriptors(pid).unwrap_or_default();
    let ends = all.into_iter().filter(|fd| process::link(pid, &format!("fd/{fd}")).is_ok_and(|name| name == pipe));
    let modes: Vec<i32> =
        ends.filter_map(|fd| process::fd_info(pid, fd).ok()).map(|i| i.flags & libc::O_ACCMODE).collect();
    modes.contains(&libc::O_RDONLY) && modes.contains(&libc::O_WRONLY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::process::{Child, Command, Stdio};

    /// A process that has this open, and sleeps.
    struct Sleeper(Child);

    impl Sleeper {
        fn with(input: impl Into<Stdio>) -> Sleeper {
            Sleeper(Command::new("sleep").arg("1000").stdin(input).stdout(Stdio::null()).spawn().unwrap())
        }
    }

    impl Drop for Sleeper {
        fn drop(&mut self) {
            self.0.kill().unwrap();
            self.0.wait().unwrap();
        }
    }

    #[test]
    fn who_came_since_is_looked_at_and_who_was_there_is_known() {
        let me = std::process::id() as i32;
        let counter = os::fds::event().unwrap();
        let mine = counter.as_raw_fd();
        let before = Others::beside(me).unwrap();
        assert!(!before.share(mine, false));
        let sleeper = Sleeper::with(counter.try_clone().unwrap());
        let now = Others::beside(me).unwrap();
        assert!(now.share(mine, false));
        assert!(!before.share(mine, false));
        let seen = [(mine, process::fd_info(me, mine).unwrap())];
        let company = Company::new(&now, Some((&before, &seen)));
        assert!(company.share(mine, &seen[0].1, false));
        drop(sleeper);
        assert!(now.share(mine, false), "what is known is not looked at again");
        assert!(!Others::beside(me).unwrap().share(mine, false));
    }

    #[test]
    fn what_was_opened_since_is_looked_for_among_all() {
        let me = std::process::id() as i32;
        let first = std::fs::File::open("/proc/self/exe").unwrap();
        let before = Others::beside(me).unwrap();
        assert!(!before.share(first.as_raw_fd(), false));
        let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        let _sleeper = Sleeper::with(read.try_clone().unwrap());
        let now = Others::beside(me).unwrap();
        assert!(!now.have(first.as_raw_fd()));
        // One end would do where a pipe is made anew.
        assert!(now.share(write.as_raw_fd(), true) && now.share(read.as_raw_fd(), false));
        assert!(!now.have(write.as_raw_fd()));
        let info = process::fd_info(me, write.as_raw_fd()).unwrap();
        assert!(Company::new(&now, Some((&before, &[]))).share(write.as_raw_fd(), &info, true));
    }
}
