//! The question to the coordinator.

use abi::spread;

use crate::sys::{self, call};
use crate::text::{self, Text, Words};

/// Shells are not asked about: they start programs, which are.
const SHELLS: [&[u8]; 4] = [b"sh", b"dash", b"bash", b"tern"];
/// Longest path of a socket.
const SOCKET_PATH: usize = 108;
/// An answer is waited for this long, seconds: after that the program is executed as it is.
const WAITED_S: u64 = 5;

/// A program that is about to be executed.
pub struct Execution {
    /// Path of its file.
    pub path: *const core::ffi::c_char,
    /// The arguments, the program's name first.
    pub argv: Words,
    /// The environment of the program.
    pub envp: Words,
}

impl Execution {
    /// Asks whether the program goes elsewhere. Gives the path of the `tern` that takes it there.
    ///
    /// # Safety
    /// The pointers are what execve(2) takes.
    pub unsafe fn goes(&self) -> Option<Text<256>> {
        // SAFETY: as the caller promises.
        let (path, socket) = unsafe {
            let socket = text::value(self.envp, spread::SOCKET)?;
            if text::value(self.envp, spread::LOCAL).is_some() {
                return None;
            }
            (text::bytes(self.path), socket)
        };
        let name = text::file_name(path);
        const X_OK: u64 = 1;
        // Some look for a program by executing it in one directory after the other.
        // SAFETY: reads a string of C.
        let is_there = || unsafe { call(sys::ACCESS, [self.path as u64, X_OK, 0, 0, 0, 0]) } == 0;
        if SHELLS.contains(&name) || socket.len() >= SOCKET_PATH || !is_there() {
            return None;
        }
        let mut question = Text::<{ spread::ASK_BYTES }>::new();
        question.push(&[spread::ASK]);
        question.push(path);
        question.push(&[0]);
        // SAFETY: as the caller promises; `at` is below the count.
        for at in 0..unsafe { text::count(self.argv) } {
            question.push(unsafe { text::bytes(*self.argv.add(at)) });
            question.push(&[0]);
        }
        if answer(socket, question.as_bytes())? != spread::GOES {
            return None;
        }
        let mut tool = Text::new();
        tool.push(&socket[..socket.len() - text::file_name(socket).len()]);
        tool.push(spread::TOOL);
        tool.is_whole().then_some(tool)
    }
}

/// Asks, and waits for the answer.
fn answer(path: &[u8], question: &[u8]) -> Option<u8> {
    const UNIX_SEQPACKET_CLOEXEC: [u64; 2] = [1, 5 | 0o2_000_000];
    // SAFETY: touches no memory.
    let socket = unsafe { call(sys::SOCKET, [UNIX_SEQPACKET_CLOEXEC[0], UNIX_SEQPACKET_CLOEXEC[1], 0, 0, 0, 0]) };
    let socket = u64::try_from(socket).ok()?;
    let answer = talk(socket, path, question);
    sys::close(socket);
    answer
}

fn talk(socket: u64, path: &[u8], question: &[u8]) -> Option<u8> {
    const SOL_SOCKET_RCVTIMEO_SNDTIMEO: [u64; 3] = [1, 20, 21];
    const MSG_NOSIGNAL: u64 = 0x4000;
    let mut address = [0u8; 2 + SOCKET_PATH];
    address[0] = 1;
    address[2..2 + path.len()].copy_from_slice(path);
    let time = [WAITED_S, 0];
    let mut byte = 0u8;
    // SAFETY: all memory lives on this stack, and the kernel writes but one byte of it.
    unsafe {
        for option in &SOL_SOCKET_RCVTIMEO_SNDTIMEO[1..] {
            let arguments = [socket, SOL_SOCKET_RCVTIMEO_SNDTIMEO[0], *option, time.as_ptr() as u64, 16, 0];
            call(sys::SETSOCKOPT, arguments);
        }
        let connected = call(sys::CONNECT, [socket, address.as_ptr() as u64, address.len() as u64, 0, 0, 0]);
        if connected < 0 {
            return None;
        }
        let arguments = [socket, question.as_ptr() as u64, question.len() as u64, MSG_NOSIGNAL, 0, 0];
        if call(sys::SENDTO, arguments) < 0 {
            return None;
        }
        loop {
            match call(sys::RECVFROM, [socket, (&raw mut byte) as u64, 1, 0, 0, 0]) {
                sys::EINTR => {}
                1 => return Some(byte),
                _ => return None,
            }
        }
    }
}
