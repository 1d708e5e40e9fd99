//! What the link between two nodes carries: one TCP stream, plain and encrypted as moves are, to `tern bench sink` on the other node.

use crate::Error;
use identity::{Identity, NodeName};
use link::LinkError;
use rustix::event::{PollFd, PollFlags};
use serde::Serialize;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::Instant;
use wire::Kind;

/// Streams over a link.
#[derive(Debug, Serialize)]
pub struct Streams {
    /// One plain stream, MB/s.
    pub tcp_mb_s: f64,
    /// The same bytes over a link of tern's, which nobody has to read from a process nor to write to one.
    pub encrypted_mb_s: f64,
}

const BLOCK_BYTES: usize = 1 << 20;
/// What a TLS connection begins with (RFC 8446, 5.1: a record of the handshake).
const HANDSHAKE: u8 = 0x16;

/// What is streamed; it begins otherwise.
fn block() -> Vec<u8> {
    (0..BLOCK_BYTES).map(|i| ((i * 31) >> 3) as u8).collect()
}

/// Streams `bytes` to a sink at `at`, until it has taken all; MB/s.
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

/// The same as [`plain`] over a link to this node.
fn encrypted(at: SocketAddr, bytes: u64, (node, state): (&str, &Path)) -> Result<f64, Error> {
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

/// Both, to this node; `state`: where this node's identity is.
pub fn measure(at: SocketAddr, bytes: u64, to: (&str, &Path)) -> Result<Streams, Error> {
    Ok(Streams { tcp_mb_s: plain(at, bytes)?, encrypted_mb_s: encrypted(at, bytes, to)? })
}

fn us(state: &Path) -> Result<Identity, Error> {
    Identity::load(state).map_err(|e| Error::system("reading this node's identity")(std::io::Error::other(e)))
}

/// Takes and drops what comes, one connection after the other, for ever; or from the first alone, unless standard input ends before it comes.
pub fn sink(at: SocketAddr, once: bool, state: &Path) -> Result<(), Error> {
    let listener = TcpListener::bind(at).map_err(Error::system(format!("listening at {at}")))?;
    let mut block = vec![0; BLOCK_BYTES];
    while !once || is_called(&listener)? {
        let (mut socket, _) = listener.accept().map_err(Error::system("accepting a stream"))?;
        let mut first = [0];
        match socket.peek(&mut first) {
            // Who breaks off is no error.
            Ok(1) if first == [HANDSHAKE] => drop(take_frames(socket, &us(state)?, &mut block)),
            _ => while matches!(socket.read(&mut block), Ok(n) if n > 0) {},
        }
        if once {
            break;
        }
    }
    Ok(())
}

/// Takes frames until one says that this was all, which is answered.
fn take_frames(socket: TcpStream, us: &Identity, block: &mut Vec<u8>) -> Result<(), LinkError> {
    let (sender, mut receiver, _) = link::accept(socket, us.server_config())?;
    while receiver.receive(block)?.kind == Kind::Pages {}
    sender.send(Kind::Message, 0, 0, &[])?;
    // The other end closes.
    receiver.receive(block).map(drop)
}

/// Waits for a connection; not if whoever wanted it has gone, and standard input with it.
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
