//! What the link between two nodes carries: one TCP stream, to `tern bench sink` on the other node.

use crate::Error;
use rustix::event::{PollFd, PollFlags};
use serde::Serialize;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Instant;

/// Streams over a link.
#[derive(Debug, Serialize)]
pub struct Streams {
    /// One plain stream, MB/s.
    pub tcp_mb_s: f64,
}

const BLOCK_BYTES: usize = 1 << 20;

/// Streams `bytes` to a sink at `at`: until it has taken all.
pub fn measure(at: SocketAddr, bytes: u64) -> Result<Streams, Error> {
    let failed = || Error::system(format!("streaming to tern bench sink at {at}"));
    let mut socket = TcpStream::connect(at).map_err(failed())?;
    let block: Vec<u8> = (0..BLOCK_BYTES).map(|i| ((i * 31) >> 3) as u8).collect();
    let start = Instant::now();
    for _ in 0..bytes.div_ceil(BLOCK_BYTES as u64) {
        socket.write_all(&block).map_err(failed())?;
    }
    socket.shutdown(std::net::Shutdown::Write).map_err(failed())?;
    // The sink closes when it has seen the end.
    socket.read_to_end(&mut Vec::new()).map_err(failed())?;
    Ok(Streams { tcp_mb_s: bytes as f64 / start.elapsed().as_secs_f64() / 1e6 })
}

/// Takes and drops what comes, one connection after the other, for ever; or from the first alone, unless standard input ends before it comes.
pub fn sink(at: SocketAddr, once: bool) -> Result<(), Error> {
    let listener = TcpListener::bind(at).map_err(Error::system(format!("listening at {at}")))?;
    let mut block = vec![0; BLOCK_BYTES];
    while !once || is_called(&listener)? {
        let (mut socket, _) = listener.accept().map_err(Error::system("accepting a stream"))?;
        while matches!(socket.read(&mut block), Ok(n) if n > 0) {}
        if once {
            break;
        }
    }
    Ok(())
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
