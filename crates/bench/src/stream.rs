//! The rate of the link between two nodes: one TCP stream, plain and encrypted as in moves, to
//! `tern bench sink` on the other node.

use crate::Error;
use identity::{Identity, NodeName};
use link::LinkError;
use room_protocol::Kind;
use rustix::event::{PollFd, PollFlags};
use serde::Serialize;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::Instant;

/// The rates of streams over a link.
#[derive(Debug, Serialize)]
pub struct Streams {
    /// Rate of one plain stream, MB/s.
    pub tcp_mb_s: f64,
    /// Rate of the same bytes over a link of tern, without reading them from a process or writing
    /// them to one, MB/s.
    pub encrypted_mb_s: f64,
}

const BLOCK_BYTES: usize = 1 << 20;
/// The first byte of a TLS connection (RFC 8446, 5.1: a record of the handshake).
const HANDSHAKE: u8 = 0x16;

/// Builds the block that is streamed. Its first byte is another one.
fn block() -> Vec<u8> {
    (0..BLOCK_BYTES).map(|i| ((i * 31) >> 3) as u8).collect()
}

/// Streams `bytes` to a sink at `at`, until the sink has taken all. Gives MB/s.
pub fn plain(at: SocketAddr, bytes: u64) -> Result<f64, Error> {
    let failed = || Error::system(format!("streaming to tern bench sink at {at}"));
    let mut socket = TcpStream::connect(at).map_err(failed())?;
    let block = block();
    let start = Instant::now();
    for _ in 0..bytes.div_ceil(BLOCK_BYTES as u64) {
        socket.write_all(&block).map_err(failed())?;
    }
    socket.shutdown(std::net::Shutdown::Write).map_err(failed())?;
    // The sink closes when it has seen the end.
    socket.read_to_end(&mut Vec::new()).map_err(failed())?;
    Ok(bytes as f64 / start.elapsed().as_secs_f64() / 1e6)
}

/// Streams `bytes` as [`plain`] does, over a link to this node.
fn encrypted(at: SocketAddr, bytes: u64, node: &str, state: &Path) -> Result<f64, Error> {
    let failed = || Error::system(format!("streaming over a link to tern bench sink at {at}"));
    let named = NodeName::new(node).and_then(|name| identity::server_name(&name));
    let peer = named.map_err(|e| failed()(std::io::Error::other(e)))?;
    let config = us(state)?.client_config();
    let socket = TcpStream::connect(at).map_err(failed())?;
    let lost = |e: LinkError| failed()(std::io::Error::other(e));
    let (sender, mut receiver, _) = link::connect(socket, config, peer).map_err(lost)?;
    let block = block();
    let start = Instant::now();
    for _ in 0..bytes.div_ceil(BLOCK_BYTES as u64) {
        sender.send(Kind::Pages, 0, 0, &[&block]).map_err(lost)?;
    }
    sender.send(Kind::Message, 0, 0, &[]).map_err(lost)?;
    receiver.receive(&mut Vec::new()).map_err(lost)?;
    Ok(bytes as f64 / start.elapsed().as_secs_f64() / 1e6)
}

/// Measures both rates to this node. `state` is the directory of this node's identity.
pub fn measure(at: SocketAddr, bytes: u64, node: &str, state: &Path) -> Result<Streams, Error> {
    Ok(Streams { tcp_mb_s: plain(at, bytes)?, encrypted_mb_s: encrypted(at, bytes, node, state)? })
}

fn us(state: &Path) -> Result<Identity, Error> {
    Identity::load(state).map_err(|e| Error::system("reading this node's identity")(std::io::Error::other(e)))
}

/// Receives and drops streams, one connection after the other, for ever; or only one, unless
/// standard input ends before it comes.
pub fn sink(at: SocketAddr, once: bool, state: &Path) -> Result<(), Error> {
    let listener = TcpListener::bind(at).map_err(Error::system(format!("listening at {at}")))?;
    let mut block = vec![0; BLOCK_BYTES];
    while !once || is_called(&listener)? {
        let (mut socket, _) = listener.accept().map_err(Error::system("accepting a stream"))?;
        let mut first = [0];
        match socket.peek(&mut first) {
            // A connection that breaks off is no error.
            Ok(1) if first == [HANDSHAKE] => drop(take_frames(socket, &us(state)?, &mut block)),
            _ => while matches!(socket.read(&mut block), Ok(n) if n > 0) {},
        }
        if once {
            break;
        }
    }
    Ok(())
}

/// Receives frames until one marks the end, which is answered.
fn take_frames(socket: TcpStream, us: &Identity, block: &mut Vec<u8>) -> Result<(), LinkError> {
    let (sender, mut receiver, _) = link::accept(socket, us.server_config())?;
    while receiver.receive(block)?.kind == Kind::Pages {}
    sender.send(Kind::Message, 0, 0, &[])?;
    // The other end closes.
    receiver.receive(block).map(drop)
}

/// Waits for a connection. Returns false if standard input ends before: the starting process has
/// gone.
fn is_called(listener: &TcpListener) -> Result<bool, Error> {
    let input = std::io::stdin();
    loop {
        let mut ready = [PollFd::new(listener, PollFlags::IN), PollFd::new(&input, PollFlags::IN)];
        rustix::event::poll(&mut ready, None).map_err(|e| Error::system("waiting for a stream")(e.into()))?;
        if !ready[0].revents().is_empty() {
            return Ok(true);
        }
        if !matches!(input.lock().read(&mut [0; 512]), Ok(n) if n > 0) {
            return Ok(false);
        }
    }
}
