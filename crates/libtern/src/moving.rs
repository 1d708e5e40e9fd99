//! The calling process moves, with its memory.

use control_protocol::moves::{MoveOptions, Sibling};
use control_protocol::tool::{Answer, Request};

use crate::daemon;
use crate::errors::{Errno, Outcome};

/// Moves the calling process to a node, or home. The process goes on there, with home's files.
/// `like`: a process that is away and has the same memory, which then need not come from home.
pub fn to(node: &str, like: Option<Sibling>) -> Outcome<()> {
    let pid = rustix::process::getpid().as_raw_nonzero().get();
    let to = (node != control_protocol::nodes::HOME).then(|| node.to_owned());
    match daemon::ask(&Request::Move { pid, to, wish: MoveOptions::default(), like }, &[])?.0 {
        Answer::Moved { .. } => Ok(()),
        _ => Err(Errno(libc::EPROTO)),
    }
}
