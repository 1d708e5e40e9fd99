//! What the task of membership is told.

use std::net::SocketAddr;

use control_protocol::peer::Member;
use tokio::sync::{mpsc, oneshot};

/// Commands that may wait.
const COMMANDS_MAX: usize = 1024;

/// What others ask of the task.
pub(crate) enum Command {
    /// These are alive: from a member's list, or one that has just come.
    Alive(Vec<Member>),
    /// This one is gone for good.
    Gone(u64),
    /// Tell the others that this node goes, then answer.
    Leave(oneshot::Sender<()>),
    /// This node has become much faster or slower, or its memory runs low.
    News,
    /// Ask `address` for an answer by datagram.
    Echo { address: SocketAddr, done: oneshot::Sender<()> },
}

/// Sends commands to the task.
#[derive(Clone)]
pub(crate) struct Swim(mpsc::Sender<Command>);

impl Swim {
    pub(crate) fn channel() -> (Swim, mpsc::Receiver<Command>) {
        let (sender, receiver) = mpsc::channel(COMMANDS_MAX);
        (Swim(sender), receiver)
    }

    /// Tells who has processes here, soon.
    pub(crate) fn news(&self) {
        // Where so much waits already, the next pulse will do.
        let _ = self.0.try_send(Command::News);
    }

    pub(crate) async fn tell(&self, command: Command) {
        // The task ends only with the daemon.
        let _ = self.0.send(command).await;
    }
}
