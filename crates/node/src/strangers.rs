//! Connections of which nobody knows yet who is at the other end. They are bounded, in all and for
//! each address; where there is no room, the oldest goes, so that connections on which nothing is
//! said keep nobody out.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

use crate::locks::lock;

/// Most of them, in all and of one address. A handshake takes milliseconds.
const STRANGERS_MAX: usize = 256;
const OF_ADDRESS_MAX: usize = 32;

/// All of them.
#[derive(Default)]
pub(crate) struct Strangers(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    last: u64,
    /// By number, so the oldest first. Dropping the sender evicts.
    all: BTreeMap<u64, (IpAddr, oneshot::Sender<()>)>,
}

/// One of them, until it is dropped.
pub(crate) struct Stranger {
    strangers: Arc<Strangers>,
    number: u64,
}

impl Strangers {
    /// Takes one in. The receiver ends when this one is evicted.
    pub(crate) fn take_in(self: &Arc<Self>, from: IpAddr) -> (Stranger, oneshot::Receiver<()>) {
        let (evict, evicted) = oneshot::channel();
        let mut inner = lock(&self.0);
        inner.make_room(from);
        inner.last += 1;
        let number = inner.last;
        inner.all.insert(number, (from, evict));
        (Stranger { strangers: Arc::clone(self), number }, evicted)
    }
}

impl Inner {
    /// Evicts the oldest of an address that has as many as it may; else, if all are as many as may
    /// be, the oldest of the address that has most.
    fn make_room(&mut self, from: IpAddr) {
        let mut counts: BTreeMap<IpAddr, usize> = BTreeMap::new();
        self.all.values().for_each(|(address, _)| *counts.entry(*address).or_default() += 1);
        let crowded = if counts.get(&from).is_some_and(|count| *count >= OF_ADDRESS_MAX) {
            Some(from)
        } else if self.all.len() >= STRANGERS_MAX {
            counts.iter().max_by_key(|(_, count)| **count).map(|(address, _)| *address)
        } else {
            None
        };
        let oldest = crowded.and_then(|address| self.all.iter().find(|(_, (a, _))| *a == address).map(|(n, _)| *n));
        oldest.map(|number| self.all.remove(&number));
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        lock(&self.strangers.0).all.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u32) -> IpAddr {
        IpAddr::from(number.to_be_bytes())
    }

    #[test]
    fn an_address_evicts_its_own_oldest() {
        let strangers = Arc::new(Strangers::default());
        let (_other, mut other) = strangers.take_in(address(2));
        let mut taken: Vec<_> = (0..=OF_ADDRESS_MAX).map(|_| strangers.take_in(address(1))).collect();
        let evicted: Vec<bool> =
            taken.iter_mut().map(|(_, evicted)| evicted.try_recv().is_err_and(is_closed)).collect();
        assert!(evicted[0] && evicted[1..].iter().all(|evicted| !evicted));
        assert!(!other.try_recv().is_err_and(is_closed), "it is older, and of another address");
    }

    #[test]
    fn of_many_addresses_the_one_with_most_makes_room_and_who_goes_leaves_room() {
        let strangers = Arc::new(Strangers::default());
        let (_most, mut first) = strangers.take_in(address(0));
        let _second = strangers.take_in(address(0));
        let mut taken: Vec<_> = (2..STRANGERS_MAX).map(|n| strangers.take_in(address(n as u32))).collect();
        assert_eq!(lock(&strangers.0).all.len(), STRANGERS_MAX);
        drop(taken.pop());
        let _fits = strangers.take_in(address(1 << 20));
        assert!(!first.try_recv().is_err_and(is_closed));
        let _too_many = strangers.take_in(address(1 << 21));
        assert!(first.try_recv().is_err_and(is_closed));
        assert_eq!(lock(&strangers.0).all.len(), STRANGERS_MAX);
    }

    fn is_closed(e: oneshot::error::TryRecvError) -> bool {
        e == oneshot::error::TryRecvError::Closed
    }
}
