//! The programs of this home that hold hosts, or want some.

use std::collections::HashMap;
use std::sync::Mutex;

use ::policy::{Holder, Wish};
use control_protocol::hosts::{HeldHosts, Term};

use crate::hosted::Process;
use crate::locks::lock;

/// So many lost hosts of a program are remembered.
const LOST_MAX: usize = 16;

/// A program that holds hosts.
pub(crate) struct Program {
    pub(crate) pid: i32,
    pub(crate) uid: u32,
    process: Process,
    pub(crate) wish: Wish,
    /// The names of hosts, by id.
    pub(crate) names: HashMap<u64, String>,
    lost: Vec<(String, String)>,
}

impl Program {
    /// Notes that a host is not this program's any more, and why.
    pub(crate) fn has_lost(&mut self, host: String, why: String) {
        if self.lost.len() >= LOST_MAX {
            self.lost.remove(0);
        }
        self.lost.push((host, why));
    }

    fn held(&self) -> HeldHosts {
        let mut hosts: Vec<String> = self.wish.held().iter().filter_map(|id| self.names.get(id).cloned()).collect();
        hosts.sort();
        HeldHosts { pid: self.pid, wanted: self.wish.wanted, term: self.wish.term, hosts, lost: self.lost.clone() }
    }
}

/// The process that is to hold hosts.
pub(crate) struct Owner {
    pub(crate) pid: i32,
    pub(crate) uid: u32,
    pub(crate) process: Process,
}

/// All such programs, by the number that names them to hosts.
#[derive(Default)]
pub(crate) struct ProgramHosts(Mutex<HashMap<u64, Program>>);

impl ProgramHosts {
    pub(crate) fn numbers(&self) -> Vec<u64> {
        lock(&self.0).keys().copied().collect()
    }

    pub(crate) fn numbers_of(&self, pid: i32) -> Vec<u64> {
        lock(&self.0).iter().filter(|(_, program)| program.pid == pid).map(|(number, _)| *number).collect()
    }

    pub(crate) fn is_alive(&self, number: u64) -> bool {
        lock(&self.0).get(&number).is_some_and(|program| program.process.is_alive())
    }

    /// Works with one program, if it is known still.
    pub(crate) fn with<T>(&self, number: u64, work: impl FnOnce(&mut Program) -> T) -> Option<T> {
        lock(&self.0).get_mut(&number).map(work)
    }

    /// Notes that a process wants so many hosts. Gives its number.
    pub(crate) fn wish(&self, home: u64, owner: Owner, wanted: u32, term: Term) -> u64 {
        let mut all = lock(&self.0);
        let Owner { pid, uid, process } = owner;
        if let Some((number, program)) = all.iter_mut().find(|(_, p)| p.pid == pid && p.process.is_alive()) {
            (program.wish.wanted, program.wish.term) = (wanted, term);
            return *number;
        }
        let number = rand::random();
        let wish = Wish::new(Holder { home, number }, wanted, term);
        all.insert(number, Program { pid, uid, process, wish, names: HashMap::new(), lost: Vec::new() });
        number
    }

    /// Takes hosts from a program: those named, or all, and then it is forgotten. Gives its name
    /// for hosts, and the hosts.
    pub(crate) fn take_back(&self, number: u64, names: &[String]) -> Option<(Holder, Vec<u64>)> {
        let mut all = lock(&self.0);
        let program = all.get_mut(&number)?;
        let is_meant = |id: &u64| names.is_empty() || program.names.get(id).is_some_and(|name| names.contains(name));
        let released: Vec<u64> = program.wish.held().iter().copied().filter(is_meant).collect();
        let holder = program.wish.holder;
        program.wish.give_back(&released);
        if names.is_empty() {
            all.remove(&number);
        }
        Some((holder, released))
    }

    /// Lists the programs, each with its user.
    pub(crate) fn list(&self) -> Vec<(u32, HeldHosts)> {
        let mut all: Vec<(u32, HeldHosts)> = lock(&self.0).values().map(|p| (p.uid, p.held())).collect();
        all.sort_by_key(|(_, held)| held.pid);
        all
    }
}
