//! Packets to and from deputy threads: the structs of `abi` as bytes.

use abi::{DATA_BYTES, Reply, Request};
use room_protocol::message::Call;

/// Bytes of a request's header.
const REQUEST_BYTES: usize = size_of::<Request>();
/// Bytes of a reply's header.
const REPLY_BYTES: usize = size_of::<Reply>();
/// The largest packet that comes from a deputy.
pub const REPLY_BYTES_MAX: usize = REPLY_BYTES + DATA_BYTES;

/// What a deputy thread says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeputyMessage {
    /// It is there.
    Ready {
        /// TID of the thread.
        tid: i32,
        /// The number that its channel has there.
        number: i32,
    },
    /// A request is done.
    Reply {
        /// As the kernel returned it.
        result: i64,
        /// The bytes that the call wrote.
        out: Vec<u8>,
    },
    /// A signal arrived.
    Signal([u8; 128]),
}

fn encode(request: &Request, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(REQUEST_BYTES + data.len());
    out.extend(request.op.to_le_bytes());
    out.extend(request.nr.to_le_bytes());
    request.args.iter().for_each(|a| out.extend(a.to_le_bytes()));
    for word in [
        request.pointers,
        request.out_offset,
        request.out_bytes,
        request.out_per_result,
        request.out_fixed,
        request.data_bytes,
        request.inner,
        request.blocked,
    ] {
        out.extend(word.to_le_bytes());
    }
    out.extend(data);
    out
}

/// A request without a system call.
pub fn order(op: u32, args: [u64; 2], data: &[u8]) -> Vec<u8> {
    let request = Request {
        op,
        nr: 0,
        args: [args[0], args[1], 0, 0, 0, 0],
        pointers: 0,
        out_offset: 0,
        out_bytes: 0,
        out_per_result: 0,
        out_fixed: 0,
        data_bytes: data.len() as u32,
        inner: 0,
        blocked: 0,
    };
    encode(&request, data)
}

/// The program that the body runs now. Of long arguments the first part is shown; a path that is
/// none, or too long for the kernel, is left out.
pub fn program(arguments: &[u8], exe: &[u8]) -> Vec<u8> {
    let is_path = exe.starts_with(b"/") && exe.len() < libc::PATH_MAX as usize && !exe.contains(&0);
    let path: &[u8] = if is_path { exe } else { &[] };
    let shown = &arguments[..arguments.len().min(DATA_BYTES - libc::PATH_MAX as usize)];
    order(abi::OP_PROGRAM, [shown.len() as u64, path.len() as u64], &[shown, path, b"\0"].concat())
}

/// A system call; `None` if its memory does not fit a deputy's buffer.
pub fn call(call: &Call) -> Option<Vec<u8>> {
    let out_end = (call.out_offset as usize).checked_add(call.out_bytes as usize)?;
    let data_end = call.inner.len().checked_mul(4)?.checked_add(call.data.len())?;
    if data_end > DATA_BYTES || out_end > DATA_BYTES {
        return None;
    }
    let pointers_fit = (0..6).all(|i| call.pointers & (1 << i) == 0 || call.args[i] <= DATA_BYTES as u64);
    let request = Request {
        op: abi::OP_CALL,
        nr: call.nr,
        args: call.args,
        pointers: u32::from(call.pointers),
        out_offset: call.out_offset,
        out_bytes: call.out_bytes,
        out_per_result: call.out_per_result,
        out_fixed: call.out_fixed,
        data_bytes: call.data.len() as u32,
        inner: call.inner.len() as u32,
        blocked: call.blocked,
    };
    let mut packet = pointers_fit.then(|| encode(&request, &call.data))?;
    call.inner.iter().for_each(|at| packet.extend(at.to_le_bytes()));
    Some(packet)
}

/// A thread's number and, above it, its channel's.
pub fn with_channel(result: i64) -> (i32, i32) {
    (result as i32, (result >> 32) as i32)
}

/// Reads a packet of a deputy: an unprivileged process, so anything may come.
pub fn said(packet: &[u8]) -> Option<DeputyMessage> {
    let (head, data) = packet.split_at_checked(REPLY_BYTES)?;
    let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let result = (u64::from(word(12)) << 32 | u64::from(word(8))) as i64;
    if word(4) as usize != data.len() {
        return None;
    }
    match word(0) {
        abi::READY => {
            let (tid, number) = with_channel(result);
            Some(DeputyMessage::Ready { tid, number })
        }
        abi::REPLY => Some(DeputyMessage::Reply { result, out: data.to_vec() }),
        abi::SIGNAL => signal(data),
        _ => None,
    }
}

/// A signal's information; `None` if there is no such signal.
fn signal(info: &[u8]) -> Option<DeputyMessage> {
    const LAST: i32 = 64;
    let info: [u8; 128] = info.try_into().ok()?;
    let number = i32::from_le_bytes([info[0], info[1], info[2], info[3]]);
    (1..=LAST).contains(&number).then_some(DeputyMessage::Signal(info))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn a_call() -> Call {
        Call { pointers: 2, out_bytes: 5, out_per_result: 1, ..Call::new(0, [1, 0, 5, 0, 0, 0]) }
    }

    #[test]
    fn calls_that_do_not_fit_are_refused() {
        assert_eq!(call(&a_call()).map(|p| p.len()), Some(REQUEST_BYTES));
        assert!(call(&Call { out_bytes: u32::MAX, ..a_call() }).is_none());
        assert!(call(&Call { data: vec![0; DATA_BYTES + 1], ..a_call() }).is_none());
        assert!(call(&Call { args: [1, 1 << 40, 5, 0, 0, 0], ..a_call() }).is_none());
    }

    #[test]
    fn a_program_has_a_path_or_none() {
        assert_eq!(&program(b"a\0b\0", b"/bin/a")[REQUEST_BYTES..], b"a\0b\0/bin/a\0");
        for none in [&b"memfd:a"[..], b"/a\0b", &[b'/'; libc::PATH_MAX as usize]] {
            assert_eq!(&program(b"a\0", none)[REQUEST_BYTES..], b"a\0\0");
        }
        assert!(program(&vec![b'a'; 4 * DATA_BYTES], b"/a").len() <= REQUEST_BYTES + DATA_BYTES);
    }

    #[test]
    fn nonsense_is_refused() {
        assert_eq!(said(&[]), None);
        assert_eq!(said(&[0; 16]), None);
        let mut packet = [0; 16];
        packet[..4].copy_from_slice(&abi::READY.to_le_bytes());
        (packet[8], packet[12]) = (9, 4);
        assert_eq!(said(&packet), Some(DeputyMessage::Ready { tid: 9, number: 4 }));
        packet[4] = 1;
        assert_eq!(said(&packet), None);
        for (number, is_one) in [(0u32, false), (1, true), (64, true), (65, false), (u32::MAX, false)] {
            let info = [&number.to_le_bytes()[..], &[0; 124]].concat();
            let told = [&abi::SIGNAL.to_le_bytes()[..], &128u32.to_le_bytes(), &[0; 8], &info].concat();
            assert_eq!(said(&told).is_some(), is_one, "{number}");
        }
    }
}
