//! From a connected socket to a link.

use crate::handshake::{Shaking, shake};
use crate::{Counters, LOST_AFTER, LinkError, Receiver, Sender};
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::UnbufferedServerConnection;
use rustls::{ClientConfig, ServerConfig};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

/// Bytes that lie in the socket and were not sent yet, but for who sends much: what others send waits behind them.
pub(crate) const UNSENT_BYTES: u32 = *strategy::UNSENT_BYTES.start() as u32;

/// The handshake may take so long, whatever the peer does.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);

/// Both directions, and the certificates that the peer proved to hold.
pub type Established = (Sender, Receiver, Vec<CertificateDer<'static>>);

/// Speaks TLS as the connecting side.
pub fn connect(
    socket: TcpStream,
    config: Arc<ClientConfig>,
    peer: ServerName<'static>,
) -> Result<Established, LinkError> {
    establish(socket, UnbufferedClientConnection::new(config, peer)?)
}

/// Speaks TLS as the accepting side.
pub fn accept(socket: TcpStream, config: Arc<ServerConfig>) -> Result<Established, LinkError> {
    establish(socket, UnbufferedServerConnection::new(config)?)
}

fn establish(mut socket: TcpStream, tls: impl Shaking) -> Result<Established, LinkError> {
    let failed = |doing| move |source| LinkError::Socket { doing, source };
    socket.set_nodelay(true).map_err(failed("setting TCP_NODELAY"))?;
    socket.set_read_timeout(Some(HANDSHAKE_WITHIN)).map_err(failed("setting a time limit"))?;
    socket.set_write_timeout(Some(HANDSHAKE_WITHIN)).map_err(failed("setting a time limit"))?;
    let (seal, open, certificates) = shake(&mut socket, tls)?;
    socket.set_read_timeout(None).map_err(failed("setting a time limit"))?;
    socket.set_write_timeout(None).map_err(failed("setting a time limit"))?;
    set_up(&socket).map_err(failed("setting TCP options"))?;
    let reading = socket.try_clone().map_err(failed("duplicating the socket"))?;
    let counters = Arc::new(Counters::default());
    Ok((Sender::new(socket, seal, counters.clone()), Receiver::new(reading, open, counters), certificates))
}

/// A peer that vanished is noticed after [`LOST_AFTER`], whether something is sent or not (tcp(7)); not much waits in the socket.
fn set_up(socket: &TcpStream) -> std::io::Result<()> {
    let set = |level, name, value| set(socket, level, name, value);
    let_lie(socket, UNSENT_BYTES)?;
    set(libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, LOST_AFTER.as_millis() as u32)?;
    set(libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)?;
    set(libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, 5)?;
    set(libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, 5)
}

/// So many bytes may lie in the socket that were not sent yet.
pub(crate) fn let_lie(socket: &TcpStream, bytes: u32) -> std::io::Result<()> {
    set(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, bytes)
}

/// Who waits for something to read wakes up when so many bytes are there, not before.
pub(crate) fn await_at_least(socket: &TcpStream, bytes: u32) -> std::io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_RCVLOWAT, bytes)
}

fn set(socket: &TcpStream, level: i32, name: i32, value: u32) -> std::io::Result<()> {
    // SAFETY: passes the address and size of a live u32.
    let done = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), size_of::<u32>() as u32)
    };
    if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// The quickest that the kernel has seen an answer of the peer's kernel (`tcpi_min_rtt` of linux/tcp.h), if this kernel says so.
pub(crate) fn least_round_trip(socket: &TcpStream) -> Option<Duration> {
    const AT: usize = 148;
    let mut info = [0_u8; AT + 4];
    let mut bytes = info.len() as u32;
    // SAFETY: passes the address of live memory, and its size.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut bytes,
        )
    };
    let us = u32::from_ne_bytes(info[AT..].try_into().ok()?);
    (done == 0 && bytes as usize == info.len() && us != u32::MAX).then(|| Duration::from_micros(us.into()))
}
