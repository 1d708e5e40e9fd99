//! Which sockets there are, whose they are, and what is only read slowly of them. Tells the fast
//! sampler what to read.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use super::fast::{Order, Reader, Watched};
use super::output::{Draft, Output};
use crate::layer::Layer;
use crate::record::Detail;
use crate::source::error::{Error, Result};
use crate::source::netlink::{Netlink, Subject};
use crate::source::owners::{Owner, Owners, still_has, still_shares};
use crate::source::processes::{Choice, is_alive};
use crate::source::sockets::{Sockets, Told, Way};

/// Whether duplicates of descriptors are held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hold {
    /// Where questions would take more than an eighth of the period: they take three times as long
    /// as duplicates, and netmon is to leave the processor to others.
    #[default]
    Auto,
    /// In no case.
    Never,
    /// Always, where the owner allows it.
    Always,
}

/// The time of a question by netlink, nanoseconds (measured; see docs/internals/netmon.md).
const QUESTION_NS: u64 = 3_000;

/// The sockets of the processes that are looked at.
pub struct SocketWatch {
    choice: Choice,
    hold: Hold,
    period_ns: u64,
    networks: Vec<Network>,
    known: HashMap<Key, Known>,
    owners: Owners,
    told_unreadable: HashSet<i32>,
    told_failure: bool,
}

struct Network {
    /// As /proc/PID/ns/net names it.
    name: PathBuf,
    sockets: Sockets,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    network: usize,
    inode: u32,
}

struct Known {
    object: u32,
    owner: Option<Owner>,
    /// The duplicate that the fast sampler reads.
    held: Option<Arc<OwnedFd>>,
    told: Told,
}

impl SocketWatch {
    /// Opens this network. Further ones are opened when a chosen process is in one.
    pub fn open(choice: Choice, hold: Hold, period_ns: u64) -> SocketWatch {
        SocketWatch {
            choice,
            hold,
            period_ns,
            networks: Vec::new(),
            known: HashMap::new(),
            owners: Owners::default(),
            told_unreadable: HashSet::new(),
            told_failure: false,
        }
    }

    /// Looks at all sockets. `pids` are the chosen processes. Gives orders for the fast sampler.
    pub fn scan(&mut self, pids: &[i32], output: &mut Output) -> Vec<Order> {
        let mut orders = Vec::new();
        if let Err(e) = self.open_networks(pids, &mut orders) {
            self.tell_failure(&e, output);
        }
        let mut all = Vec::new();
        for index in 0..self.networks.len() {
            match self.networks[index].sockets.all() {
                Ok(told) => {
                    all.extend(told.into_iter().map(|told| (Key { network: index, inode: told.inode() }, told)))
                }
                Err(e) => {
                    self.tell_failure(&e, output);
                    return orders;
                }
            }
        }
        let is_new = |(key, _): &(Key, Told)| !self.known.contains_key(key);
        if self.choice != Choice::All || all.iter().any(is_new) {
            self.owners = Owners::of(pids);
            self.tell_unreadable(output);
        }
        all.retain(|(key, _)| self.is_chosen(*key));
        let fast = all.iter().filter(|(_, told)| told.way() != Way::Rarely).count() as u64;
        let holds = match self.hold {
            Hold::Auto => fast.saturating_mul(QUESTION_NS) > self.period_ns / 8,
            Hold::Never => false,
            Hold::Always => true,
        };
        let present: HashSet<Key> = all.iter().map(|(key, _)| *key).collect();
        for (key, told) in all {
            self.update(key, told, holds, output, &mut orders);
        }
        self.end_absent(&present, output, &mut orders);
        orders
    }

    fn is_chosen(&self, key: Key) -> bool {
        let own = std::process::id() as i32;
        match (self.owners.owner(key.inode), self.known.get(&key), &self.choice) {
            (Some(owner), ..) => owner.pid != own,
            (None, Some(_), _) => true,
            (None, None, choice) => *choice == Choice::All,
        }
    }

    fn update(&mut self, key: Key, told: Told, holds: bool, output: &mut Output, orders: &mut Vec<Order>) {
        let changes = told.changes();
        if let Some(known) = self.known.get_mut(&key) {
            output.sample(known.object, changes);
            known.told = told;
            return;
        }
        let owner = self.owners.owner(key.inode).cloned();
        let object = output.object(draft(&told, owner.as_ref()));
        output.sample(object, changes);
        let duplicate = owner.as_ref().filter(|_| holds && told.way() != Way::Rarely).and_then(duplicate).map(Arc::new);
        let held = duplicate.clone();
        let reader = match (duplicate, told.way()) {
            (Some(fd), Way::Stream) => Some(Reader::Stream(fd)),
            (Some(fd), _) => Some(Reader::Datagrams(fd)),
            (None, _) => asking(&told),
        };
        orders.extend(reader.map(|reader| Order::Watch(Watched { object, reader, network: key.network })));
        self.known.insert(key, Known { object, owner, held, told });
    }

    fn end_absent(&mut self, present: &HashSet<Key>, output: &mut Output, orders: &mut Vec<Order>) {
        self.known.retain(|key, known| {
            let stays = present.contains(key);
            if !stays {
                let reason = match &known.owner {
                    Some(Owner { pid, program, .. }) if !is_alive(*pid) => {
                        format!("process {pid} ({program}) has ended")
                    }
                    _ => "the socket was closed".into(),
                };
                output.gone(known.object, reason);
                orders.push(Order::Drop(known.object));
            }
            stays
        });
    }

    /// Has duplicates dropped whose owner has closed its descriptor or ended: until then its peer
    /// does not see the end of the connection.
    pub fn drop_closed(&mut self) -> Vec<Order> {
        let mut orders = Vec::new();
        for (key, known) in &mut self.known {
            let (Some(held), Some(owner)) = (&known.held, &known.owner) else { continue };
            if still_shares(owner, held.as_fd()) || still_has(owner, key.inode) {
                continue;
            }
            known.held = None;
            orders.push(Order::Drop(known.object));
            // Another process may still have it.
            let reader = asking(&known.told);
            orders.extend(
                reader.map(|reader| Order::Watch(Watched { object: known.object, reader, network: key.network })),
            );
        }
        orders
    }

    /// Gives the bytes that wait in the send queues of a process's streams; `None` if sockets are
    /// not looked at.
    pub fn unsent_bytes(&self, pid: i32) -> Option<u64> {
        let own = self.known.values().filter(|known| known.owner.as_ref().is_some_and(|owner| owner.pid == pid));
        let bytes = own.map(|known| match &known.told {
            Told::Inet(told) if known.told.way() == Way::Stream => u64::from(told.tx),
            Told::Unix(told) if known.told.way() == Way::Stream => u64::from(told.tx),
            _ => 0,
        });
        (!self.networks.is_empty()).then(|| bytes.sum())
    }

    /// Opens the networks that these processes are in, if the user named them; else this one alone.
    fn open_networks(&mut self, pids: &[i32], orders: &mut Vec<Order>) -> Result<()> {
        if self.networks.is_empty() {
            let name = fs::read_link("/proc/self/ns/net").unwrap_or_default();
            self.networks.push(Network { name, sockets: Sockets::open(None)? });
            orders.push(Order::Network(Netlink::open(Subject::Sockets)?));
        }
        if self.choice == Choice::All {
            return Ok(());
        }
        for pid in pids {
            let Ok(name) = fs::read_link(format!("/proc/{pid}/ns/net")) else { continue };
            if !self.networks.iter().any(|network| network.name == name) {
                let netlink = Netlink::open_in(Subject::Sockets, *pid)?;
                self.networks.push(Network { name, sockets: Sockets::open(Some(*pid))? });
                orders.push(Order::Network(netlink));
            }
        }
        Ok(())
    }

    fn tell_failure(&mut self, error: &Error, output: &mut Output) {
        if !std::mem::replace(&mut self.told_failure, true) {
            output.note(format!("sockets: {error}"));
        }
    }

    /// Says which processes cannot be looked at: each that was named, and of all others how many.
    fn tell_unreadable(&mut self, output: &mut Output) {
        let new: Vec<i32> =
            self.owners.unreadable.iter().copied().filter(|pid| self.told_unreadable.insert(*pid)).collect();
        if self.choice == Choice::All {
            if !new.is_empty() && new.len() == self.told_unreadable.len() {
                output.note(format!(
                    "the descriptors of {} processes cannot be read (not root?): their sockets are shown without a process",
                    new.len()
                ));
            }
            return;
        }
        for pid in new {
            output.note(format!(
                "process {pid}: its descriptors cannot be read: only root and its user may; its sockets are left out"
            ));
        }
    }
}

fn draft(told: &Told, owner: Option<&Owner>) -> Draft {
    let mut details = told.details();
    let mut name = told.name();
    if let Some(Owner { pid, fd, program }) = owner {
        name = format!("{name} {program}[{pid}]");
        details.push(Detail::new("program", program));
        details.push(Detail::new("descriptor", fd.to_string()));
    }
    Draft { layer: Layer::Socket, name, pid: owner.map(|owner| owner.pid), details }
}

/// Duplicates the owner's descriptor, if that still is the socket.
fn duplicate(owner: &Owner) -> Option<OwnedFd> {
    os::pidfd::PidFd::open(owner.pid).ok()?.get_fd(owner.fd).ok()
}

fn asking(told: &Told) -> Option<Reader> {
    let question = told.question()?;
    match (told, told.way()) {
        (_, Way::Rarely) | (Told::Raw(_), _) => None,
        (Told::Inet(_), Way::Stream) => Some(Reader::AskTcp(question)),
        (Told::Inet(_), Way::Datagrams) => Some(Reader::AskDatagrams(question)),
        (Told::Unix(_), Way::Stream) => Some(Reader::AskUnixStream(question)),
        (Told::Unix(_), Way::Datagrams) => Some(Reader::AskUnixDatagrams(question)),
    }
}
