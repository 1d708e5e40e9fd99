//! A call of class `home` and its memory, from the guest to the wire and back. Reads guest memory through a function, so that it can be tested
//! without a guest.

use systable::{Arg, Len};
use wire::message::Call;

/// Most bytes of memory that one forwarded call may carry.
pub const DATA_BYTES_MAX: usize = 64 << 10;

/// Where bytes of an answer go: from here in the answer, so many, to this address of the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Back {
    /// Offset in the bytes that came back.
    pub from: usize,
    /// How many.
    pub bytes: usize,
    /// Address in the guest.
    pub to: u64,
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
    let mut call =
        Call { nr, args: *args, pointers: 0, data: Vec::new(), out_offset: 0, out_bytes: 0, out_per_result: 0 };
    let mut back = Vec::new();
    for (i, arg) in row.args.iter().enumerate() {
        let (len, reads, writes) = match *arg {
            Arg::In(len) => (len, true, false),
            Arg::Out(len) => (len, false, true),
            Arg::InOut(len) => (len, true, true),
            Arg::Int | Arg::Flags | Arg::Pid | Arg::Tid | Arg::Signal | Arg::Id => continue,
            _ => return Err(Unable(libc::ENOSYS)),
        };
        let address = args[i];
        if address == 0 {
            continue;
        }
        let bytes = length(len, args).filter(|b| call.data.len() + b <= DATA_BYTES_MAX).ok_or(Unable(libc::EINVAL))?;
        let at = call.data.len();
        call.data.resize(at + bytes.next_multiple_of(8), 0);
        if reads {
            read(address, &mut call.data[at..at + bytes]).map_err(Unable)?;
        }
        call.args[i] = at as u64;
        call.pointers |= 1 << i;
        if writes {
            back.push(Back { from: at, bytes, to: address });
        }
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

/// The parts of an answer that go into the guest's memory; only for a call that succeeded.
pub fn unpack<'a>(back: &'a [Back], out: &'a [u8]) -> impl Iterator<Item = (u64, &'a [u8])> {
    back.iter().filter_map(move |b| Some((b.to, out.get(b.from..b.from + b.bytes)?)))
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
    fn absurd_lengths_are_refused() {
        let row = systable::Row { args: &[Arg::Out(Len::Arg(1)), Arg::Int], ..*systable::row(0).unwrap() };
        assert_eq!(pack(0, &row, &[1, u64::MAX, 0, 0, 0, 0], |_, _| Ok(())).unwrap_err(), Unable(libc::EINVAL));
    }
}
