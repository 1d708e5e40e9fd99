//! Creating a userfaultfd in a process for its own memory, of which only this process keeps a
//! descriptor.

use crate::error::BodyError;
use image::Area;
use migration_plan::Ranges;
use os::inject::Inside;
use os::pidfd::PidFd;
use os::userfault::{USERFAULTFD_IOC_NEW, Userfault, device};
use std::io::IoSlice;
use std::os::fd::AsFd;

/// Words of a struct msghdr, an iovec, a byte, and space for one descriptor (unix(7), cmsg(3)).
const MESSAGE_WORDS: usize = 7;
const CONTROL_WORDS: usize = 3;

/// Starts to track missing pages of the process of `inside`; areas must be registered then. `pid`
/// is the id of the process here.
pub fn watch_missing(inside: &mut Inside, pid: i32) -> Result<Userfault, BodyError> {
    let doing = "watching its missing pages (userfaultfd)";
    let device = device()?;
    let pidfd = PidFd::open(pid)?;
    let mut batch = inside.batch();
    let pair = batch.space(8);
    let kind = (libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC) as u64;
    batch.must(doing, libc::SYS_socketpair, [libc::AF_UNIX as u64, kind, 0, pair, 0, 0]);
    inside.run(&batch)?;
    let both = inside.memory().word(pair)?;
    let (ours, theirs) = (both & 0xffff_ffff, both >> 32);
    let end = pidfd.get_fd(ours as i32)?;
    os::socket::send(end.as_fd(), &[IoSlice::new(&[0])], &[device.as_fd()], 0)?;

    let mut batch = inside.batch();
    let byte = batch.space(8);
    let iov = batch.put(&words(&[byte, 1]));
    let control = batch.space(8 * CONTROL_WORDS);
    let message: [u64; MESSAGE_WORDS] = [0, 0, iov, 1, control, 8 * CONTROL_WORDS as u64, 0];
    let message = batch.put(&words(&message));
    batch.must(doing, libc::SYS_recvmsg, [theirs, message, libc::MSG_CMSG_CLOEXEC as u64, 0, 0, 0]);
    batch.must(doing, libc::SYS_close, [ours, 0, 0, 0, 0, 0]);
    batch.must(doing, libc::SYS_close, [theirs, 0, 0, 0, 0, 0]);
    inside.run(&batch)?;
    // The descriptor follows the control message's length, level and type.
    let device = inside.memory().word(control + 16)? & 0xffff_ffff;

    let made = inside.must(doing, libc::SYS_ioctl, [device, USERFAULTFD_IOC_NEW, libc::O_CLOEXEC as u64, 0, 0, 0]);
    let taken = made.and_then(|number| {
        let fd = pidfd.get_fd(number as i32);
        inside.must(doing, libc::SYS_close, [number, 0, 0, 0, 0, 0])?;
        Ok(fd?)
    });
    inside.must(doing, libc::SYS_close, [device, 0, 0, 0, 0, 0])?;
    Ok(Userfault::new(taken?)?)
}

/// Registers the areas in which pages are missing, each as a whole: mremap(2) takes only a range
/// within one area, and registering a part would split the area.
pub fn register(memory: &Userfault, areas: &[Area], absent: &Ranges) -> Result<(), BodyError> {
    for area in areas.iter().filter(|a| !absent.within((a.start, a.end)).is_empty()) {
        memory.register(area.start, area.end)?;
    }
    Ok(())
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}
