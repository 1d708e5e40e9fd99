//! ioctl of a stand-in: the deputy's, for those whose memory is known here.

use super::Asked;
use crate::warden::marshal::Back;
use wire::message::Call;

/// What an ioctl does with the memory that its argument points to (ioctl_tty(2), asm-generic/ioctls.h).
#[derive(Clone, Copy)]
enum Shape {
    /// The argument is a number, or unused.
    Number,
    /// Reads so many bytes.
    In(usize),
    /// Writes so many bytes.
    Out(usize),
}

/// `struct termios` of the kernel: 36 bytes; termios2: 44; termio: 18; winsize: 8.
fn shape(request: u32) -> Option<Shape> {
    Some(match request {
        0x5401 => Shape::Out(36),                   // TCGETS
        0x5402..=0x5404 => Shape::In(36),           // TCSETS, TCSETSW, TCSETSF
        0x5405 => Shape::Out(18),                   // TCGETA
        0x5406..=0x5408 => Shape::In(18),           // TCSETA, TCSETAW, TCSETAF
        0x802c_542a => Shape::Out(44),              // TCGETS2
        0x402c_542b..=0x402c_542d => Shape::In(44), // TCSETS2, TCSETSW2, TCSETSF2
        0x5409..=0x540b => Shape::Number,           // TCSBRK, TCXONC, TCFLSH
        0x5425 => Shape::Number,                    // TCSBRKP
        0x540c | 0x540d => Shape::Number,           // TIOCEXCL, TIOCNXCL
        0x540f => Shape::Out(4),                    // TIOCGPGRP
        0x5410 => Shape::In(4),                     // TIOCSPGRP
        0x5411 => Shape::Out(4),                    // TIOCOUTQ
        0x5413 => Shape::Out(8),                    // TIOCGWINSZ
        0x5414 => Shape::In(8),                     // TIOCSWINSZ
        0x5415 => Shape::Out(4),                    // TIOCMGET
        0x5421 => Shape::In(4),                     // FIONBIO
        0x541b => Shape::Out(4),                    // FIONREAD
        0x5424 => Shape::Out(4),                    // TIOCGETD
        0x5429 => Shape::Out(4),                    // TIOCGSID
        0x540e | 0x5422 => Shape::Number,           // TIOCSCTTY, TIOCNOTTY
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
        _ => return None,
    })
}

pub fn serve(asked: Asked) {
    let host = asked.waiting.host_tid;
    let Some(standin) = asked.room.standin_of(host, asked.args[0] as i32) else { return asked.here() };
    let Some(fd) = asked.room.guests().get(asked.who.pid).and_then(|g| g.home_fd(standin)) else {
        return asked.value(-i64::from(libc::EBADF));
    };
    let request = asked.args[1] as u32;
    let mut args = asked.args;
    args[0] = fd as u64;
    let mut call =
        Call { nr: asked.nr, args, pointers: 0, data: Vec::new(), out_offset: 0, out_bytes: 0, out_per_result: 0 };
    let mut back = Vec::new();
    match shape(request) {
        Some(Shape::Number) => {}
        Some(Shape::In(bytes)) => {
            call.data = vec![0; bytes];
            if os::vm::read(host.0, args[2], &mut call.data).is_err() {
                return asked.value(-i64::from(libc::EFAULT));
            }
        }
        Some(Shape::Out(bytes)) => {
            call.data = vec![0; bytes];
            call.out_bytes = bytes as u32;
            back.push(Back { from: 0, bytes, to: args[2] });
        }
        None => return asked.value(-i64::from(libc::ENOTTY)),
    }
    if !call.data.is_empty() {
        call.args[2] = 0;
        call.pointers = 0b100;
    }
    // O_NONBLOCK of the open file is home's and, for the kernel here to know it, also the stand-in's.
    asked.ask(call, back, request == 0x5421);
}
