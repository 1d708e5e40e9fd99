//! Guests that the warden ends because it failed on their account.

use std::collections::HashMap;

/// Guests that the warden ends, and why.
#[derive(Debug, Default)]
pub struct Lost(pub HashMap<i32, String>);

impl Lost {
    /// Why this one is ended, if it is: told once.
    pub fn take(&mut self, pid: i32) -> Option<String> {
        self.0.remove(&pid)
    }
}
