//! What the room has open: the numbers that the home gave out for open files and directories.

use super::creds::Credentials;
use super::dirs::Listing;
use super::lock;
use super::nodes::Node;
use rustix::io::{Errno, Result};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// One open file description of the room.
pub(super) struct Open {
    pub(super) node: Arc<Node>,
    pub(super) file: Arc<OwnedFd>,
    pub(super) kind: Kind,
    /// Who opened it: writes by threads that the home does not know run as this one.
    pub(super) opener: Credentials,
}

pub(super) enum Kind {
    /// Read-only; cached says whether the room's kernel keeps what it reads.
    Reader {
        cached: bool,
    },
    /// Open for writing, and perhaps for reading; cached as above. The lock orders appends.
    Writer {
        cached: bool,
        appends: Mutex<()>,
    },
    Dir(Mutex<Listing>),
    /// A FIFO, through its stand-in.
    Stream,
}

pub(super) struct Handles {
    /// Most files that the room may have open at home.
    most_open: usize,
    open: Mutex<HashMap<u64, Arc<Open>>>,
    last: AtomicU64,
}

impl Handles {
    pub(super) fn new(most_open: usize) -> Handles {
        Handles { most_open, open: Mutex::default(), last: AtomicU64::new(0) }
    }

    /// A number that was never given out.
    pub(super) fn next(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn insert(&self, fh: u64, open: Open) -> Result<()> {
        let mut table = lock(&self.open);
        if table.len() >= self.most_open {
            return Err(Errno::NFILE);
        }
        table.insert(fh, Arc::new(open));
        Ok(())
    }

    /// What this number stands for, if it was given out for this node.
    pub(super) fn get(&self, fh: u64, node: u64) -> Result<Arc<Open>> {
        lock(&self.open).get(&fh).filter(|open| open.node.id == node).cloned().ok_or(Errno::BADF)
    }

    pub(super) fn remove(&self, fh: u64, node: u64) -> Option<Arc<Open>> {
        let mut table = lock(&self.open);
        table.get(&fh).filter(|open| open.node.id == node)?;
        table.remove(&fh)
    }

    /// It is a FIFO.
    pub(super) fn is_stream(&self, fh: u64) -> bool {
        lock(&self.open).get(&fh).is_some_and(|open| matches!(open.kind, Kind::Stream))
    }

    /// What is open for writing.
    pub(super) fn written(&self) -> Vec<(u64, Arc<Open>)> {
        let table = lock(&self.open);
        let written = table.iter().filter(|(_, open)| matches!(open.kind, Kind::Writer { .. }));
        written.map(|(fh, open)| (*fh, open.clone())).collect()
    }

    /// All that belongs to an export.
    pub(super) fn of_export(&self, export: u16) -> Vec<Arc<Open>> {
        lock(&self.open).values().filter(|open| open.node.export == export).cloned().collect()
    }

    /// Takes out all that belongs to an export.
    pub(super) fn remove_export(&self, export: u16) -> Vec<(u64, Arc<Open>)> {
        lock(&self.open).extract_if(|_, open| open.node.export == export).collect()
    }
}
