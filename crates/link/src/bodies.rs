//! Reuse of the memory of large frames' bodies. A page fault on fresh memory costs more than
//! filling a page.

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

/// The most memory that is kept for reuse, bytes.
const READY_BYTES_MAX: usize = 4 << 20;

/// The memory that is kept for reuse.
#[derive(Debug, Default)]
struct Ready {
    all: Vec<Vec<u8>>,
    bytes: usize,
}

/// A pool of bodies. Each body returns to the pool when it is dropped.
#[derive(Clone, Debug, Default)]
pub struct Bodies(Arc<Mutex<Ready>>);

/// A received body. Its memory returns to the pool when the body is dropped.
#[derive(Debug)]
pub struct Body {
    bytes: Vec<u8>,
    home: Bodies,
}

impl Bodies {
    /// Wraps a received body, and replaces it by memory from the pool for the next one.
    pub fn hand_on(&self, received: &mut Vec<u8>) -> Body {
        let ready = self.change(|ready| {
            let next = ready.all.pop().unwrap_or_default();
            ready.bytes -= next.capacity();
            next
        });
        Body { bytes: std::mem::replace(received, ready), home: self.clone() }
    }

    fn take_back(&self, bytes: Vec<u8>) {
        let rest = self.change(|ready| {
            if ready.bytes + bytes.capacity() > READY_BYTES_MAX {
                return Some(bytes);
            }
            ready.bytes += bytes.capacity();
            ready.all.push(bytes);
            None
        });
        drop(rest);
    }

    fn change<T>(&self, change: impl FnOnce(&mut Ready) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Deref for Body {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Body {
        Body { bytes, home: Bodies::default() }
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        self.home.take_back(std::mem::take(&mut self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_dropped_bodies_is_reused() {
        let bodies = Bodies::default();
        let mut received = vec![7; 1000];
        let at = received.as_ptr();
        let first = bodies.hand_on(&mut received);
        assert!(received.capacity() == 0 && *first == [7; 1000]);
        received = vec![8; 10];
        drop(first);
        let second = bodies.hand_on(&mut received);
        assert_eq!((received.as_ptr(), &*second), (at, &[8; 10][..]));
    }

    #[test]
    fn not_more_lies_ready_than_may() {
        let bodies = Bodies::default();
        let many: Vec<Body> = (0..10).map(|_| bodies.hand_on(&mut vec![0; 1 << 20])).collect();
        drop(many);
        let ready = bodies.change(|ready| (ready.all.len(), ready.bytes));
        assert_eq!(ready, (4, 4 << 20));
    }
}
