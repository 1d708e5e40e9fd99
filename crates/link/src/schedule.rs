//! Which keys come next: rustls knows (RFC 8446, 7.2).

use crate::lock;
use crate::records::Key;
use rustls::Error;
use rustls::client::ClientConnectionData;
use rustls::kernel::KernelConnection;
use rustls::server::ServerConnectionData;
use std::sync::Mutex;

/// What is left of a connection whose handshake is done.
pub(crate) enum Schedule {
    Client(Mutex<KernelConnection<ClientConnectionData>>),
    Server(Mutex<KernelConnection<ServerConnectionData>>),
}

impl Schedule {
    /// For what is sent.
    pub(crate) fn next_sealing(&self) -> Result<Key, Error> {
        Key::new(match self {
            Schedule::Client(connection) => lock(connection).update_tx_secret()?,
            Schedule::Server(connection) => lock(connection).update_tx_secret()?,
        })
    }

    /// For what is received.
    pub(crate) fn next_opening(&self) -> Result<Key, Error> {
        Key::new(match self {
            Schedule::Client(connection) => lock(connection).update_rx_secret()?,
            Schedule::Server(connection) => lock(connection).update_rx_secret()?,
        })
    }
}
