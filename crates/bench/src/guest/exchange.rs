//! Operations between two processes that exchange messages.

use super::try_each;
use std::io::{Read, Result, Write, pipe};
use std::os::unix::net::UnixStream;
use std::time::Instant;

/// Measures a round trip of a byte between parent and child, through two pipes.
pub fn pipes(n: u64) -> Result<f64> {
    let ((mut there_in, there_out), (back_in, mut back_out)) = (pipe()?, pipe()?);
    let child = child(move || echo(&mut there_in, &mut back_out));
    finish(child, ping(n, back_in, there_out))
}

/// Measures the same through a pair of sockets.
pub fn sockets(n: u64) -> Result<f64> {
    let (ours, theirs) = UnixStream::pair()?;
    let mut reader = theirs.try_clone()?;
    let mut writer = theirs;
    let child = child(move || echo(&mut reader, &mut writer));
    finish(child, ping(n, ours.try_clone()?, ours))
}

/// Measures the same with the process at the other ends of standard input and output.
pub fn with_home(n: u64) -> Result<f64> {
    ping(n, std::io::stdin(), std::io::stdout())
}

/// Measures the nanoseconds in which a child's bytes come through a pipe.
pub fn stream(mib: u64) -> Result<f64> {
    let (mut reader, mut writer) = pipe()?;
    let child = child(move || {
        let block = vec![b'x'; 64 << 10];
        (0..mib * 16).try_for_each(|_| writer.write_all(&block))
    });
    let start = Instant::now();
    let mut block = vec![0; 64 << 10];
    let mut left_bytes = mib << 20;
    while left_bytes > 0 {
        match reader.read(&mut block)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            n => left_bytes -= n as u64,
        }
    }
    finish(child, Ok(start.elapsed().as_nanos() as f64))
}

fn ping(n: u64, mut from: impl Read, mut to: impl Write) -> Result<f64> {
    try_each(n, |_| {
        to.write_all(b"x")?;
        to.flush()?;
        from.read_exact(&mut [0])
    })
}

/// Sends everything back until the input ends.
pub fn echo(from: &mut impl Read, to: &mut impl Write) -> Result<()> {
    let mut byte = [0];
    while from.read(&mut byte)? > 0 {
        to.write_all(&byte)?;
        to.flush()?;
    }
    Ok(())
}

fn child(work: impl FnOnce() -> Result<()>) -> i32 {
    // SAFETY: this guest has one thread; the child runs `work` and ends.
    match unsafe { libc::fork() } {
        0 => {
            let done = work();
            // SAFETY: ends this process; nothing of the parent's is run.
            unsafe { libc::_exit(i32::from(done.is_err())) }
        }
        pid => pid,
    }
}

fn finish(child: i32, measured: Result<f64>) -> Result<f64> {
    // SAFETY: no status is asked for. The child of `pipes` and `sockets` ends by itself only when
    // the parent's ends close, so it is ended here.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    measured
}
