//! Why something cannot be.

use serde::{Deserialize, Serialize};

/// A refusal, in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The failure, in words.
    pub why: String,
    /// Something happened at the wrong moment: it is worth another try at once.
    pub retryable: bool,
}

impl From<&str> for Refusal {
    fn from(why: &str) -> Refusal {
        Refusal { why: why.to_owned(), retryable: false }
    }
}
