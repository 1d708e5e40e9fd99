//! Terminals: pseudo-terminals, consoles and serial lines.

use std::collections::HashMap;
use std::fs::Metadata;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

/// Names of terminals in /dev that a number follows.
const LINES: [&str; 7] = ["tty", "ttyS", "ttyAMA", "ttyUSB", "ttyACM", "hvc", "xvc"];

/// A terminal that is watched.
#[derive(Debug)]
struct Terminal {
    atime: SystemTime,
    /// The watch of it, if the kernel gave one.
    watch: Option<i32>,
    device: u64,
}

/// All terminals of the machine.
#[derive(Debug)]
pub(super) struct Terminals {
    devices: PathBuf,
    /// The only one that counts, for tests.
    only: Option<PathBuf>,
    inotify: Option<OwnedFd>,
    /// The terminals that were there at the beginning are known.
    begun: bool,
    all: HashMap<PathBuf, Terminal>,
}

impl Terminals {
    pub(super) fn new(devices: &Path) -> Terminals {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok();
        Terminals { devices: devices.to_owned(), only: None, inotify, begun: false, all: HashMap::new() }
    }

    #[cfg(test)]
    pub(super) fn of(devices: &Path, only: PathBuf) -> Terminals {
        Terminals { only: Some(only), ..Terminals::new(devices) }
    }

    /// Looks at all terminals. Gives whether one has been opened since the last look, or one that
    /// cannot be watched has been read from.
    pub(super) fn look(&mut self) -> bool {
        let found: HashMap<PathBuf, Metadata> = self.list().into_iter().collect();
        // The kernel drops the watch of a terminal that is gone.
        self.all.retain(|path, known| found.get(path).is_some_and(|now| now.rdev() == known.device));
        let mut any = false;
        for (path, now) in found {
            let atime = atime(&now);
            match self.all.get_mut(&path) {
                Some(known) => {
                    // A watched one has told of its input already, up to two seconds ago.
                    any |= atime > known.atime && known.watch.is_none();
                    known.atime = atime;
                }
                None => {
                    let watch = self.inotify.as_ref();
                    let watch = watch.and_then(|i| inotify::add_watch(i, path.as_path(), WatchFlags::ACCESS).ok());
                    any |= self.begun;
                    self.all.insert(path, Terminal { atime, watch, device: now.rdev() });
                }
            }
        }
        self.begun = true;
        any
    }

    fn list(&self) -> Vec<(PathBuf, Metadata)> {
        let numbered = |dir: PathBuf, prefixes: &'static [&str]| {
            let is_terminal = move |name: &str| {
                let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
                stem.len() < name.len() && prefixes.contains(&stem)
            };
            let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
            entries.filter(move |entry| entry.file_name().to_str().is_some_and(is_terminal)).map(|entry| entry.path())
        };
        let all = numbered(self.devices.join("pts"), &[""]).chain(numbered(self.devices.clone(), &LINES));
        all.filter(|path| self.only.as_ref().is_none_or(|only| only == path))
            .filter_map(|path| std::fs::metadata(&path).ok().map(|found| (path, found)))
            .filter(|(_, found)| found.file_type().is_char_device())
            .collect()
    }

    /// Takes all events that have come. Gives whether a program has read from a terminal.
    pub(super) fn take(&mut self) -> bool {
        let Some(inotify) = &self.inotify else { return false };
        let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(inotify, &mut buffer);
        let mut any = false;
        while let Ok(event) = events.next() {
            any |= event.events().contains(inotify::ReadFlags::ACCESS);
        }
        any
    }

    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().map(|inotify| inotify.as_fd())
    }

    /// Gives the last input on any of them.
    pub(super) fn last(&self) -> Option<SystemTime> {
        self.all.values().map(|terminal| terminal.atime).max()
    }

    pub(super) fn found(&self) -> Result<String, String> {
        let mut names: Vec<String> = self.all.keys().map(|path| path.display().to_string()).collect();
        names.sort();
        let unwatched = self.all.values().filter(|terminal| terminal.watch.is_none()).count();
        match unwatched {
            _ if names.is_empty() => Err("none is open".into()),
            0 => Ok(super::words::counted(&names)),
            _ => Err(format!("{unwatched} cannot be watched (inotify): keys are seen within 2 s")),
        }
    }
}

fn atime(metadata: &Metadata) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(u64::try_from(metadata.atime()).unwrap_or(0))
}
