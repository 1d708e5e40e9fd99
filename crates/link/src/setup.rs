//! Setup of a link on a connected socket.

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

/// The most unsent bytes in the socket for all frames but bulk data. Other threads' frames wait
/// behind them.
pub(crate) const UNSENT_BYTES: u32 = *migration_plan::UNSENT_BYTES.start() as u32;

/// The longest time for a handshake, whatever the peer does.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);

/// Both directions, and the certificates whose keys the peer proved to hold.
pub type Established = (Sender, Receiver, Vec<CertificateDer<'static>>);

/// Establishes a link as the connecting side.
pub fn connect(
    socket: TcpStream,
    config: Arc<ClientConfig>,
    peer: ServerName<'static>,
) -> Result<Established, LinkError> {
    establish(socket, UnbufferedClientConnection::new(config, peer)?)
}

/// Establishes a link as the accepting side.
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

/// Silence after which the kernel probes the peer (`TCP_KEEPIDLE`), seconds.
const ASKED_AFTER_S: u32 = 5;
/// The longest interval between two probes without an answer (`TCP_KEEPINTVL`), seconds.
const ASKED_EVERY_S_MAX: u32 = 60;
/// `TCP_RTO_MAX_MS` of linux/tcp.h, since Linux 6.15.
const TCP_RTO_MAX_MS: i32 = 44;
/// The longest time between retransmissions, milliseconds: the least value that the kernel takes.
const RESENT_EVERY_MS_MAX: u32 = 1000;

/// Sets the socket up: a lost peer is noticed after [`LOST_AFTER`], and few bytes lie unsent.
fn set_up(socket: &TcpStream) -> std::io::Result<()> {
    let_lie(socket, UNSENT_BYTES)?;
    set(socket, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)?;
    // After a cut, lost data is retransmitted each second. By default the kernel doubles the time
    // between retransmissions up to two minutes, so that a link would stay silent after the cut as
    // long as the cut lasted. Kernels before 6.15 do that.
    let _ = set(socket, libc::IPPROTO_TCP, TCP_RTO_MAX_MS, RESENT_EVERY_MS_MAX);
    lose_after(socket, LOST_AFTER)
}

/// Sets the time without contact after which a peer counts as lost, whether anything is sent or not
/// (tcp(7)).
pub(crate) fn lose_after(socket: &TcpStream, silence: Duration) -> std::io::Result<()> {
    let set = |name, value| set(socket, libc::IPPROTO_TCP, name, value);
    let ms = u32::try_from(silence.as_millis()).unwrap_or(u32::MAX).min(i32::MAX as u32);
    // Data that is unacknowledged for this time ends the connection; so does the first probe after
    // this time.
    set(libc::TCP_USER_TIMEOUT, ms)?;
    set(libc::TCP_KEEPIDLE, ASKED_AFTER_S.min(ms / 3000).max(1))?;
    set(libc::TCP_KEEPINTVL, ASKED_EVERY_S_MAX.min(ms / 15_000).max(1))
}

/// Bounds the unsent bytes in the socket.
pub(crate) fn let_lie(socket: &TcpStream, bytes: u32) -> std::io::Result<()> {
    set(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, bytes)
}

/// Sets the number of bytes that must have arrived before the socket becomes readable.
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

/// Gives the time for which the peer's kernel has owed an answer: data was retransmitted
/// (`tcpi_retransmits`), or probes had no answer (`tcpi_probes`; linux/tcp.h).
pub(crate) fn silence(socket: &TcpStream) -> Option<Duration> {
    const RETRANSMITS_AT: usize = 2;
    const PROBES_AT: usize = 3;
    const LAST_ACK_AT: usize = 56;
    let info = info::<{ LAST_ACK_AT + 4 }>(socket)?;
    let ms = u32::from_ne_bytes(info[LAST_ACK_AT..].try_into().ok()?);
    (info[RETRANSMITS_AT] > 0 || info[PROBES_AT] > 0).then(|| Duration::from_millis(ms.into()))
}

/// Reads the first bytes of the kernel's TCP_INFO; `None` if this kernel knows fewer.
fn info<const BYTES: usize>(socket: &TcpStream) -> Option<[u8; BYTES]> {
    let mut info = [0_u8; BYTES];
    let mut bytes = BYTES as u32;
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
    (done == 0 && bytes as usize == BYTES).then_some(info)
}

/// Gives the shortest round trip to the peer's kernel (`tcpi_min_rtt` of linux/tcp.h), if this
/// kernel tells it.
pub(crate) fn least_round_trip(socket: &TcpStream) -> Option<Duration> {
    const AT: usize = 148;
    let info = info::<{ AT + 4 }>(socket)?;
    let us = u32::from_ne_bytes(info[AT..].try_into().ok()?);
    (us != u32::MAX).then(|| Duration::from_micros(us.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn option(socket: &TcpStream, name: i32) -> u32 {
        let (mut value, mut bytes) = (0_u32, size_of::<u32>() as u32);
        // SAFETY: passes the addresses of two live u32, of which the second says the size of the
        // first.
        let done = unsafe {
            libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, name, (&raw mut value).cast(), &raw mut bytes)
        };
        assert_eq!(done, 0, "option {name}: {}", std::io::Error::last_os_error());
        value
    }

    #[test]
    fn a_silent_peer_is_noticed_when_it_is_to_be() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        set_up(&socket).unwrap();
        let options = || [libc::TCP_USER_TIMEOUT, libc::TCP_KEEPIDLE, libc::TCP_KEEPINTVL].map(|o| option(&socket, o));
        assert_eq!(options(), [15_000, 5, 1]);
        for (silence, expected) in [
            (Duration::from_secs(2), [2000, 1, 1]),
            (Duration::from_secs(120), [120_000, 5, 8]),
            (Duration::from_secs(86_400), [86_400_000, 5, 60]),
            (Duration::MAX, [i32::MAX as u32, 5, 60]),
        ] {
            lose_after(&socket, silence).unwrap();
            assert_eq!(options(), expected);
        }
    }
}
