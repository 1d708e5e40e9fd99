//! The open files of the room: the handles that home gave out for open files and directories.

use super::creds::Credentials;
use super::file_id::FileId;
use super::listing::Listing;
use super::mutex::lock;
use super::nodes::Node;
use super::vault::{Slot, Vaults};
use rustix::io::{Errno, Result};
use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// One open file description of the room.
pub(crate) struct Open {
    pub(crate) node: Arc<Node>,
    pub(crate) file: Arc<OwnedFd>,
    pub(crate) kind: Kind,
    /// The credentials of the opener. Writes by threads that home does not know run with them.
    pub(crate) opener: Credentials,
}

#[derive(Clone)]
pub(crate) enum Kind {
    /// Open read-only; `cached` tells whether the room's kernel keeps what it reads.
    Reader {
        cached: bool,
    },
    /// Open for writing, and perhaps for reading. The lock orders appends.
    Writer {
        cached: bool,
        appends: Arc<Mutex<()>>,
        /// The error of a write that was behind: those behind it fail likewise, so that they leave
        /// no gap. The next write that the guest waits for ends that.
        failed: Arc<AtomicI32>,
    },
    Dir(Arc<Mutex<Listing>>),
    /// A FIFO, open through its stand-in.
    Stream,
}

/// The most files that the room may have open at home.
const OPEN_MAX: usize = 1 << 20;
/// The most files that are checked to find one that may go into a vault.
const LOOKS_MAX: usize = 64;

pub(crate) struct Handles {
    /// The most files in this process' own table of descriptors, as far as others can go into a
    /// vault.
    most_here: usize,
    vaults: Vaults,
    table: Mutex<Table>,
    last: AtomicU64,
}

#[derive(Default)]
struct Table {
    open: HashMap<u64, Entry>,
    /// Handles of the files in this table, and of some that were: the least recently used first.
    here: VecDeque<u64>,
    /// The number of files in this table.
    here_count: usize,
}

/// An open file, and the place where it is.
enum Entry {
    Here {
        open: Arc<Open>,
        /// Whether the file was used since the last check.
        is_used: bool,
    },
    InVault(Stored),
}

/// A file in a vault, with the facts that are needed without it.
struct Stored {
    slot: Slot,
    node: Arc<Node>,
    kind: Kind,
    opener: Credentials,
    file: FileId,
}

impl Entry {
    fn node(&self) -> &Arc<Node> {
        match self {
            Entry::Here { open, .. } => &open.node,
            Entry::InVault(stored) => &stored.node,
        }
    }

    fn kind(&self) -> &Kind {
        match self {
            Entry::Here { open, .. } => &open.kind,
            Entry::InVault(stored) => &stored.kind,
        }
    }

    fn file(&self) -> Option<FileId> {
        match self {
            Entry::Here { open, .. } => FileId::of(&open.file).ok(),
            Entry::InVault(stored) => Some(stored.file),
        }
    }
}

impl Handles {
    /// Creates the table. `table` is the number of descriptors that one table holds.
    pub(crate) fn new(most_here: usize, table: usize) -> Handles {
        Handles { most_here, vaults: Vaults::new(table), table: Mutex::default(), last: AtomicU64::new(0) }
    }

    /// Gives a handle that was never given out.
    pub(crate) fn next(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn insert(&self, fh: u64, open: Open) -> Result<()> {
        let mut table = lock(&self.table);
        if table.open.len() >= OPEN_MAX {
            return Err(Errno::NFILE);
        }
        self.put_here(&mut table, fh, Arc::new(open));
        Ok(())
    }

    fn put_here(&self, table: &mut Table, fh: u64, open: Arc<Open>) {
        table.open.insert(fh, Entry::Here { open, is_used: true });
        table.here.push_back(fh);
        table.here_count += 1;
        // Handles of closed files are removed.
        if table.here.len() > 2 * table.here_count + LOOKS_MAX {
            let Table { open, here, .. } = table;
            here.retain(|fh| matches!(open.get(fh), Some(Entry::Here { .. })));
        }
        for _ in 0..LOOKS_MAX {
            if table.here_count <= self.most_here {
                return;
            }
            let Some(oldest) = table.here.pop_front() else { return };
            if self.store(table, oldest) == Some(false) {
                table.here.push_back(oldest);
            }
        }
    }

    /// Puts an open file into a vault, unless it is in use. `None` if the file is not in this table
    /// any more.
    fn store(&self, table: &mut Table, fh: u64) -> Option<bool> {
        let Entry::Here { open, is_used } = table.open.get_mut(&fh)? else { return None };
        // A lease, a lock, or a request under way uses it, too.
        let is_held = Arc::strong_count(open) > 1 || Arc::strong_count(&open.file) > 1;
        if std::mem::take(is_used) || is_held {
            return Some(false);
        }
        let stored = FileId::of(&open.file).and_then(|file| Ok((file, self.vaults.keep(open.file.as_fd())?)));
        let Ok((file, slot)) = stored else { return Some(false) };
        let (node, kind, opener) = (open.node.clone(), open.kind.clone(), open.opener.clone());
        table.open.insert(fh, Entry::InVault(Stored { slot, node, kind, opener, file }));
        table.here_count -= 1;
        Some(true)
    }

    /// Takes an open file out of its vault, if it is in one.
    fn fetch(&self, table: &mut Table, fh: u64) -> Result<Arc<Open>> {
        let Stored { slot, node, kind, opener, .. } = match table.open.get_mut(&fh) {
            Some(Entry::Here { open, is_used }) => {
                *is_used = true;
                return Ok(open.clone());
            }
            Some(Entry::InVault(stored)) => stored,
            None => return Err(Errno::BADF),
        };
        let file = Arc::new(self.vaults.take(slot)?);
        let open = Arc::new(Open { node: node.clone(), file, kind: kind.clone(), opener: opener.clone() });
        self.put_here(table, fh, open.clone());
        Ok(open)
    }

    /// Gives the open file of this handle, if the handle was given out for this node.
    pub(crate) fn get(&self, fh: u64, node: u64) -> Result<Arc<Open>> {
        let mut table = lock(&self.table);
        table.open.get(&fh).filter(|entry| entry.node().id == node).ok_or(Errno::BADF)?;
        self.fetch(&mut table, fh)
    }

    /// Removes a handle from the table.
    pub(crate) fn remove(&self, fh: u64, node: u64) -> Option<Arc<Open>> {
        let mut table = lock(&self.table);
        table.open.get(&fh).filter(|entry| entry.node().id == node)?;
        self.take_out(&mut table, fh)
    }

    fn take_out(&self, table: &mut Table, fh: u64) -> Option<Arc<Open>> {
        let open = self
            .fetch(table, fh)
            .inspect_err(|errno| tracing::warn!(%errno, "cannot take an open file out of its vault"))
            .ok()?;
        table.open.remove(&fh);
        table.here_count -= 1;
        Some(open)
    }

    /// Tells whether the handle is of a FIFO.
    pub(crate) fn is_stream(&self, fh: u64) -> bool {
        lock(&self.table).open.get(&fh).is_some_and(|entry| matches!(entry.kind(), Kind::Stream))
    }

    /// Lists all handles of this file that are open for writing.
    pub(crate) fn written(&self, file: FileId) -> Vec<(u64, Arc<Open>)> {
        self.select(|entry| matches!(entry.kind(), Kind::Writer { .. }) && entry.file() == Some(file))
    }

    /// Lists all handles of files with this inode number in the exports meant that are open for
    /// writing.
    pub(crate) fn written_in(&self, is_meant: impl Fn(u16) -> bool, inode: u64) -> Vec<(u64, Arc<Open>)> {
        self.select(|entry| {
            matches!(entry.kind(), Kind::Writer { .. })
                && is_meant(entry.node().export)
                && entry.file().is_some_and(|file| file.inode == inode)
        })
    }

    /// Finds an open file of an export by its inode number.
    pub(crate) fn find(&self, export: u16, inode: u64) -> Option<Arc<Open>> {
        let mut table = lock(&self.table);
        let is_it =
            |entry: &Entry| entry.node().export == export && entry.file().is_some_and(|file| file.inode == inode);
        let fh = table.open.iter().find(|(_, entry)| is_it(entry)).map(|(fh, _)| *fh)?;
        self.fetch(&mut table, fh).ok()
    }

    fn select(&self, wanted: impl Fn(&Entry) -> bool) -> Vec<(u64, Arc<Open>)> {
        let mut table = lock(&self.table);
        let found: Vec<u64> = table.open.iter().filter(|(_, entry)| wanted(entry)).map(|(fh, _)| *fh).collect();
        found.into_iter().filter_map(|fh| Some((fh, self.fetch(&mut table, fh).ok()?))).collect()
    }

    /// Removes all handles of an export.
    pub(crate) fn remove_export(&self, export: u16) -> Vec<(u64, Arc<Open>)> {
        let mut table = lock(&self.table);
        let of_it = |entry: &Entry| entry.node().export == export;
        let found: Vec<u64> = table.open.iter().filter(|(_, entry)| of_it(entry)).map(|(fh, _)| *fh).collect();
        found.into_iter().filter_map(|fh| Some((fh, self.take_out(&mut table, fh)?))).collect()
    }
}
