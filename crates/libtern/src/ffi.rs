//! The functions of `tern.h`. Their contract is in the manual pages.
//!
//! # Safety
//! Pointers are what `tern.h` says: strings that end with a zero byte, arrays of the length that is
//! said, and arrays of strings that end with null. Null is refused with EFAULT where it means
//! nothing.
#![allow(clippy::missing_safety_doc, reason = "the manual pages are the contract; see the module")]

use std::ffi::{CStr, CString, c_char, c_int};
use std::os::fd::RawFd;

use control_protocol::rights::NodeState;
use control_protocol::tool::NodeRow;

use crate::dumping::{self, Side};
use crate::errors::{Errno, Outcome, to_c};
use crate::placing::{Command, become_on};
use crate::spawn::{Coming, Forked, fork};
use crate::vrfork::{self, Copied};
use crate::{list, moving};

/// Bytes of a node's name, the zero byte included (`TERN_NAME_BYTES`).
const NAME_BYTES: usize = 64;
/// The most children that one call makes.
const CHILDREN_MAX: usize = 1 << 16;

/// A node: `struct tern_node` of the header.
#[repr(C)]
pub struct Node {
    name: [c_char; NAME_BYTES],
    state: c_int,
    is_here: c_int,
    cores: c_int,
    runnable_milli: c_int,
    owner: u32,
    group: u32,
    mode: u32,
}

/// A process: `struct tern_process` of the header.
#[repr(C)]
pub struct Process {
    pid: c_int,
    uid: c_int,
    state: c_int,
    threads: c_int,
    node: [c_char; NAME_BYTES],
}

/// `struct tern_io`: descriptors of the caller that become 0 to 2 of the child; -1 is /dev/null.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Io {
    fds: [c_int; 3],
}

/// Home lets root alone use the node (`TERN_NODE_UNAVAILABLE`).
const UNAVAILABLE: c_int = 3;

fn state(row: &NodeRow) -> c_int {
    match row.suspended {
        Some(_) => SUSPENDED,
        None if row.alive && row.rights.state == NodeState::Unavailable => UNAVAILABLE,
        None => c_int::from(row.alive) * UP,
    }
}

/// The node is alive (`TERN_NODE_UP`).
const UP: c_int = 1;
/// The node has said that it does not answer for a while (`TERN_NODE_SUSPENDED`).
const SUSPENDED: c_int = 2;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tern_nodes(nodes: *mut Node, most: c_int) -> c_int {
    let rows = list::nodes().map(|rows| {
        rows.iter()
            .map(|row| Node {
                name: name(&row.name),
                state: state(row),
                is_here: row.here.into(),
                cores: row.load.map_or(0, |(load, _)| number(load.cores)),
                runnable_milli: row.load.map_or(-1, |(load, _)| number(load.runnable_milli)),
                owner: row.rights.owner,
                group: row.rights.group,
                mode: row.rights.mode.into(),
            })
            .collect()
    });
    // SAFETY: the caller's array.
    to_c(rows.map(|rows| unsafe { fill(rows, nodes, most) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tern_processes(processes: *mut Process, most: c_int) -> c_int {
    let rows = list::processes().map(|rows| {
        rows.iter()
            .map(|row| Process {
                pid: row.guest.pid,
                uid: number(row.guest.uid),
                state: u8::try_from(row.guest.state).unwrap_or(b'?').into(),
                threads: number(row.guest.threads),
                node: name(&row.node),
            })
            .collect()
    });
    // SAFETY: the caller's array.
    to_c(rows.map(|rows| unsafe { fill(rows, processes, most) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tern_node_of(pid: c_int, node: *mut c_char) -> c_int {
    let pid = if pid == 0 { rustix::process::getpid().as_raw_nonzero().get() } else { pid };
    to_c(list::node_of(pid).and_then(|of| {
        if node.is_null() {
            return Err(Errno(libc::EFAULT));
        }
        // SAFETY: TERN_NAME_BYTES of the caller's.
        unsafe { node.cast::<[c_char; NAME_BYTES]>().write(name(&of)) };
        Ok(0)
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tern_choose(text: *const c_char, names: *mut [c_char; NAME_BYTES], most: c_int) -> c_int {
    // SAFETY: a string of the caller's.
    let named = unsafe { text_of(text) }.and_then(|text| list::named(&text));
    // SAFETY: the caller's array.
    to_c(named.map(|named| unsafe { fill(named.iter().map(|n| name(n)).collect(), names, most) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tern_move(node: *const c_char) -> c_int {
    // SAFETY: a string of the caller's.
    to_c(unsafe { text_of(node) }.and_then(|node| moving::to(&node, None)).map(|()| 0))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tern_rfork(node: *const c_char) -> c_int {
    // SAFETY: a string of the caller's.
    to_c(unsafe { text_of(node) }.and_then(|node| match fork()? {
        Forked::Child(report) => match moving::to(&node, None) {
            Ok(()) => Ok(0),
            Err(e) => report.fail(e),
        },
        Forked::Parent(coming) => coming.arrived(),
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tern_vrfork(count: c_int, nodes: *const *const c_char, pids: *mut c_int) -> c_int {
    // SAFETY: arrays of `count` of the caller's.
    let asked = unsafe { texts_of(count, nodes, pids) };
    to_c(asked.and_then(|nodes| match vrfork::to_all(&nodes) {
        Copied::Copy(rank) => Ok(rank.try_into().unwrap_or(c_int::MAX)),
        // SAFETY: as many as there are nodes.
        Copied::Caller(told) => unsafe { tell(told, pids) }.map(|_| count),
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tern_execmove(
    node: *const c_char,
    path: *const c_char,
    argv: *const *const c_char,
    envp: *const *const c_char,
) -> c_int {
    // SAFETY: strings and arrays of strings of the caller's.
    let asked = unsafe { text_of(node).and_then(|node| Ok((node, command_of(path, argv, envp)?))) };
    to_c(asked.and_then(|(node, command)| Err(become_on(&node, &command))))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tern_vexecmove(
    count: c_int,
    nodes: *const *const c_char,
    pids: *mut c_int,
    path: *const c_char,
    argv: *const *const c_char,
    envp: *const *const c_char,
) -> c_int {
    // SAFETY: passed on.
    unsafe { tern_vexecmove_io(count, nodes, pids, std::ptr::null(), path, argv, envp) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tern_vexecmove_io(
    count: c_int,
    nodes: *const *const c_char,
    pids: *mut c_int,
    io: *const Io,
    path: *const c_char,
    argv: *const *const c_char,
    envp: *const *const c_char,
) -> c_int {
    // SAFETY: arrays of `count`, strings, and arrays of strings of the caller's.
    let asked = unsafe { texts_of(count, nodes, pids).and_then(|nodes| Ok((nodes, command_of(path, argv, envp)?))) };
    // SAFETY: null, or one record of the caller's.
    let io = unsafe { io.as_ref() }.copied();
    to_c(asked.and_then(|(nodes, command)| {
        let begun = nodes.iter().enumerate().map(|(rank, node)| start(rank, node, &command, io));
        let coming: Vec<Outcome<Coming>> = begun.collect();
        let told = coming.into_iter().map(|child| child.and_then(Coming::arrived)).collect();
        // SAFETY: as many as there are nodes.
        unsafe { tell(told, pids) }
    }))
}

/// Bits of `flags` of a dump (`TERN_DUMP_`), and the options that say the same to tern(1).
const DUMP_OPTIONS: [(c_int, &CStr); 3] = [(1, c"--ignore-files"), (2, c"--ignore-locks"), (4, c"--whole")];
/// Bits of `flags` of tern_undump(3) (`TERN_UNDUMP_`), and the options.
const UNDUMP_OPTIONS: [(c_int, &CStr); 3] = [(1, c"--close-missing"), (2, c"--any-files"), (4, c"--any-cpu")];

#[unsafe(no_mangle)]
pub extern "C" fn tern_dump(fd: c_int, flags: c_int) -> c_int {
    to_c(options(flags, &DUMP_OPTIONS).and_then(|options| dumping::dump(None, fd, &options)).map(|side| match side {
        Side::Original => 1,
        Side::Copy => 0,
    }))
}

#[unsafe(no_mangle)]
pub extern "C" fn tern_dump_pid(pid: c_int, fd: c_int, flags: c_int) -> c_int {
    let is_other = pid > 0 && pid != rustix::process::getpid().as_raw_nonzero().get();
    let asked = options(flags, &DUMP_OPTIONS).and_then(|o| if is_other { Ok(o) } else { Err(Errno(libc::EINVAL)) });
    to_c(asked.and_then(|options| dumping::dump(Some(pid), fd, &options)).map(|_| 0))
}

#[unsafe(no_mangle)]
pub extern "C" fn tern_undump(fd: c_int, flags: c_int) -> c_int {
    to_c(options(flags, &UNDUMP_OPTIONS).and_then(|options| Err(dumping::undump(fd, &options))))
}

fn options(flags: c_int, known: &[(c_int, &'static CStr)]) -> Outcome<Vec<&'static CStr>> {
    let all = known.iter().fold(0, |all, (bit, _)| all | bit);
    match flags & !all {
        0 => Ok(known.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, option)| *option).collect()),
        _ => Err(Errno(libc::EINVAL)),
    }
}

/// Makes the child of a rank, which becomes the program.
fn start(rank: usize, node: &str, command: &Command, io: Option<Io>) -> Outcome<Coming> {
    match fork()? {
        Forked::Parent(coming) => Ok(coming),
        Forked::Child(report) => {
            let done = io.map_or(Ok(()), take_streams);
            let error = done.err().unwrap_or_else(|| become_on(node, &ranked(command, rank)));
            report.fail(error)
        }
    }
}

/// The program knows its rank by the environment.
fn ranked(command: &Command, rank: usize) -> Command {
    let mine =
        |word: &&CString| !word.as_bytes().starts_with(b"TERN_RANK=") && !word.as_bytes().starts_with(b"BPROC_RANK=");
    let kept = command.envp.iter().filter(mine).cloned();
    let said = ["TERN_RANK", "BPROC_RANK"].iter().filter_map(|name| CString::new(format!("{name}={rank}")).ok());
    Command { path: command.path.clone(), argv: command.argv.clone(), envp: kept.chain(said).collect() }
}

fn take_streams(io: Io) -> Outcome<()> {
    let flags = libc::O_RDWR | libc::O_CLOEXEC;
    let mut moved = [0; 3];
    for (to, from) in moved.iter_mut().zip(io.fds) {
        // Above the first three, so that none is replaced before it is used.
        // SAFETY: numbers, and a string that lives for ever.
        *to = unsafe {
            match from {
                -1 => libc::fcntl(libc::open(c"/dev/null".as_ptr(), flags), libc::F_DUPFD_CLOEXEC, 3),
                fd => libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3),
            }
        };
        if *to < 0 {
            return Err(std::io::Error::last_os_error().into());
        }
    }
    for (number, fd) in (0..).zip(moved) {
        replace(fd, number)?;
    }
    Ok(())
}

fn replace(fd: RawFd, number: RawFd) -> Outcome<()> {
    // SAFETY: numbers only.
    if unsafe { libc::dup2(fd, number) } < 0 { Err(std::io::Error::last_os_error().into()) } else { Ok(()) }
}

/// Writes PIDs, and negative errors. Gives the number of children; if there are none, why the first
/// one is missing.
unsafe fn tell(children: Vec<Outcome<i32>>, pids: *mut c_int) -> Outcome<i32> {
    let (mut came, mut first) = (0, None);
    for (at, child) in children.into_iter().enumerate() {
        let told = match child {
            Ok(pid) => {
                came += 1;
                pid
            }
            Err(Errno(number)) => {
                first.get_or_insert(Errno(number));
                -number
            }
        };
        // SAFETY: within the caller's array.
        unsafe { pids.add(at).write(told) };
    }
    first.filter(|_| came == 0).map_or(Ok(came), Err)
}

unsafe fn text_of(text: *const c_char) -> Outcome<String> {
    if text.is_null() {
        return Err(Errno(libc::EFAULT));
    }
    // SAFETY: a string of the caller's.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map(str::to_owned).map_err(|_| Errno(libc::EINVAL))
}

unsafe fn texts_of(count: c_int, texts: *const *const c_char, pids: *mut c_int) -> Outcome<Vec<String>> {
    let count =
        usize::try_from(count).ok().filter(|count| (1..=CHILDREN_MAX).contains(count)).ok_or(Errno(libc::EINVAL))?;
    if texts.is_null() || pids.is_null() {
        return Err(Errno(libc::EFAULT));
    }
    // SAFETY: within the caller's array.
    (0..count).map(|at| unsafe { text_of(*texts.add(at)) }).collect()
}

unsafe fn command_of(path: *const c_char, argv: *const *const c_char, envp: *const *const c_char) -> Outcome<Command> {
    if path.is_null() {
        return Err(Errno(libc::EFAULT));
    }
    // SAFETY: a string and two arrays of the caller's.
    unsafe { Ok(Command { path: CStr::from_ptr(path).to_owned(), argv: words_of(argv)?, envp: words_of(envp)? }) }
}

/// The words of an array that ends with null.
unsafe fn words_of(array: *const *const c_char) -> Outcome<Vec<CString>> {
    if array.is_null() {
        return Err(Errno(libc::EFAULT));
    }
    let mut words = Vec::new();
    // SAFETY: up to the null.
    unsafe {
        while !(*array.add(words.len())).is_null() {
            words.push(CStr::from_ptr(*array.add(words.len())).to_owned());
        }
    }
    Ok(words)
}

/// Writes as many as fit; gives how many there are.
unsafe fn fill<T>(rows: Vec<T>, to: *mut T, most: c_int) -> i32 {
    let (count, most) = (rows.len(), usize::try_from(most).unwrap_or(0));
    if !to.is_null() {
        for (at, row) in rows.into_iter().take(most).enumerate() {
            // SAFETY: within the caller's array.
            unsafe { to.add(at).write(row) };
        }
    }
    i32::try_from(count).unwrap_or(i32::MAX)
}

fn name(text: &str) -> [c_char; NAME_BYTES] {
    let mut name = [0; NAME_BYTES];
    for (to, byte) in name.iter_mut().zip(text.bytes().take(NAME_BYTES - 1)) {
        *to = byte as c_char;
    }
    name
}

fn number(value: u32) -> c_int {
    c_int::try_from(value).unwrap_or(c_int::MAX)
}
