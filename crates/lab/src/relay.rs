//! A link with delay: one TAP in the node, one in the hub, and this program, which passes every
//! frame on after a time. (netem would do it in the kernel, but is often missing.)

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

use crate::channel::Channel;
use crate::error::{Context, Error, Result};
use crate::process::{Process, in_network};

/// The message of the hub to the relay.
#[derive(Debug, Serialize, Deserialize)]
pub struct Task {
    /// The inits of the nodes, n1 first.
    pub inits: Vec<i32>,
    /// Delay of each link in either direction, microseconds.
    pub delay_us: u64,
}

/// The longest frame, bytes (an Ethernet frame of the usual MTU has 1514).
const FRAME_BYTES: usize = 64 << 10;
/// The most bytes under way. Further frames are lost, as in a full router.
const UNDER_WAY_BYTES: usize = 256 << 20;
/// The most frames taken from one TAP before the others are checked.
const TURN: usize = 64;

/// Runs the role `__lab-relay`: standard input is the channel to the hub.
pub fn main() -> Result<()> {
    let mut hub = Channel::standard_input()?;
    let task: Task = hub.receive()?;
    let taps = make_taps(&task.inits);
    match taps {
        Ok(taps) => {
            hub.answer(&Ok(()))?;
            Relay { taps, delay: Duration::from_micros(task.delay_us), under_way: VecDeque::new(), bytes: 0 }.run(&hub)
        }
        Err(error) => hub.answer(&Err(error)),
    }
}

/// Makes pairs of TAPs: the hub's end at an even index, the node's at the next.
fn make_taps(inits: &[i32]) -> Result<Vec<OwnedFd>> {
    let mut taps = Vec::new();
    for (index, init) in (1..).zip(inits) {
        let node = format!("n{index}");
        taps.push(open_tap(&node)?);
        let pidfd = Process::of(*init)?.open().ok_or(Error::NodeDown(node))?;
        taps.push(in_network(pidfd, || open_tap("eth0"))?);
    }
    Ok(taps)
}

/// Makes a TAP interface in this thread's network namespace. It lives as long as the descriptor.
fn open_tap(name: &str) -> Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let tap = rustix::fs::open("/dev/net/tun", flags, Mode::empty()).context(|| "open /dev/net/tun")?;
    // The fields of struct ifreq are name (16 bytes) and flags.
    let mut request = [0u8; 40];
    request[..name.len()].copy_from_slice(name.as_bytes());
    request[16..18].copy_from_slice(&((libc::IFF_TAP | libc::IFF_NO_PI) as u16).to_ne_bytes());
    // SAFETY: TUNSETIFF reads and writes one struct ifreq, 40 bytes.
    match unsafe { libc::ioctl(tap.as_raw_fd(), libc::TUNSETIFF, request.as_mut_ptr()) } {
        -1 => Err(io::Error::last_os_error()).context(|| format!("make TAP {name}")),
        _ => Ok(tap),
    }
}

struct Frame {
    due: Instant,
    to: usize,
    bytes: Vec<u8>,
}

struct Relay {
    taps: Vec<OwnedFd>,
    delay: Duration,
    /// The delay is the same for all, so the frames are in the order of their times.
    under_way: VecDeque<Frame>,
    bytes: usize,
}

impl Relay {
    fn run(mut self, hub: &Channel) -> Result<()> {
        loop {
            self.deliver();
            let wait = self.under_way.front().map(|f| {
                let left = f.due.saturating_duration_since(Instant::now());
                Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() }
            });
            let mut waited: Vec<_> = self.taps.iter().map(|t| PollFd::new(t, PollFlags::IN)).collect();
            waited.push(PollFd::new(hub, PollFlags::IN));
            match poll(&mut waited, wait.as_ref()) {
                Err(rustix::io::Errno::INTR) | Ok(_) => {}
                Err(e) => return Err(e).context(|| "wait for frames"),
            }
            let ready: Vec<usize> = (0..waited.len()).filter(|i| !waited[*i].revents().is_empty()).collect();
            for index in ready {
                match index < self.taps.len() {
                    true => self.take(index),
                    false => return Ok(()), // the hub has ended
                }
            }
        }
    }

    fn take(&mut self, from: usize) {
        let mut buffer = [0; FRAME_BYTES];
        for _ in 0..TURN {
            let Ok(length) = rustix::io::read(&self.taps[from], &mut buffer) else { return };
            if self.bytes + length <= UNDER_WAY_BYTES {
                self.bytes += length;
                let frame = Frame { due: Instant::now() + self.delay, to: from ^ 1, bytes: buffer[..length].to_vec() };
                self.under_way.push_back(frame);
            }
        }
    }

    fn deliver(&mut self) {
        let now = Instant::now();
        while let Some(frame) = self.under_way.pop_front_if(|f| f.due <= now) {
            self.bytes -= frame.bytes.len();
            // A full or vanished interface loses frames, as links do.
            let _ = rustix::io::write(&self.taps[frame.to], &frame.bytes);
        }
    }
}

/// Makes a TAP interface in this thread's network namespace that lives as long as the namespace.
/// The process that opens it by name is at its other end.
pub fn make_lasting_tap(name: &str) -> Result<()> {
    let tap = open_tap(name)?;
    // SAFETY: TUNSETPERSIST takes a number.
    match unsafe { libc::ioctl(tap.as_raw_fd(), libc::TUNSETPERSIST, 1) } {
        -1 => Err(io::Error::last_os_error()).context(|| format!("make TAP {name} last")),
        _ => Ok(()),
    }
}

/// Tells whether this machine has the device that the relay needs.
pub fn available() -> bool {
    File::open("/dev/net/tun").is_ok()
}
