//! Programs that cannot begin in a room (`homefs::programs`): who executes one goes home, and
//! executes it there. Home says so when the kernel here opens the file, so the call fails; its
//! thread stops as soon as it has, and is put back to before it
//! ([`crate::supervisor::tracer::unsupported_clone`]).
//!
//! Who is to be traced from then on ([`ToBeTraced`]) does the same.
//!
//! A child of vfork(2) cannot leave without its parent, which waits for it and does not stop. So it
//! executes a shell first, which lets its parent go on, and executes the program.

use crate::sandbox::guest_memory;
use crate::state::guests::ToBeTraced;
use crate::supervisor::memory_group as relatives;
use crate::supervisor::tracer::Tracer;
use crate::supervisor::tracer::injected::with_inside;
use homefs::client::LateReply;
use libc::user_regs_struct;
use os::inject::Memory;
use os::ptrace::{self, HostTid, Stopped, TraceError};
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

/// What refused calls say.
const WHY: &str = "a program that only home can execute (set-user-id, unreadable, or 32-bit)";

impl Tracer {
    /// A thread executes such a program.
    pub fn execute_at_home(&mut self, host: HostTid, reply: LateReply) {
        let begins = self.meet(host).is_some_and(|who| self.bodies.is_starting(who.pid));
        if begins || !self.will_fail(host) {
            self.refuse_call(host, libc::SYS_execve as u32, WHY);
        } else {
            // One that is gone needs no answer.
            drop(ptrace::interrupt(host));
        }
        reply.give();
    }

    /// Puts a thread whose call has failed for that back to before it; all others stay as they are.
    pub fn execute_again(&mut self, stopped: Stopped) -> Result<Stopped, TraceError> {
        let host = stopped.tid();
        if !self.has_failed(host) {
            return Ok(stopped);
        }
        let mut registers = stopped.registers()?;
        let executes = matches!(registers.orig_rax as i64, libc::SYS_execve | libc::SYS_execveat);
        if !executes || registers.rax as i64 != -i64::from(libc::EPERM) {
            self.unsupported_calls.forget_thread(host);
            return Ok(stopped);
        }
        let pid = self.room.guests().who(host).map(|who| who.pid);
        let is_begotten = pid.is_some_and(|pid| relatives::begetter(&self.room, pid).is_some());
        if !is_begotten {
            return match self.change_traced(pid, ToBeTraced::Due, ToBeTraced::No) {
                true => self.traced_at_home(stopped, &registers),
                false => self.fails_no_more(stopped, &mut registers),
            };
        }
        let by_shell = registers.orig_rax as i64 == libc::SYS_execve && through_shell(host, &mut registers).is_some();
        let stopped = if by_shell { self.fails_no_more(stopped, &mut registers)? } else { stopped };
        self.change_traced(pid, ToBeTraced::Promised, if by_shell { ToBeTraced::ByShell } else { ToBeTraced::No });
        self.unsupported_calls.forget_thread(host);
        Ok(stopped)
    }

    fn change_traced(&self, pid: Option<i32>, from: ToBeTraced, to: ToBeTraced) -> bool {
        let mut guests = self.room.guests();
        let guest = pid.and_then(|pid| guests.get_mut(pid)).filter(|guest| guest.traced == from);
        guest.map(|guest| guest.traced = to).is_some()
    }

    /// The thread executes its program at home, when it has asked there to be traced.
    fn traced_at_home(&mut self, stopped: Stopped, registers: &user_regs_struct) -> Result<Stopped, TraceError> {
        // It goes with the memory, which execve(2) ends.
        let code = ptrace::to_be_held_and(registers);
        let mut page = 0;
        let (stopped, made) = with_inside(stopped, Duration::ZERO, |inside, _| {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let protection = libc::PROT_READ | libc::PROT_EXEC;
            let mapping = [0, code.len() as u64, protection as u64, flags as u64, u64::MAX, 0];
            page = inside.must("making room for asking to be traced", libc::SYS_mmap, mapping)?;
            Ok(inside.memory().write(page, &code)?)
        })?;
        made?;
        self.held_at(stopped, &mut user_regs_struct { rax: registers.orig_rax, rip: page, ..*registers })
    }
}

const SHELL: &[u8] = b"/bin/sh\0";
/// Given the program as its name, and the program's arguments.
const BY_PATH: &[u8] = b"exec \"$0\" \"$@\"\0";
/// A name without a slash is one in the working directory, not one of PATH.
const BY_NAME: &[u8] = b"exec ./\"$0\" \"$@\"\0";
/// Below its stack pointer a program may have written so much (System V ABI for x86-64, 3.2.2).
const RED_ZONE_BYTES: u64 = 128;
/// Its stack may be a small one of its maker's (posix_spawn(3)).
const WORDS_MAX: usize = 1000;
const PATH_BYTES_MAX: usize = 4096;

/// To its shell this is another program.
const ITSELF: &[u8] = b"/proc/self/exe";

/// Changes a call of execve(2) to one that has the shell make it; what it needs lies below the
/// stack. None: it cannot be.
fn through_shell(host: HostTid, registers: &mut user_regs_struct) -> Option<()> {
    let (path_at, arguments_at) = (registers.rdi, registers.rsi);
    let path = path(host, path_at)?;
    let script = if path.contains(&b'/') { BY_PATH } else { BY_NAME };
    let own = if path == ITSELF { [own_program(host)?, vec![0]].concat() } else { Vec::new() };
    let texts = [SHELL, b"-c\0", script, &own].concat();
    let at = (registers.rsp - RED_ZONE_BYTES).checked_sub(texts.len() as u64)? & !15;
    let option_at = at + SHELL.len() as u64;
    let script_at = option_at + 3;
    let path_at = if own.is_empty() { path_at } else { script_at + script.len() as u64 };
    let mut words = vec![at, option_at, script_at, path_at];
    // The first is the program's name for itself.
    for n in 1.. {
        let word = word(host, arguments_at.checked_add(8 * n)?)?;
        words.push(word);
        match word {
            0 => break,
            _ if words.len() == WORDS_MAX => return None,
            _ => {}
        }
    }
    let words_at = at.checked_sub(8 * words.len() as u64)? & !15;
    let memory = Memory::of(host.0).ok()?;
    memory.write(at, &texts).ok()?;
    memory.write(words_at, &words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>()).ok()?;
    (registers.rdi, registers.rsi) = (at, words_at);
    Some(())
}

fn own_program(host: HostTid) -> Option<Vec<u8>> {
    Some(os::process::link(host.0, "exe").ok()?.into_os_string().into_vec())
}

fn word(host: HostTid, at: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    guest_memory::read(host.0, at, &mut bytes).ok()?;
    Some(u64::from_le_bytes(bytes))
}

/// The path there.
pub fn path(host: HostTid, mut at: u64) -> Option<Vec<u8>> {
    let mut path = Vec::new();
    while path.len() < PATH_BYTES_MAX {
        // A string may end where the memory does, but not in the middle of a page.
        let mut bytes = [0; 8];
        let until_page = (4096 - at % 4096).min(8) as usize;
        guest_memory::read(host.0, at, &mut bytes[..until_page]).ok()?;
        let end = bytes[..until_page].iter().position(|byte| *byte == 0);
        path.extend(&bytes[..end.unwrap_or(until_page)]);
        if end.is_some() {
            return Some(path);
        }
        at = at.checked_add(until_page as u64)?;
    }
    None
}
