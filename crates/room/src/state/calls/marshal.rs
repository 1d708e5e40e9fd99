//! A call of class `home` and its memory, from the guest to the wire and back. Reads guest memory
//! through a function, so that it can be tested without a guest.

use room_protocol::message::Call;
use systable::{Arg, Len};

/// Most bytes of memory that one forwarded call may carry.
pub const DATA_BYTES_MAX: usize = 64 << 10;

/// Most bytes that a packet to a deputy may carry, for calls that make use of all.
pub const PACKET_BYTES_MAX: usize = 128 << 10;

/// Where bytes of an answer go: from here in the answer, so many, to this address of the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Back {
    /// Offset in the bytes that came back.
    pub from: usize,
    /// How many are wanted.
    pub bytes: usize,
    /// Address in the guest.
    pub to: u64,
    /// Where in the answer a `u32` says how many there are: no more than that are written.
    pub counted_at: Option<usize>,
}

/// Why a call cannot be carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unable(pub i32);

/// Puts a call together: its numbers, and the memory that its row says it reads or writes.
pub fn pack(
    nr: u32,
    row: &systable::Row,
    args: &[u64; 6],
    mut read: impl FnMut(u64, &mut [u8]) -> Result<(), i32>,
) -> Result<(Call, Vec<Back>), Unable> {
    let mut call = Call::new(i64::from(nr), *args);
    let mut back: Vec<Back> = Vec::new();
    // Buffers whose size is in memory: which of `back`, and which argument says it.
    let mut counted = Vec::new();
    for (i, arg) in row.args.iter().enumerate() {
        let (len, reads, writes) = match *arg {
            Arg::In(len) => (len, true, false),
            Arg::Out(len) => (len, false, true),
            Arg::InOut(len) => (len, true, true),
            // A descriptor is put in place at home.
            Arg::Int | Arg::Flags | Arg::Pid | Arg::Tid | Arg::Signal | Arg::Id | Arg::Fd => continue,
            _ => return Err(Unable(libc::ENOSYS)),
        };
        let address = args[i];
        if address == 0 {
            continue;
        }
        let bytes = match len {
            Len::Pointed(i) => pointed(args[usize::from(i)], &mut read)?,
            len => length(len, args).ok_or(Unable(libc::EINVAL))?,
        };
        if bytes > DATA_BYTES_MAX || call.data.len() + bytes > DATA_BYTES_MAX {
            return Err(Unable(libc::EINVAL));
        }
        let at = call.data.len();
        call.data.resize(at + bytes.next_multiple_of(8), 0);
        if reads {
            read(address, &mut call.data[at..at + bytes]).map_err(Unable)?;
        }
        call.args[i] = at as u64;
        call.pointers |= 1 << i;
        if writes {
            if let Len::Pointed(i) = len {
                counted.push((back.len(), usize::from(i)));
            }
            back.push(Back { from: at, bytes, to: address, counted_at: None });
        }
    }
    for (which, argument) in counted {
        back[which].counted_at = Some(call.args[argument] as usize);
    }
    if !back.is_empty() {
        call.out_bytes = call.data.len() as u32;
    }
    Ok((call, back))
}

fn length(len: Len, args: &[u64; 6]) -> Option<usize> {
    let number = |i: u8| usize::try_from(args[usize::from(i)]).ok();
    match len {
        Len::Fixed(n) => Some(usize::from(n)),
        Len::Arg(i) | Len::Result(i) => number(i),
        Len::Elements { count, size } | Len::ResultElements { count, size } => {
            number(count)?.checked_mul(usize::from(size))
        }
        Len::Pointed(_) => None,
    }
}

/// The size of a buffer that is in memory itself. What is more than any such buffer holds is cut:
/// the kernel fills no more.
fn pointed(address: u64, read: &mut impl FnMut(u64, &mut [u8]) -> Result<(), i32>) -> Result<usize, Unable> {
    const LARGEST: i32 = 32 << 10;
    let mut size = [0; 4];
    read(address, &mut size).map_err(Unable)?;
    match i32::from_le_bytes(size) {
        ..0 => Err(Unable(libc::EINVAL)),
        bytes => Ok(bytes.min(LARGEST) as usize),
    }
}

/// The parts of an answer that go into the guest's memory; only for a call that succeeded.
pub fn unpack<'a>(back: &'a [Back], out: &'a [u8]) -> impl Iterator<Item = (u64, &'a [u8])> {
    let count = |at: usize| Some(u32::from_le_bytes(out.get(at..at + 4)?.try_into().ok()?) as usize);
    back.iter().filter_map(move |b| {
        let bytes = b.counted_at.and_then(count).unwrap_or(b.bytes).min(b.bytes);
        Some((b.to, out.get(b.from..b.from + bytes)?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_only() {
        let nr = systable::number("setpgid").unwrap();
        let (call, back) = pack(nr, systable::row(nr).unwrap(), &[5, 6, 0, 0, 0, 0], |_, _| Err(libc::EFAULT)).unwrap();
        assert_eq!((call.args[..2].to_vec(), call.pointers, back.len()), (vec![5, 6], 0, 0));
    }

    #[test]
    fn bad_memory_is_the_callers_error() {
        let row = systable::Row { args: &[Arg::In(Len::Fixed(8))], ..*systable::row(0).unwrap() };
        assert_eq!(
            pack(0, &row, &[0x1000, 0, 0, 0, 0, 0], |_, _| Err(libc::EFAULT)).unwrap_err(),
            Unable(libc::EFAULT)
        );
    }

    #[test]
    fn memory_goes_there_and_back() {
        let row = systable::Row {
            args: &[Arg::InOut(Len::Fixed(5)), Arg::Out(Len::Arg(2)), Arg::Int],
            ..*systable::row(0).unwrap()
        };
        let (call, back) = pack(0, &row, &[0x1000, 0x2000, 3, 0, 0, 0], |from, into| {
            assert_eq!(from, 0x1000);
            into.copy_from_slice(b"hello");
            Ok(())
        })
        .unwrap();
        assert_eq!((call.args[0], call.args[1], call.pointers, call.out_bytes), (0, 8, 3, 16));
        let out = *b"HELLO\0\0\0xyz\0\0\0\0\0";
        let parts: Vec<_> = unpack(&back, &out).collect();
        assert_eq!(parts, [(0x1000, &b"HELLO"[..]), (0x2000, b"xyz")]);
    }

    #[test]
    fn no_more_than_there_is_is_written() {
        let nr = systable::number("getsockname").unwrap();
        let read = |_, into: &mut [u8]| {
            into.copy_from_slice(&128u32.to_le_bytes()[..into.len()]);
            Ok(())
        };
        let (call, back) = pack(nr, systable::row(nr).unwrap(), &[3, 0x1000, 0x2000, 0, 0, 0], read).unwrap();
        assert_eq!((call.args[1], call.args[2], call.data.len()), (0, 128, 136));
        let mut out = vec![7; 136];
        out[128..132].copy_from_slice(&16u32.to_le_bytes());
        let written: Vec<_> = unpack(&back, &out).map(|(to, bytes)| (to, bytes.len())).collect();
        assert_eq!(written, [(0x1000, 16), (0x2000, 4)]);
    }

    #[test]
    fn absurd_lengths_are_refused() {
        let row = systable::Row { args: &[Arg::Out(Len::Arg(1)), Arg::Int], ..*systable::row(0).unwrap() };
        assert_eq!(pack(0, &row, &[1, u64::MAX, 0, 0, 0, 0], |_, _| Ok(())).unwrap_err(), Unable(libc::EINVAL));
    }
}
