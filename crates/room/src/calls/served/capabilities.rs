//! capget(2) and capset(2): the deputy's are the true ones, by which home serves. Those of the body
//! are few; it takes what home's kernel makes of them (`tracer/rights.rs`).

use crate::calls::served::Asked;
use crate::sandbox::guest_memory;
use crate::state::calls::after::After;
use crate::state::calls::marshal::Back;
use room_protocol::message::Call;

/// `struct __user_cap_header_struct` (linux/capability.h): version, PID.
const HEAD_BYTES: usize = 8;
/// Two halves of `struct __user_cap_data_struct`: effective, permitted, inheritable.
const DATA_BYTES: usize = 24;
const VERSION_1: u32 = 0x1998_0330;
const VERSION_2: u32 = 0x2007_1026;
const VERSION_3: u32 = 0x2008_0522;

pub fn serve(asked: Asked) {
    let host = asked.waiting.host_tid.0;
    let [head_at, data_at, ..] = asked.args;
    let mut memory = [0; HEAD_BYTES + DATA_BYTES];
    let (head, data) = memory.split_at_mut(HEAD_BYTES);
    let readable = guest_memory::read(host, head_at, head).is_ok();
    let bytes = bytes_of([head[0], head[1], head[2], head[3]]).filter(|_| readable && data_at != 0);
    // What asks for the version alone, and what is no request, each kernel answers alike.
    let Some(bytes) = bytes else { return asked.here() };
    let call = |data: &[u8]| Call {
        pointers: 0b11,
        data: data.to_vec(),
        ..Call::new(i64::from(asked.nr), [0, HEAD_BYTES as u64, 0, 0, 0, 0])
    };
    if i64::from(asked.nr) == libc::SYS_capget {
        let get = Call { out_bytes: memory.len() as u32, ..call(&memory) };
        let back = Back { from: HEAD_BYTES, bytes, to: data_at, counted_at: None };
        return asked.ask(get, After::Write(vec![back]), false);
    }
    if guest_memory::read(host, data_at, &mut data[..bytes]).is_err() {
        return asked.here();
    }
    // What of home's the body does not have it cannot be given here; what it can, it takes before
    // the call returns.
    let set = call(&memory);
    asked.ask(set, After::Write(Vec::new()), true);
}

/// Bytes of the data, by the version; `None` if there is no such version.
fn bytes_of(version: [u8; 4]) -> Option<usize> {
    match u32::from_le_bytes(version) {
        VERSION_1 => Some(DATA_BYTES / 2),
        VERSION_2 | VERSION_3 => Some(DATA_BYTES),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_says_how_much_there_is() {
        assert_eq!(bytes_of(VERSION_1.to_le_bytes()), Some(12));
        assert_eq!(bytes_of(VERSION_3.to_le_bytes()), Some(24));
        assert_eq!(bytes_of([0; 4]), None);
    }
}
