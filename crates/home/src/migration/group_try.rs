//! One try to move processes out that share memory: which of the memories have a process that
//! brings them.

use os::areas::Shown;
use std::cell::RefCell;
use std::collections::HashSet;

/// One try; the sessions of the group share it.
#[derive(Debug)]
pub struct GroupTry {
    /// Its number, by which the room knows it.
    pub number: u32,
    brought: RefCell<HashSet<Shown>>,
}

impl GroupTry {
    /// Begins a try, in which nothing was brought yet.
    pub fn new(number: u32) -> GroupTry {
        GroupTry { number, brought: RefCell::default() }
    }

    /// Notes that a process goes which has these memories. Gives for each of them whether another
    /// process brings its content.
    pub fn bring(&self, memories: &[Shown]) -> Vec<bool> {
        let mut brought = self.brought.borrow_mut();
        memories.iter().map(|memory| !brought.insert(*memory)).collect()
    }
}
