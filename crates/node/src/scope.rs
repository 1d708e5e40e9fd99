//! `tern policy set scope=`: the processes that the policy may move beside those that tern started.

use std::os::unix::fs::MetadataExt as _;

use ::policy::{SCOPES, SettingError, Settings};
use packet::Peer;

use crate::daemon::Daemon;
use crate::{Error, account_names};

/// Each user's own.
const MINE: &str = "mine";
/// What tern started, and nothing else.
const STARTED: [&str; 2] = ["started", "tern"];

/// A change of scope that is allowed to who asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// A setting of the node's.
    Node(String),
    /// All processes of a user.
    User { uid: u32, in_scope: bool },
    /// All processes of an ordinary user, who says so.
    Mine { in_scope: bool },
    /// A process and what it starts.
    Tree { pid: i32, in_scope: bool },
}

/// Reads a value of `scope`.
///
/// # Errors
/// It is none; there is no such user or process; it is not this user's.
pub(crate) fn understood(peer: Peer, value: &str) -> Result<Wanted, Error> {
    let (in_scope, name) = value.strip_prefix('-').map_or((true, value), |name| (false, name));
    let wrong = |range: &str| {
        let value = value.chars().take(60).collect();
        Error::from(SettingError::Range { name: "scope".into(), value, range: range.to_owned() })
    };
    if let Some(pid) = name.strip_prefix("tree:") {
        let pid: i32 = pid.parse().ok().filter(|pid| *pid > 1).ok_or_else(|| wrong("tree:PID, above 1,"))?;
        if in_scope || peer.uid != 0 {
            check_owner(peer, pid)?;
        }
        return Ok(Wanted::Tree { pid, in_scope });
    }
    match (name, peer.uid) {
        (MINE, _) if in_scope => Ok(Wanted::Mine { in_scope }),
        (name, 0) => match name.strip_prefix("user:") {
            Some(user) => {
                let uid = account_names::user(user).ok_or_else(|| wrong("a user of /etc/passwd, or a number,"))?;
                Ok(Wanted::User { uid, in_scope })
            }
            None if in_scope => Ok(Wanted::Node(name.to_owned())),
            None => Err(wrong(SCOPES)),
        },
        (name, _) if in_scope && STARTED.contains(&name) => Ok(Wanted::Mine { in_scope: false }),
        _ => Err(wrong("tree:PID, mine, or started (tern)")),
    }
}

fn check_owner(peer: Peer, pid: i32) -> Result<(), Error> {
    let path = format!("/proc/{pid}");
    let owner = std::fs::metadata(&path).map_err(|e| Error::file("find process", path, e))?.uid();
    let is_own = peer.uid == 0 || peer.uid == owner;
    if is_own { Ok(()) } else { Err(Error::NotAllowed { what: "putting another user's process in scope" }) }
}

impl Wanted {
    /// Changes the settings.
    ///
    /// # Errors
    /// [`SettingError`].
    pub(crate) fn apply(&self, settings: &mut Settings, peer: Peer) -> Result<(), SettingError> {
        match self {
            Wanted::Node(value) => settings.set("scope", value),
            Wanted::User { uid, in_scope } => settings.put(*uid, *in_scope),
            Wanted::Mine { in_scope } => settings.opt(peer.uid, *in_scope),
            Wanted::Tree { .. } => Ok(()),
        }
    }

    /// Changes the trees. Processes that end, or have, leave by themselves.
    pub(crate) fn apply_to_trees(&self, daemon: &Daemon) {
        match self {
            Wanted::Tree { pid, in_scope: true } => daemon.balance.trees.add(*pid),
            Wanted::Tree { pid, in_scope: false } => drop(daemon.balance.trees.remove(*pid)),
            _ => {}
        }
    }
}

/// The value for people: what the node has, what the user who asks has; to root also which users
/// and processes.
pub(crate) fn shown(daemon: &Daemon, settings: &Settings, peer: Peer, value: String) -> String {
    let mut all = vec![value];
    if settings.users.contains(&peer.uid) {
        all.push(MINE.into());
    }
    if peer.uid == 0 {
        all.extend(settings.users.iter().filter(|uid| **uid != 0).map(|uid| format!("user:{uid}")));
        let mut trees: Vec<i32> = daemon.balance.trees.remembered().into_iter().collect();
        trees.sort_unstable();
        all.extend(trees.iter().map(|pid| format!("tree:{pid}")));
    }
    all.join(" + ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(uid: u32) -> Peer {
        Peer { pid: 1, uid }
    }

    #[test]
    fn words_are_understood_by_who_says_them() {
        let own = i32::try_from(std::process::id()).unwrap();
        let tree = |in_scope| Wanted::Tree { pid: own, in_scope };
        assert_eq!(understood(peer(0), &format!("tree:{own}")).unwrap(), tree(true));
        assert_eq!(understood(peer(0), &format!("-tree:{own}")).unwrap(), tree(false));
        assert_eq!(understood(peer(0), "user:4711").unwrap(), Wanted::User { uid: 4711, in_scope: true });
        assert_eq!(understood(peer(0), "-user:root").unwrap(), Wanted::User { uid: 0, in_scope: false });
        assert_eq!(understood(peer(0), "users").unwrap(), Wanted::Node("users".into()));
        assert_eq!(understood(peer(1000), "mine").unwrap(), Wanted::Mine { in_scope: true });
        assert_eq!(understood(peer(1000), "started").unwrap(), Wanted::Mine { in_scope: false });
        for wrong in ["users", "user:0", "-mine", "tree:x", "tree:1", "tree:-5"] {
            assert!(understood(peer(1000), wrong).is_err(), "{wrong}");
        }
        for wrong in ["user:nobody-of-this-name", "-users", "tree:0"] {
            assert!(understood(peer(0), wrong).is_err(), "{wrong}");
        }
        let other = std::fs::metadata("/proc/self").unwrap().uid() + 1;
        assert!(understood(peer(other), &format!("tree:{own}")).is_err(), "another user's");
    }
}
