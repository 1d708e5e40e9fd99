//! The key schedule (RFC 8446, 7.2), which rustls keeps.

use crate::lock;
use crate::records::Key;
use rustls::Error;
use rustls::client::ClientConnectionData;
use rustls::kernel::KernelConnection;
use rustls::server::ServerConnectionData;
use std::sync::Mutex;

/// The connection of rustls after its handshake.
pub(crate) enum Schedule {
    Client(Mutex<KernelConnection<ClientConnectionData>>),
    Server(Mutex<KernelConnection<ServerConnectionData>>),
}

impl Schedule {
    /// Derives the next key for sending.
    pub(crate) fn next_sealing(&self) -> Result<Key, Error> {
        let (number, secrets) = match self {
            Schedule::Client(connection) => lock(connection).update_tx_secret()?,
            Schedule::Server(connection) => lock(connection).update_tx_secret()?,
        };
        Key::new(number, secrets)
    }

    /// Derives the next key for receiving.
    pub(crate) fn next_opening(&self) -> Result<Key, Error> {
        let (number, secrets) = match self {
            Schedule::Client(connection) => lock(connection).update_rx_secret()?,
            Schedule::Server(connection) => lock(connection).update_rx_secret()?,
        };
        Key::new(number, secrets)
    }
}
