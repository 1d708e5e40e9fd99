//! Filters of sockets that stay at home (classic BPF: SO_ATTACH_FILTER in socket(7)). A filter is
//! an array to which a structure points; it travels behind that.

use crate::calls::served::Asked;
use crate::sandbox::guest_memory;
use crate::state::calls::after::After;
use crate::state::calls::marshal::Back;
use room_protocol::message::{Call, StandinId};

/// A `struct sock_fprog`, bytes: how many instructions, and at 8 where they are.
const PROGRAM_BYTES: usize = 16;
const AT_POINTER: usize = 8;
/// A `struct sock_filter`, bytes.
const INSTRUCTION_BYTES: usize = 8;
/// BPF_MAXINSNS of linux/bpf_common.h. The kernel refuses longer ones before it reads them.
const INSTRUCTIONS_MAX: usize = 4096;

/// setsockopt: the socket takes a filter.
pub fn attach(asked: Asked, standin: StandinId) {
    let [_, level, option, at, length, ..] = asked.args;
    let data = match program(&asked, at, length as u32 as usize) {
        Ok(data) => data,
        Err(errno) => return asked.value(-i64::from(errno)),
    };
    let inner = if data.len() > PROGRAM_BYTES { vec![AT_POINTER as u32] } else { Vec::new() };
    let args = [0, level, option, 0, length, 0];
    let call = Call { standin: Some(standin), pointers: 0b1000, data, inner, ..Call::new(libc::SYS_setsockopt, args) };
    asked.ask(call, After::Write(Vec::new()), false);
}

/// The structure, and behind it the instructions to which it then points: offsets are made
/// addresses at home.
fn program(asked: &Asked, at: u64, length: usize) -> Result<Vec<u8>, i32> {
    let host = asked.waiting.host_tid.0;
    let read = |from, into: &mut [u8]| guest_memory::read(host, from, into).map_err(|_| libc::EFAULT);
    if length != PROGRAM_BYTES {
        return Err(libc::EINVAL);
    }
    let mut data = vec![0; PROGRAM_BYTES];
    read(at, &mut data)?;
    let count = usize::from(u16::from_le_bytes([data[0], data[1]]));
    let from = data[AT_POINTER..].try_into().map_or(0, u64::from_le_bytes);
    if count == 0 || count > INSTRUCTIONS_MAX || from == 0 {
        return Ok(data);
    }
    data[AT_POINTER..].copy_from_slice(&(PROGRAM_BYTES as u64).to_le_bytes());
    data.resize(PROGRAM_BYTES + count * INSTRUCTION_BYTES, 0);
    read(from, &mut data[PROGRAM_BYTES..])?;
    Ok(data)
}

/// getsockopt: the length counts instructions, before and after.
pub fn get(asked: Asked, standin: StandinId) {
    let [_, level, option, at, length_at, _] = asked.args;
    let host = asked.waiting.host_tid.0;
    let read = |from, into: &mut [u8]| guest_memory::read(host, from, into).is_ok();
    let mut length = [0; 4];
    if !read(length_at, &mut length) {
        return asked.value(-i64::from(libc::EFAULT));
    }
    let count = u32::from_le_bytes(length);
    let bytes = (count as usize).min(INSTRUCTIONS_MAX) * INSTRUCTION_BYTES;
    // What the kernel does not write comes back as it was.
    let mut data = vec![0; bytes];
    if !read(at, &mut data) {
        return asked.value(-i64::from(libc::EFAULT));
    }
    data.extend([length, [0; 4]].concat());
    let back = vec![
        Back { from: 0, bytes, to: at, counted_at: None },
        Back { from: bytes, bytes: length.len(), to: length_at, counted_at: None },
    ];
    let args = [0, level, option, 0, bytes as u64, 0];
    let out_bytes = data.len() as u32;
    let call =
        Call { standin: Some(standin), pointers: 0b1_1000, data, out_bytes, ..Call::new(libc::SYS_getsockopt, args) };
    asked.ask(call, After::Write(back), false);
}
