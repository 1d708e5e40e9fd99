//! INIT: the negotiation with the room's kernel. Home need not know the result: all that home
//! depends on exists since Linux 6.1.

use super::mount::Mount;
use crate::proto::{
    self, InitIn, InitOut, KERNEL_MINOR_VERSION, KERNEL_VERSION, MAX_IO_BYTES, OLDEST_MINOR_VERSION, Request, init,
};
use std::sync::atomic::Ordering;

/// Flags without which home's replies would be misread.
const NEEDED: u64 =
    init::DONT_MASK | init::POSIX_ACL | init::SETXATTR_EXT | init::EXPLICIT_INVAL_DATA | init::ATOMIC_O_TRUNC;

const WANTED: u64 = NEEDED
    | init::ASYNC_READ
    | init::POSIX_LOCKS
    | init::FLOCK_LOCKS
    | init::BIG_WRITES
    | init::DO_READDIRPLUS
    | init::READDIRPLUS_AUTO
    | init::ASYNC_DIO
    | init::PARALLEL_DIROPS
    | init::HANDLE_KILLPRIV_V2
    | init::ABORT_ERROR
    | init::MAX_PAGES
    | init::CACHE_SYMLINKS
    | init::INIT_EXT
    | init::DIRECT_IO_ALLOW_MMAP;

/// The minor version of kernels that know epochs (Linux 6.16).
const EPOCH_MINOR: u32 = 44;
/// Background requests (readahead, direct I/O) from which on the kernel holds more back.
const MAX_BACKGROUND: u16 = 64;

impl Mount {
    /// Builds the reply to INIT; an error status if this kernel is too old.
    pub(super) fn negotiate(&self, request: &Request<'_>) -> Vec<u8> {
        let unique = request.header.unique;
        let Ok(offer) = request.args().take::<InitIn>() else {
            return proto::status(unique, libc::EPROTO).to_vec();
        };
        let agreed = WANTED & (u64::from(offer.flags) | u64::from(offer.flags2) << 32);
        if offer.major != KERNEL_VERSION || offer.minor < OLDEST_MINOR_VERSION || agreed & NEEDED != NEEDED {
            tracing::error!(offer.major, offer.minor, "this kernel's FUSE is too old (Linux 6.1 is the floor)");
            return proto::status(unique, libc::EPROTO).to_vec();
        }
        self.epoch.store(offer.minor >= EPOCH_MINOR, Ordering::Relaxed);
        let mut reply = proto::ReplyBuf::default();
        reply.clear();
        reply.push(&InitOut {
            major: KERNEL_VERSION,
            minor: offer.minor.min(KERNEL_MINOR_VERSION),
            max_readahead: MAX_IO_BYTES as u32,
            flags: agreed as u32,
            flags2: (agreed >> 32) as u32,
            max_background: MAX_BACKGROUND,
            congestion_threshold: MAX_BACKGROUND / 4 * 3,
            max_write: MAX_IO_BYTES as u32,
            time_gran: 1,
            max_pages: (MAX_IO_BYTES / 4096) as u16,
            ..Default::default()
        });
        reply.finish(unique).to_vec()
    }
}
