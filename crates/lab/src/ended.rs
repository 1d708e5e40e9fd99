//! How commands in nodes end.

/// How a command in a node ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this status.
    Exit(u8),
    /// By this signal.
    Signal(i32),
}
