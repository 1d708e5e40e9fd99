//! The nodes that may host a process. Root of home lets its user use them ([`crate::node_rights`]).
//! If the process has root's rights at home, the owner trusts them with these, too.
//!
//! A node that hosts a process can make that process' calls at home. From root's it would get the
//! whole home: so by default such processes do not leave. The owner trusts nodes for good (`tern
//! policy set root-on=`), or one command (`--as-root`).

use std::sync::Arc;

use ::policy::RootOn;
use os::superuser::{Power, power_of};

use crate::Error;
use crate::daemon::Daemon;
use crate::node_rights::Table;

/// The nodes that may host one process.
#[derive(Clone, Debug)]
pub(crate) struct Hosts {
    pid: i32,
    /// The right of root's that it has.
    power: Option<Power>,
    trusted: RootOn,
    user: u32,
    groups: Vec<u32>,
    rights: Arc<Table>,
}

impl Hosts {
    /// Those of process `pid`, with the rights that the kernel says it has now. `as_root`: its
    /// owner accepts any node.
    ///
    /// # Errors
    /// The process has ended.
    pub(crate) fn of(daemon: &Daemon, pid: i32, as_root: bool) -> Result<Hosts, Error> {
        let trusted = if as_root { RootOn::All } else { daemon.policy.settings().root_on };
        let power = power_of(pid).map_err(|e| Error::NotMoved { pid, why: e.to_string() })?;
        let ended = |e: os::Error| Error::NotMoved { pid, why: e.to_string() };
        let status = os::process::status(pid).map_err(ended)?;
        let (user, groups) = (status.uid[1], [&[status.gid[1]], status.groups.as_slice()].concat());
        Ok(Hosts { pid, power, trusted, user, groups, rights: daemon.rights.table() })
    }

    /// Whether this node may host it whatever rights it takes.
    pub(crate) fn trust_root(&self, node: &str) -> bool {
        self.trusted.includes(node)
    }

    /// Checks that this node is one of them.
    ///
    /// # Errors
    /// It is not; how the owner can change that.
    pub(crate) fn check(&self, node: &str) -> Result<(), Error> {
        if let Some(rights) = self.rights.get(node) {
            let denied = |source| Error::NodeDenied { user: self.user, node: node.to_owned(), source };
            rights.check(self.user, &self.groups).map_err(denied)?;
        }
        match self.power {
            Some(power) if !self.trusted.includes(node) => {
                Err(Error::RootStaysHome { pid: self.pid, power, node: Some(node.to_owned()) })
            }
            _ => Ok(()),
        }
    }

    /// Checks that there is any.
    ///
    /// # Errors
    /// As [`Hosts::check`].
    pub(crate) fn check_any(&self) -> Result<(), Error> {
        match self.power {
            Some(power) if self.trusted == RootOn::None => {
                Err(Error::RootStaysHome { pid: self.pid, power, node: None })
            }
            _ => Ok(()),
        }
    }
}

/// Checks that who asks to treat a process as if any node were trusted is root: whoever else has
/// such a process (a program with capabilities, say) does not own the home.
///
/// # Errors
/// Another user asks.
pub(crate) fn check_asker(uid: u32, as_root: bool) -> Result<(), Error> {
    if as_root && uid != 0 { Err(Error::NotAllowed { what: "--as-root" }) } else { Ok(()) }
}
