//! PID 1 of a room: mounts what the home looks like, starts bodies under their home's numbers, and
//! reaps. It is the only process of tern inside.
//!
//! It is forked from the warden before that has threads, so it is single-threaded and may fork in
//! its turn.

pub mod body;
pub mod setup;

use crate::sandbox::usage::Usage;
use os::namespace;
use room_protocol::message::{Home, StandinId};
use serde::{Deserialize, Serialize};
use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};

pub use crate::sandbox::porter::body::filter;

/// The room's own process file system is mounted on this name of its /proc, unseen in listings.
pub const HIDDEN_PROC: &str = ".room";

/// Warden to porter; each is answered by one [`Answer`] on the same socket.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Command {
    /// Look like this home.
    Setup(Setup),
    /// Make the process of a body. It waits at the socket that comes with this for a packet with a
    /// memfd, a postcard [`Place`].
    Start {
        /// The number that it has.
        pid: i32,
    },
    /// The next thread or process made in the room gets the number behind this one.
    LastPid(i32),
}

/// What the porter needs to know of the room.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Setup {
    /// The home of the room.
    pub home: Home,
    /// This machine's clocks when `home` was received, nanoseconds.
    pub here_monotonic_ns: i64,
    /// What CLOCK_BOOTTIME shows here, nanoseconds.
    pub here_boottime_ns: i64,
    /// Guests are shown home's wall clock, not this machine's.
    pub wall: bool,
    /// Numbers of the FUSE devices that the porter opened: one per mount of `home`, then /proc's
    /// and the stand-ins'.
    pub devices: Vec<i32>,
}

/// Porter to warden.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// To [`Command::Setup`]: number of the stand-ins' mount, and what could not be mounted.
    Ready {
        /// As in /proc/PID/fdinfo.
        standin_mount_id: u64,
        /// `st_dev` of what lies there.
        standin_dev: u64,
        /// The failure, in words.
        missing: Vec<String>,
    },
    /// To the others.
    Done,
    /// What was tried and why it failed.
    Failed {
        /// The number of the error.
        errno: i32,
        /// The failure, in words.
        what: String,
    },
}

/// What happens in the room unasked; on the second socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Notice {
    /// A body was reaped: its number is free.
    Reaped {
        /// Number in the room.
        pid: i32,
        /// What it used.
        usage: Usage,
    },
    /// A body could not be made ready for its program.
    BodyFailed {
        /// Number in the room.
        pid: i32,
        /// The number of the error.
        errno: i32,
        /// The failure, in words.
        what: String,
    },
}

/// The porter's ends of its two sockets.
pub struct Channels {
    /// Commands and answers.
    pub commands: OwnedFd,
    /// The listener for notices.
    pub notices: OwnedFd,
    /// Requests for open stand-ins: the number of the first of a batch (`u32`), answered by as many
    /// as a packet carries.
    pub spares: OwnedFd,
}

/// Sends one message as a packet.
pub fn tell<T: Serialize>(socket: BorrowedFd<'_>, message: &T, fds: &[BorrowedFd<'_>]) -> os::Result<()> {
    let bytes =
        postcard::to_stdvec(message).map_err(|e| os::Error::new("encoding a message", std::io::Error::other(e)))?;
    os::socket::send(socket, &[IoSlice::new(&bytes)], fds, 0)
}

/// Receives one message; `None` when the other end is gone.
pub fn hear<T: for<'a> Deserialize<'a>>(socket: BorrowedFd<'_>) -> os::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut packet = vec![0; 64 << 10];
    let (n, fds) = os::socket::receive(socket, &mut packet, 0)?;
    if n == 0 {
        return Ok(None);
    }
    let message = postcard::from_bytes(&packet[..n])
        .map_err(|e| os::Error::new("decoding a message", std::io::Error::other(e)))?;
    Ok(Some((message, fds)))
}

/// Runs the porter: in the child, in the room's new namespaces. Ends when the warden's socket
/// closes; the kernel then kills whoever is left in the room. It opens `devices` FUSE connections
/// first, as whom it was forked: user and group are not mapped yet.
///
/// `node`: the machine's own root directory, for bodies in node-local mode; absent: the room shows
/// home alone.
pub fn main(channels: Channels, devices: usize, node: Option<OwnedFd>) -> ! {
    let outcome = open_devices(&channels, devices).and_then(|()| run(&channels, node));
    if let Err(e) = outcome {
        eprintln!("porter: {e}");
    }
    std::process::exit(0)
}

fn open_devices(channels: &Channels, count: usize) -> os::Result<()> {
    let opened = (0..count).map(|_| os::mount::open_fuse()).collect::<os::Result<Vec<_>>>()?;
    let numbers: Vec<i32> = opened.into_iter().map(IntoRawFd::into_raw_fd).collect();
    tell(channels.commands.as_fd(), &numbers, &[])
}

struct Porter<'a> {
    channels: &'a Channels,
    node: Option<OwnedFd>,
    room: Option<setup::Room>,
}

fn run(channels: &Channels, node: Option<OwnedFd>) -> os::Result<()> {
    let children = os::fds::child_signals()?;
    body::default_signals_but_pipe();
    let mut porter = Porter { channels, node, room: None };
    loop {
        let mut polled =
            [poll_in(channels.commands.as_fd()), poll_in(children.as_fd()), poll_in(channels.spares.as_fd())];
        // SAFETY: three live pollfds.
        unsafe { libc::poll(polled.as_mut_ptr(), 3, -1) };
        if polled[1].revents != 0 {
            let _ = rustix::io::read(&children, &mut [0u8; 128]);
            porter.reap()?;
        }
        if polled[0].revents != 0 {
            let Some((command, fds)) = hear::<Command>(channels.commands.as_fd())? else { return Ok(()) };
            let answer =
                porter.obey(command, fds).unwrap_or_else(|e| Answer::Failed { errno: e.errno(), what: e.to_string() });
            tell(channels.commands.as_fd(), &answer, &[])?;
        }
        if polled[2].revents != 0 {
            let Some((first, _)) = hear::<u32>(channels.spares.as_fd())? else { return Ok(()) };
            porter.open_spares(first)?;
        }
    }
}

fn poll_in(fd: BorrowedFd<'_>) -> libc::pollfd {
    libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 }
}

impl Porter<'_> {
    fn obey(&mut self, command: Command, fds: Vec<OwnedFd>) -> os::Result<Answer> {
        match command {
            Command::Setup(setup) => {
                let (room, missing) = setup::make(&setup, self.node.take())?;
                let standin_mount_id = os::mount::mount_id(room.standins.as_fd())?;
                let standin_dev = rustix::fs::fstat(&room.standins)
                    .map_err(|e| os::Error::new("asking for attributes of /dev", e))?
                    .st_dev;
                filter(room.view);
                self.room = Some(room);
                Ok(Answer::Ready { standin_mount_id, standin_dev, missing })
            }
            Command::LastPid(last) => {
                let room = self.room()?;
                let number = last.to_string();
                rustix::io::pwrite(&room.last_pid, number.as_bytes(), 0)
                    .map_err(|e| os::Error::new(format!("reserving the number behind {last}"), e))?;
                Ok(Answer::Done)
            }
            Command::Start { pid } => {
                let room = self.room()?;
                // SAFETY: the porter has one thread.
                match unsafe { namespace::fork_as(pid)? } {
                    Some(_) => Ok(Answer::Done),
                    None => body::wait(pid, &fds, room, self.channels.notices.as_fd()),
                }
            }
        }
    }

    /// Opens stand-ins for descriptors that home will make. Only inside the room they can be
    /// opened.
    fn open_spares(&self, first: u32) -> os::Result<()> {
        let directory = self.room()?.standins.as_fd();
        let open = |n: u32| body::open_standin(directory, StandinId(n), libc::O_RDWR);
        let batch = (first..).take(os::socket::FDS_MAX).map(open).collect::<os::Result<Vec<_>>>()?;
        let fds: Vec<BorrowedFd<'_>> = batch.iter().map(AsFd::as_fd).collect();
        tell(self.channels.spares.as_fd(), &first, &fds)
    }

    fn room(&self) -> os::Result<&setup::Room> {
        self.room.as_ref().ok_or_else(|| {
            os::Error::new("using a room that is not set up", std::io::Error::from_raw_os_error(libc::ENXIO))
        })
    }

    fn reap(&self) -> os::Result<()> {
        loop {
            let mut usage = [0; Usage::BYTES];
            // SAFETY: the kernel writes one rusage; no status is asked for: the tracer has it.
            let pid = unsafe {
                let options = libc::WNOHANG | libc::__WALL;
                libc::syscall(libc::SYS_wait4, -1, std::ptr::null_mut::<i32>(), options, usage.as_mut_ptr())
            };
            if pid <= 0 {
                return Ok(());
            }
            let usage = Usage::read(&usage).unwrap_or_default();
            tell(self.channels.notices.as_fd(), &Notice::Reaped { pid: pid as i32, usage }, &[])?;
        }
    }
}
