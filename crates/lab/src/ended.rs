//! The ends of commands in nodes.

/// How a command in a node ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The command exited with this status.
    Exit(u8),
    /// This signal ended the command.
    Signal(i32),
}
