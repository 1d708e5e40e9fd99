//! The handshake of rustls, up to the session keys.

use crate::LinkError;
use crate::records::{HEAD_BYTES, Key, Open, Seal};
use crate::schedule::Schedule;
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::pki_types::CertificateDer;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, InsufficientSizeError, UnbufferedStatus};
use rustls::{CommonState, Error, ExtractedSecrets};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

/// One end of a handshake.
pub(crate) trait Shaking {
    type Data;
    /// Continues with the bytes that have arrived.
    fn process<'c, 'i>(&'c mut self, come: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;
    fn state(&self) -> &CommonState;
    /// Gives the keys after the handshake.
    fn keys(self) -> Result<(ExtractedSecrets, Schedule), Error>;
}

/// Implements [`Shaking`] for both ends, for which rustls has separate methods.
macro_rules! shaking {
    ($connection:ty, $data:ty, $schedule:path) => {
        impl Shaking for $connection {
            type Data = $data;

            fn process<'c, 'i>(&'c mut self, come: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
                self.process_tls_records(come)
            }

            fn state(&self) -> &CommonState {
                self
            }

            fn keys(self) -> Result<(ExtractedSecrets, Schedule), Error> {
                let (secrets, rest) = self.dangerous_into_kernel_connection()?;
                Ok((secrets, $schedule(Mutex::new(rest))))
            }
        }
    };
}

shaking!(UnbufferedClientConnection, ClientConnectionData, Schedule::Client);
shaking!(UnbufferedServerConnection, ServerConnectionData, Schedule::Server);

/// Both directions, and the certificates whose keys the peer proved to hold.
pub(crate) type Shaken = (Seal, Open, Vec<CertificateDer<'static>>);

/// Runs the handshake until both ends are authenticated. Takes no byte behind the handshake from
/// the socket.
pub(crate) fn shake(socket: &mut TcpStream, mut tls: impl Shaking) -> Result<Shaken, LinkError> {
    let failed = |source| LinkError::Socket { doing: "TLS handshake", source };
    let (mut come, mut goes) = (Vec::new(), Vec::new());
    loop {
        let UnbufferedStatus { discard, state, .. } = tls.process(&mut come);
        let lacks = match state {
            Ok(ConnectionState::EncodeTlsData(mut more)) => {
                encode(&mut more, &mut goes)?;
                false
            }
            Ok(ConnectionState::TransmitTlsData(sent)) => {
                socket.write_all(&goes).map_err(failed)?;
                goes.clear();
                sent.done();
                false
            }
            Ok(ConnectionState::BlockedHandshake) => true,
            Ok(ConnectionState::WriteTraffic(_)) => break,
            Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => return Err(LinkError::Closed),
            Ok(_) => return Err(Error::General("data before the end of the handshake".into()).into()),
            Err(e) => {
                explain(&mut tls, socket);
                return Err(e.into());
            }
        };
        come.drain(..discard);
        if lacks {
            read_record(socket, &mut come).map_err(failed)?;
        }
    }
    let certificates = tls.state().peer_certificates().unwrap_or_default();
    let certificates = certificates.iter().map(|c| c.clone().into_owned()).collect();
    let (secrets, schedule) = tls.keys()?;
    let schedule = Arc::new(schedule);
    let (seal, open) = (Key::new(secrets.tx.0, secrets.tx.1)?, Key::new(secrets.rx.0, secrets.rx.1)?);
    Ok((Seal::new(seal, schedule.clone()), Open::new(open, schedule), certificates))
}

fn encode<D>(more: &mut EncodeTlsData<'_, D>, goes: &mut Vec<u8>) -> Result<(), Error> {
    let at = goes.len();
    let written = match more.encode(&mut []) {
        Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) => {
            goes.resize(at + required_size, 0);
            more.encode(&mut goes[at..])
        }
        other => other,
    };
    let written = written.map_err(|e| Error::General(e.to_string()))?;
    goes.truncate(at + written);
    Ok(())
}

/// Sends the peer an alert about the error, if the peer still reads.
fn explain(tls: &mut impl Shaking, socket: &mut TcpStream) {
    let mut goes = Vec::new();
    while let Ok(ConnectionState::EncodeTlsData(mut more)) = tls.process(&mut []).state {
        if encode(&mut more, &mut goes).is_err() {
            return;
        }
    }
    let _ = socket.write_all(&goes);
}

/// Reads the next whole record. Its two length bytes bound its size.
fn read_record(socket: &mut TcpStream, come: &mut Vec<u8>) -> std::io::Result<()> {
    let at = come.len();
    come.resize(at + HEAD_BYTES, 0);
    socket.read_exact(&mut come[at..])?;
    let bytes = usize::from(u16::from_be_bytes([come[at + 3], come[at + 4]]));
    come.resize(at + HEAD_BYTES + bytes, 0);
    socket.read_exact(&mut come[at + HEAD_BYTES..])
}
