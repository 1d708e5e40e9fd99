//! The programs that run natively and placed: one small operation many times, timed inside, so that
//! starting the program does not count.

mod exchange;
mod family;
mod stream_ends;

pub use exchange::echo;

use crate::burn::burn;
use std::fs::File;
use std::hint::black_box;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

const USAGE: &str = "__bench-guest clock|getpid|getppid|touch|fork|vfork|thread|pipe|socket|pipe-stream|ping N | pread|stat FILE N | open DIR N | \
                     write BYTES N | read FILE | copy FROM TO | burn ROUNDS | job ROUNDS | hold MIB ROUNDS | pulse MS,MS,... | talk-serve AT | talk-ask AT";

/// Runs one of the programs. Prints nanoseconds per repetition (for `read`: in all) on standard
/// error.
pub fn main(args: &[String]) -> u8 {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<u64>().unwrap_or(1).max(1);
    let measured = match words.as_slice() {
        ["clock", n] => Ok(each(number(n), clock)),
        ["getpid", n] => Ok(each(number(n), getpid)),
        ["getppid", n] => Ok(each(number(n), getppid)),
        ["touch", n] => touch(number(n)),
        ["fork", n] => family::fork(number(n)),
        ["vfork", n] => family::spawn(number(n)),
        ["thread", n] => family::thread(number(n)),
        ["pipe", n] => exchange::pipes(number(n)),
        ["socket", n] => exchange::sockets(number(n)),
        ["pipe-stream", mib] => exchange::stream(number(mib)),
        ["ping", n] => exchange::with_home(number(n)),
        ["pread", file, n] => pread(Path::new(file), number(n)),
        ["stat", file, n] => stat(Path::new(file), number(n)),
        ["open", dir, n] => open(Path::new(dir), number(n)),
        ["write", bytes, n] => write(number(bytes) as usize, number(n)),
        ["read", file] => read(Path::new(file)),
        ["burn", rounds] => burn(number(rounds)),
        ["job", rounds] => return said(crate::balance::Job::run(number(rounds))),
        ["job", before, rounds] => {
            return said(burn(number(before)).and_then(|_| crate::balance::Job::run(number(rounds))));
        }
        ["hold", mib, rounds] => crate::balance::hold(number(mib), number(rounds)),
        ["pulse", beats] => crate::balance::pulse(beats),
        ["talk-serve", at] => return quiet(stream_ends::serve(at)),
        ["talk-ask", at] => return quiet(stream_ends::ask(at)),
        ["copy", from, to] => copy(Path::new(from), Path::new(to)),
        _ => Err(std::io::Error::other(USAGE)),
    };
    said(measured)
}

/// Gives the exit status of a guest that says nothing at its end.
fn quiet(done: std::io::Result<f64>) -> u8 {
    done.map_or_else(|e| said(Err::<f64, _>(e)), |_| 0)
}

fn said(measured: std::io::Result<impl std::fmt::Display>) -> u8 {
    match measured {
        Ok(measured) => {
            eprintln!("{measured}");
            0
        }
        Err(e) => {
            eprintln!("{e}");
            1
        }
    }
}

fn each(n: u64, mut f: impl FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..n {
        f();
    }
    start.elapsed().as_nanos() as f64 / n as f64
}

fn try_each(n: u64, mut f: impl FnMut(u64) -> std::io::Result<()>) -> std::io::Result<f64> {
    let start = Instant::now();
    for i in 0..n {
        f(i)?;
    }
    Ok(start.elapsed().as_nanos() as f64 / n as f64)
}

fn clock() {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    black_box(now.tv_nsec);
}

fn getpid() {
    // SAFETY: no memory is passed.
    black_box(unsafe { libc::syscall(libc::SYS_getpid) });
}

fn getppid() {
    black_box(std::os::unix::process::parent_id());
}

/// Maps 16 MiB, writes to each page, and unmaps them.
fn touch(n: u64) -> std::io::Result<f64> {
    const BYTES: usize = 16 << 20;
    try_each(n, |_| {
        // SAFETY: a fresh mapping, used within its length, then unmapped.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let at = libc::mmap(std::ptr::null_mut(), BYTES, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            if at == libc::MAP_FAILED {
                return Err(std::io::Error::last_os_error());
            }
            for page in (0..BYTES).step_by(4096) {
                at.cast::<u8>().add(page).write_volatile(1);
            }
            libc::munmap(at, BYTES);
        }
        Ok(())
    })
}

fn pread(file: &Path, n: u64) -> std::io::Result<f64> {
    let file = File::open(file)?;
    let mut block = [0; 4096];
    file.read_exact_at(&mut block, 0)?;
    try_each(n, |i| file.read_exact_at(&mut block, (i % 16) * 4096))
}

fn stat(file: &Path, n: u64) -> std::io::Result<f64> {
    std::fs::metadata(file)?;
    try_each(n, |_| {
        black_box(std::fs::metadata(file)?);
        Ok(())
    })
}

/// Opens and reads files that nobody has read here before.
fn open(dir: &Path, n: u64) -> std::io::Result<f64> {
    let mut text = Vec::new();
    try_each(n, |i| {
        text.clear();
        File::open(dir.join(i.to_string()))?.read_to_end(&mut text).map(drop)
    })
}

fn write(bytes: usize, n: u64) -> std::io::Result<f64> {
    let block = vec![b'x'; bytes];
    let mut out = std::io::stdout().lock();
    try_each(n, |_| out.write_all(&block).and_then(|()| out.flush()))
}

fn read(file: &Path) -> std::io::Result<f64> {
    let mut file = File::open(file)?;
    let mut block = vec![0; 1 << 20];
    let start = Instant::now();
    while file.read(&mut block)? > 0 {}
    Ok(start.elapsed().as_nanos() as f64)
}

fn copy(from: &Path, to: &Path) -> std::io::Result<f64> {
    let start = Instant::now();
    let (mut from, mut to) = (File::open(from)?, File::create(to)?);
    let mut block = vec![0; 256 << 10];
    loop {
        match from.read(&mut block)? {
            0 => return Ok(start.elapsed().as_nanos() as f64),
            n => to.write_all(&block[..n])?,
        }
    }
}
