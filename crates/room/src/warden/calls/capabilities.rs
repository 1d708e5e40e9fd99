//! capget(2) and capset(2): the deputy's are the true ones, by which home serves. Those of the body are few, and never more than they were.

use super::Asked;
use crate::guest_memory;
use crate::warden::after::After;
use crate::warden::marshal::Back;
use os::process::Status;
use wire::message::Call;

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
    let wanted = Wanted::of(data);
    let set = call(&memory);
    let here = os::process::status(host).is_ok_and(|body| wanted.fits(&body));
    // What of home's the body does not have, it cannot be given here; home decides without it.
    asked.ask(set, if here { After::Here } else { After::Write(Vec::new()) }, false);
}

/// Bytes of the data, by the version; `None` if there is no such version.
fn bytes_of(version: [u8; 4]) -> Option<usize> {
    match u32::from_le_bytes(version) {
        VERSION_1 => Some(DATA_BYTES / 2),
        VERSION_2 | VERSION_3 => Some(DATA_BYTES),
        _ => None,
    }
}

/// What capset(2) is to set.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    permitted: u64,
    inheritable: u64,
}

impl Wanted {
    fn of(data: &[u8]) -> Wanted {
        let word = |n: usize| data.iter().skip(4 * n).take(4).rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        Wanted { permitted: word(1) | word(4) << 32, inheritable: word(2) | word(5) << 32 }
    }

    /// The kernel here would take it of a body.
    fn fits(&self, body: &Status) -> bool {
        self.permitted & !body.permitted == 0 && self.inheritable & !(body.inheritable | body.permitted) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_data() {
        let mut data = [0; DATA_BYTES];
        (data[4], data[8], data[16], data[20]) = (1, 2, 3, 4);
        assert_eq!(Wanted::of(&data), Wanted { permitted: 1 | 3 << 32, inheritable: 2 | 4 << 32 });
        assert_eq!(bytes_of(VERSION_1.to_le_bytes()), Some(12));
        assert_eq!(bytes_of([0; 4]), None);
    }
}
