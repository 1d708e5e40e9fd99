//! ioctl of a stand-in: the deputy's, for those whose memory is known here.

use crate::calls::served::Asked;
use crate::calls::served::stream::{self, StreamCall};
use crate::sandbox::guest_memory;
use crate::state::calls::after::After;
use crate::state::calls::marshal::{Back, DATA_BYTES_MAX};
use crate::state::orders::{Order, Which};
use room_protocol::message::Call;

/// What an ioctl does with the memory that its argument points to (ioctl_tty(2),
/// asm-generic/ioctls.h).
#[derive(Clone, Copy)]
enum Shape {
    /// The argument is a number, or unused.
    Number,
    /// Reads so many bytes.
    In(usize),
    /// Writes so many bytes.
    Out(usize),
    /// Reads, then writes so many.
    InOut(usize),
}

const TCGETS: u32 = 0x5401;
const FIONBIO: u32 = 0x5421;
const SIOCGIFCONF: u32 = 0x8912;

/// `struct termios` of the kernel: 36 bytes; termios2: 44; termio: 18; winsize: 8.
fn shape(request: u32) -> Option<Shape> {
    Some(match request {
        TCGETS => Shape::Out(36),                              // TCGETS
        0x5402..=0x5404 => Shape::In(36),                      // TCSETS, TCSETSW, TCSETSF
        0x5405 => Shape::Out(18),                              // TCGETA
        0x5406..=0x5408 => Shape::In(18),                      // TCSETA, TCSETAW, TCSETAF
        0x802c_542a => Shape::Out(44),                         // TCGETS2
        0x402c_542b..=0x402c_542d => Shape::In(44),            // TCSETS2, TCSETSW2, TCSETSF2
        0x5409..=0x540b => Shape::Number,                      // TCSBRK, TCXONC, TCFLSH
        0x5425 => Shape::Number,                               // TCSBRKP
        0x540c | 0x540d => Shape::Number,                      // TIOCEXCL, TIOCNXCL
        0x540f => Shape::Out(4),                               // TIOCGPGRP
        0x5410 => Shape::In(4),                                // TIOCSPGRP
        0x5411 => Shape::Out(4),                               // TIOCOUTQ
        0x5413 => Shape::Out(8),                               // TIOCGWINSZ
        0x5414 => Shape::In(8),                                // TIOCSWINSZ
        0x5415 => Shape::Out(4),                               // TIOCMGET
        FIONBIO | 0x5452 => Shape::In(4),                      // FIOASYNC
        0x541b => Shape::Out(4),                               // FIONREAD
        0x5424 => Shape::Out(4),                               // TIOCGETD
        0x5429 => Shape::Out(4),                               // TIOCGSID
        0x540e | 0x5422 => Shape::Number,                      // TIOCSCTTY, TIOCNOTTY
        0x8901 | 0x8902 => Shape::In(4),                       // FIOSETOWN, SIOCSPGRP
        0x8903..=0x8905 => Shape::Out(4),                      // FIOGETOWN, SIOCGPGRP, SIOCATMARK
        0x8906 | 0x8907 => Shape::Out(16),                     // SIOCGSTAMP, SIOCGSTAMPNS
        0x894b => Shape::Out(4),                               // SIOCOUTQNSD
        0x8010_8906 | 0x8010_8907 => Shape::Out(16),           // SIOCGSTAMP_NEW, SIOCGSTAMPNS_NEW
        0x8910 | 0x8911 | 0x8913..=0x8945 => Shape::InOut(40), // `struct ifreq`: interfaces
        0x8947..=0x894a | 0x894c..=0x8955 | 0x8960..=0x8970 => Shape::InOut(40),
        0x5412 => Shape::In(1),                     // TIOCSTI
        0x5416..=0x5418 => Shape::In(4),            // TIOCMBIS, TIOCMBIC, TIOCMSET
        0x541d | 0x5427 | 0x5428 => Shape::Number,  // TIOCCONS, TIOCSBRK, TIOCCBRK
        0x5420 | 0x5423 => Shape::In(4),            // TIOCPKT, TIOCSETD
        0x5437 => Shape::Number,                    // TIOCVHANGUP
        0x5456 => Shape::Out(36),                   // TIOCGLCKTRMIOS
        0x5457 => Shape::In(36),                    // TIOCSLCKTRMIOS
        0x8004_5430 | 0x8004_5432 => Shape::Out(4), // TIOCGPTN, TIOCGDEV
        0x4004_5431 => Shape::In(4),                // TIOCSPTLCK
        0x4004_5436 => Shape::Number,               // TIOCSIG
        0x8004_5438..=0x8004_5440 => Shape::Out(4), // TIOCGPKT, TIOCGPTLCK, TIOCGEXCL
        0x1260 | 0x1262 => Shape::Out(8),           // BLKGETSIZE, BLKRAGET
        0x1268 => Shape::Out(4),                    // BLKSSZGET
        0x8008_1272 => Shape::Out(8),               // BLKGETSIZE64
        // Of files (linux/fs.h): FIGETBSZ; FS_IOC_GETFLAGS, FS_IOC_SETFLAGS, FS_IOC_GETVERSION:
        // their size is said wrongly; FS_IOC_FSGETXATTR, FS_IOC_FSSETXATTR
        2 => Shape::InOut(4),
        0x8008_6601 | 0x8008_7601 => Shape::Out(4),
        0x4008_6602 => Shape::In(4),
        0x801c_581f => Shape::Out(28),
        0x401c_5820 => Shape::In(28),
        _ => return None,
    })
}

/// What is not known is made at home, whereto the process goes; but not what programs try and do
/// without: TIOCGPTPEER (openpty(3)), FICLONE and its kin (cp(1)), and what a descriptor of a
/// process tells (PIDFD_GET_INFO).
fn is_tried(request: u32) -> bool {
    const BTRFS: u32 = 0x94;
    const PIDFS: u32 = 0xff;
    request == 0x5441 || matches!(request >> 8 & 0xff, BTRFS | PIDFS)
}

/// SIOCGIFCONF: `struct ifconf` says where the addresses of all interfaces go, and how many bytes
/// of them there are (netdevice(7)).
fn interfaces(asked: Asked, mut call: Call) {
    const HEAD_BYTES: usize = 16;
    const BUFFER_AT: usize = 8;
    let (host, argument) = (asked.waiting.host_tid, asked.args[2]);
    let mut head = [0; HEAD_BYTES];
    if guest_memory::read(host.0, argument, &mut head).is_err() {
        return asked.value(-i64::from(libc::EFAULT));
    }
    let (length, buffer) = head.split_at(BUFFER_AT);
    let to = u64::from_le_bytes(buffer.try_into().unwrap_or_default());
    let length = i32::from_le_bytes(length[..4].try_into().unwrap_or_default());
    let bytes = usize::try_from(length).unwrap_or_default().min(DATA_BYTES_MAX - HEAD_BYTES);
    let mut back = vec![Back { from: 0, bytes: 4, to: argument, counted_at: None }];
    call.data = head.to_vec();
    // Without a buffer the kernel says how large it must be.
    if to != 0 {
        call.data[..4].copy_from_slice(&(length.min(bytes as i32)).to_le_bytes());
        call.data[BUFFER_AT..].copy_from_slice(&(HEAD_BYTES as u64).to_le_bytes());
        call.data.resize(HEAD_BYTES + bytes, 0);
        call.inner = vec![BUFFER_AT as u32];
        back.push(Back { from: HEAD_BYTES, bytes, to, counted_at: Some(0) });
    }
    (call.args[2], call.pointers, call.out_bytes) = (0, 0b100, call.data.len() as u32);
    asked.ask(call, After::Write(back), false);
}

/// FS_IOC_FIEMAP: `struct fiemap` and as many extents as it has room for (linux/fiemap.h).
fn extents(asked: &Asked) -> Option<Shape> {
    const FIEMAP: u32 = 0xc020_660b;
    const COUNT_AT: usize = 24;
    const HEAD_BYTES: usize = 32;
    const EXTENT_BYTES: usize = 56;
    let mut head = [0; HEAD_BYTES];
    if asked.args[1] as u32 != FIEMAP || guest_memory::read(asked.waiting.host_tid.0, asked.args[2], &mut head).is_err()
    {
        return None;
    }
    let count = u32::from_le_bytes(head[COUNT_AT..COUNT_AT + 4].try_into().ok()?) as usize;
    let bytes = HEAD_BYTES + count.checked_mul(EXTENT_BYTES)?;
    (bytes <= DATA_BYTES_MAX).then_some(Shape::InOut(bytes))
}

pub fn serve(asked: Asked) {
    let host = asked.waiting.host_tid;
    let Some(standin) = asked.kept_at_home(0) else { return asked.here() };
    if let Some(stream) = asked.stream(0) {
        match stream::of_ioctl(asked.args[1] as u32) {
            StreamCall::Here => return asked.here(),
            StreamCall::AsStandin => return stream::as_standin(&asked, stream),
            StreamCall::Home => {}
        }
    }
    let (request, argument) = (asked.args[1] as u32, asked.args[2]);
    // Who asks whether it is a terminal may look at it more closely (ttyname(3)).
    let fd = asked.args[0] as i32;
    if request == TCGETS && asked.room.guests().get(asked.who.pid).is_some_and(|guest| !guest.is_shown(fd, false)) {
        return asked.room.orders.give(Order::Show { host, which: Which::One(fd) });
    }
    let mut call = Call { standin: Some(standin), ..Call::new(libc::SYS_ioctl, asked.args) };
    if request == SIOCGIFCONF {
        return interfaces(asked, call);
    }
    let mut back = Vec::new();
    let shape = shape(request).or_else(|| extents(&asked));
    let (reads, writes, bytes) = match shape {
        Some(Shape::Number) => (false, false, 0),
        Some(Shape::In(bytes)) => (true, false, bytes),
        Some(Shape::Out(bytes)) => (false, true, bytes),
        Some(Shape::InOut(bytes)) => (true, true, bytes),
        None if is_tried(request) => return asked.value(-i64::from(libc::ENOTTY)),
        None => return asked.go_home(libc::ENOTTY),
    };
    if bytes > 0 {
        call.data = vec![0; bytes];
        (call.args[2], call.pointers) = (0, 0b100);
    }
    if reads && guest_memory::read(host.0, argument, &mut call.data).is_err() {
        return asked.value(-i64::from(libc::EFAULT));
    }
    if writes {
        call.out_bytes = bytes as u32;
        back.push(Back { from: 0, bytes, to: argument, counted_at: None });
    }
    // O_NONBLOCK of the open file is home's and, for the kernel here to know it, also the
    // stand-in's.
    let after = if request == FIONBIO { After::Here } else { After::Write(back) };
    asked.ask(call, after, false);
}
