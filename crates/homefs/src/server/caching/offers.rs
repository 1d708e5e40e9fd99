//! Offers: files that the room has open under a lease are hashed in the background, so that the
//! room may read an equal file of its node.
//!
//! There is one offer per lease, and it ends with the lease: either the room is told to forget the
//! content, or the offer is withdrawn before the lease is given up. Nothing waits for an offer.

use crate::digest::{self, Digests, Version};
use crate::offer::{self, Content, Offer};
use crate::server::Server;
use crate::server::state::mutex::lock;
use crate::server::state::nodes::Node;
use crate::server::state::proc_path::proc_path;
use crate::sys;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Server {
    /// Starts the thread that hashes. Without it nothing is offered.
    pub(crate) fn start_offers(server: &Arc<Server>) -> std::io::Result<()> {
        let (offers, weak) = (server.offers.clone(), Arc::downgrade(server));
        std::thread::Builder::new().name("offers".into()).spawn(move || {
            sys::let_others_first();
            let mut digests = Digests::default();
            while let Some(node) = offers.next() {
                let Some(server) = weak.upgrade() else { return };
                if let Some(node) = node.upgrade()
                    && let Err(error) = server.offer(&node, &mut digests)
                {
                    tracing::debug!(node = node.id, %error, "the file is not offered");
                }
            }
        })?;
        Ok(())
    }

    fn offer(&self, node: &Arc<Node>, digests: &mut Digests) -> std::io::Result<()> {
        let Some((file, lease)) = lock(&node.content).leased() else { return Ok(()) };
        let Some(path) = self.path_at_home(node, &file) else { return Ok(()) };
        if !digest::tells_of_changes(&*file) {
            return Ok(());
        }
        let file = File::from(file.try_clone()?);
        let version = Version::of(&file)?;
        let go_on = || lock(&node.content).is_leased(lease) && !self.offers.is_closed();
        let Some(hash) = digests.of(&file, &version, go_on)? else { return Ok(()) };
        let content = Some(Content { size_bytes: version.size_bytes, hash, path });
        let offer = Offer { mount: node.export, node: self.room_id(node), content };
        // The lock is held during the sending, so that the message that ends the lease is sent
        // afterwards.
        let mut state = lock(&node.content);
        if state.is_leased(lease) {
            state.offered = true;
            self.outlet.offer(self.flush_events(), &offer);
        }
        Ok(())
    }

    /// Withdraws the offer of a node. The room need not forget what it has read.
    pub(crate) fn withdraw(&self, node: &Node) {
        let offer = Offer { mount: node.export, node: self.room_id(node), content: None };
        self.outlet.offer(self.seq.load(Ordering::Acquire), &offer);
    }

    /// Gives the absolute path of an open file, if it has one.
    fn path_at_home(&self, node: &Node, file: &OwnedFd) -> Option<Vec<u8>> {
        let within = rustix::fs::readlink(&*proc_path(file), Vec::new()).ok()?.into_bytes();
        // The path is relative to the export's private mount.
        let mount = self.export(node).path.as_os_str().as_bytes();
        let path = [mount.strip_suffix(b"/").unwrap_or(mount), &within].concat();
        (within.starts_with(b"/") && !within.ends_with(b" (deleted)") && offer::is_proper_path(&path)).then_some(path)
    }
}
