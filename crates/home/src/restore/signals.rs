//! Signals of a process that comes home: what its deputy was told for it, what interrupted the
//! deputy's calls, and what the kernel would drop.

use checkpoint::{Batch, BodyError, Inside};
use image::{Image, Opened};
use os::signal_descriptor;

/// The content of a signal that came to the deputy, whose descriptors have numbers of their own.
pub fn understood(image: &Image, info: signal_descriptor::Info) -> signal_descriptor::Info {
    let Some(at_home) = signal_descriptor::descriptor(&info) else { return info };
    let all = image.descriptors.iter().filter(|d| matches!(d.opened, Opened::Home(home) if home == at_home));
    let own = all.map(|d| d.fd).min_by_key(|fd| (*fd != at_home, *fd));
    own.map_or(info, |fd| signal_descriptor::with_descriptor(info, fd))
}

/// Makes these calls, and takes what interrupts a deputy's call, and came when it had ended
/// already: the deputy knows better, the program would die of it.
pub fn drop_cancellations(inside: &mut Inside, before: Batch) -> Result<(), BodyError> {
    const AT_ONCE: usize = 8;
    let mut batch = before;
    loop {
        let signals = batch.put(&(1u64 << (abi::CANCEL_SIGNAL - 1)).to_le_bytes());
        let at_once = batch.put(&[0; 16]);
        for _ in 0..AT_ONCE {
            batch.may(libc::SYS_rt_sigtimedwait, [signals, 0, at_once, 8, 0, 0]);
        }
        if inside.run(&batch)?.iter().rev().take(AT_ONCE).any(|taken| *taken < 0) {
            return Ok(());
        }
        batch = inside.batch();
    }
}

/// For which thread, if it is for one, and what it carries.
pub type Signal = (Option<i32>, [u8; 128]);

/// Signals that have come since the deputy was stopped, and that the kernel drops when their action
/// is set to what ignores them, though the program blocks them and may take them yet (do_sigaction
/// in kernel/signal.c).
pub fn will_be_dropped(inside: &Inside, image: &Image) -> Result<Vec<Signal>, BodyError> {
    const WAITING_MAX: usize = 4096;
    const IGNORED_BY_DEFAULT: [i32; 4] = [libc::SIGCHLD, libc::SIGCONT, libc::SIGURG, libc::SIGWINCH];
    let ignores = |info: &[u8; 128]| {
        let signal = i32::from(info[0]);
        match image.process.actions.get(signal as usize - 1).map(|action| action[0]) {
            Some(handler) if handler == libc::SIG_DFL as u64 => IGNORED_BY_DEFAULT.contains(&signal),
            handler => handler == Some(libc::SIG_IGN as u64),
        }
    };
    let blocked = |info: &[u8; 128]| image.threads.iter().all(|t| t.mask >> (info[0] - 1) & 1 == 1);
    let waiting = inside.pending(true, WAITING_MAX)?.into_iter().filter(|info| (1..=64).contains(&info[0]));
    Ok(waiting.filter(|info| ignores(info) && blocked(info)).map(|info| (None, info)).collect())
}
