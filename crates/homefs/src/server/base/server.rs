//! The server's parts, and how the others find a node and take on a caller's rights.

use super::answer::Call;
use crate::proto::{ROOT_ID, STANDIN_BIT};
use crate::server::outlet::Outlet;
use crate::server::state::creds::{Authority, Callers, Credentials};
use crate::server::state::events::InodeMarks;
use crate::server::state::export::OpenExport;
use crate::server::state::handles::Handles;
use crate::server::state::held::HeldFiles;
use crate::server::state::leases::Leases;
use crate::server::state::locks::Locks;
use crate::server::state::nodes::{Node, Nodes};
use crate::server::state::offers::Offers;
use crate::server::state::removed::Removed;
use crate::server::state::waiting::Waiting;
use rustix::io::{Errno, Result};
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

/// Serves the files of home to one room.
pub struct Server {
    pub(crate) exports: Vec<OpenExport>,
    pub(crate) nodes: Nodes,
    pub(crate) handles: Handles,
    pub(crate) held: HeldFiles,
    pub(crate) callers: Arc<dyn Callers>,
    pub(crate) outlet: Arc<dyn Outlet>,
    pub(crate) authority: Authority,
    pub(crate) watch: InodeMarks,
    pub(crate) leases: Arc<Leases>,
    /// Nodes whose lease is given up at the latest when the room has applied the invalidation of
    /// this number.
    pub(crate) breaking: Mutex<Vec<(u64, Arc<Node>)>>,
    pub(crate) offers: Arc<Offers>,
    pub(crate) waiting: Waiting,
    pub(crate) locks: Locks,
    pub(crate) removed: Removed,
    pub(crate) seq: AtomicU64,
    /// Locked while events are turned into invalidations, and while messages that must keep their
    /// place among them are sent.
    pub(crate) order: Mutex<Vec<u8>>,
    pub(crate) stop: OwnedFd,
    pub(crate) own_pid: i32,
}

impl Server {
    pub(crate) fn export(&self, node: &Node) -> &OpenExport {
        &self.exports[usize::from(node.export)]
    }

    /// Finds the node with this id in this mount.
    pub(crate) fn node(&self, mount: u16, id: u64) -> Option<Arc<Node>> {
        let root = &self.exports.get(usize::from(mount))?.root;
        if id == ROOT_ID {
            return Some(root.clone());
        }
        self.nodes.by_id(id & !STANDIN_BIT).filter(|node| node.export == mount && !Arc::ptr_eq(node, root))
    }

    /// Gives an O_PATH descriptor of a node. Call it before [`Server::assume`]: it may need the
    /// steward's own rights.
    pub(crate) fn path(&self, node: &Arc<Node>) -> Result<Arc<OwnedFd>> {
        self.nodes.path_fd(node, &self.export(node).any)
    }

    /// Makes this thread act as the caller, if the room hosts such a process.
    pub(crate) fn assume(&self, call: &Call<'_>) -> Result<Credentials> {
        let header = &call.request.header;
        let who = self.callers.credentials(header.pid, header.uid, header.gid).ok_or_else(|| {
            tracing::warn!(
                header.pid,
                header.uid,
                header.gid,
                "refused a request: the room hosts no process with these ids"
            );
            Errno::ACCESS
        })?;
        self.authority.assume(&who)?;
        Ok(who)
    }

    /// Makes the calling thread, which nothing else uses, act with these rights.
    pub fn act_as(&self, who: &Credentials) -> std::io::Result<()> {
        Ok(self.authority.assume(who)?)
    }

    /// Gives the calling thread, which nothing else uses, all of this process' capabilities.
    ///
    /// # Errors
    /// The kernel refuses them.
    pub fn act_as_itself(&self) -> std::io::Result<()> {
        Ok(self.authority.resume()?)
    }

    /// Gives a node's O_PATH descriptor, after starting to watch the node for changes.
    pub(crate) fn watched_path(&self, node: &Arc<Node>) -> Result<Arc<OwnedFd>> {
        let fd = self.path(node)?;
        if !node.is_watched() {
            self.authority.resume()?;
            self.watch.begin(node, &fd);
        }
        Ok(fd)
    }
}
