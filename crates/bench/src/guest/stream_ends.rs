//! Two processes that exchange messages over a connected stream while they are moved: one serves,
//! the other asks as its standard input says.

use std::io::{BufRead, Error, Read, Result, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Instant;

const PIECE_BYTES: usize = 64 << 10;
/// A request of the one who asks: the bytes of a message, and the number of messages; the number 0
/// asks for one byte after all bytes.
const REQUEST_BYTES: usize = 16;

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// Serves one connection at `tcp:ADDRESS:PORT` or `unix:PATH`. Prints the process id when it
/// listens.
pub fn serve(at: &str) -> Result<f64> {
    let mut stream: Box<dyn Stream> = match at.split_once(':') {
        Some(("tcp", address)) => {
            let listener = TcpListener::bind(address)?;
            say(std::process::id())?;
            let stream = listener.accept()?.0;
            stream.set_nodelay(true)?;
            Box::new(stream)
        }
        Some(("unix", path)) => {
            let listener = UnixListener::bind(path)?;
            say(std::process::id())?;
            Box::new(listener.accept()?.0)
        }
        _ => return Err(Error::other("tcp:ADDRESS:PORT or unix:PATH is expected")),
    };
    let mut request = [0; REQUEST_BYTES];
    while stream.read_exact(&mut request).is_ok() {
        let (bytes, count) = parts(&request);
        if count == 0 {
            take(&mut stream, bytes)?;
            stream.write_all(b".")?;
        }
        let mut message = vec![0; if count == 0 { 0 } else { bytes as usize }];
        for _ in 0..count {
            stream.read_exact(&mut message)?;
            stream.write_all(&message)?;
        }
    }
    Ok(0.0)
}

/// Connects, prints the process id, and does what lines of standard input say: `ping BYTES COUNT`
/// prints nanoseconds for each round trip, `bulk MIB` MB/s.
pub fn ask(at: &str) -> Result<f64> {
    let mut stream: Box<dyn Stream> = match at.split_once(':') {
        Some(("tcp", address)) => {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            Box::new(stream)
        }
        Some(("unix", path)) => Box::new(UnixStream::connect(path)?),
        _ => return Err(Error::other("tcp:ADDRESS:PORT or unix:PATH is expected")),
    };
    say(std::process::id())?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let number = |text: &str| text.parse::<u64>().map_err(Error::other);
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["ping", bytes, count] => say(ping(&mut stream, number(bytes)?, number(count)?)?)?,
            ["bulk", mib] => say(bulk(&mut stream, number(mib)? << 20)?)?,
            _ => return Err(Error::other("ping BYTES COUNT or bulk MIB is expected")),
        }
    }
    Ok(0.0)
}

fn ping(stream: &mut dyn Stream, bytes: u64, count: u64) -> Result<f64> {
    let mut message = vec![7; bytes as usize];
    request(stream, bytes, count)?;
    let start = Instant::now();
    for _ in 0..count {
        stream.write_all(&message)?;
        stream.read_exact(&mut message)?;
    }
    Ok(start.elapsed().as_nanos() as f64 / count as f64)
}

fn bulk(stream: &mut dyn Stream, bytes: u64) -> Result<f64> {
    let piece = vec![7; PIECE_BYTES];
    request(stream, bytes, 0)?;
    let start = Instant::now();
    for _ in 0..bytes / PIECE_BYTES as u64 {
        stream.write_all(&piece)?;
    }
    stream.read_exact(&mut [0])?;
    Ok(bytes as f64 / start.elapsed().as_secs_f64() / 1e6)
}

fn request(stream: &mut dyn Stream, bytes: u64, count: u64) -> Result<()> {
    stream.write_all(&[bytes.to_le_bytes(), count.to_le_bytes()].concat())
}

fn parts(request: &[u8; REQUEST_BYTES]) -> (u64, u64) {
    let half = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| request[at + i]));
    (half(0), half(REQUEST_BYTES / 2))
}

fn take(stream: &mut dyn Stream, mut bytes: u64) -> Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    while bytes > 0 {
        match stream.read(&mut piece)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            n => bytes = bytes.saturating_sub(n as u64),
        }
    }
    Ok(())
}

fn say(value: impl std::fmt::Display) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{value}").and_then(|()| out.flush())
}
