//! Halting a node, or starting it again, as root of another one wants.

use serde::{Deserialize, Serialize};

/// An order to a node about its machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PowerOrder {
    /// Power the machine off.
    Halt,
    /// Start the machine again.
    Reboot,
}

impl PowerOrder {
    /// The word of the tool for this order.
    pub fn word(self) -> &'static str {
        match self {
            PowerOrder::Halt => "halt",
            PowerOrder::Reboot => "reboot",
        }
    }
}
