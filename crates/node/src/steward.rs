//! Talking to stewards over their sockets.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use control_protocol::moves::{HopReport, MoveOptions};
use control_protocol::paths::steward_socket;
use control_protocol::steward::{FromSteward, Guest, Onward, RoomId, RoomKind, ToSteward};
use control_protocol::tool::Homecoming;

use crate::caller::ProvenCaller;
use crate::hosted::Process;

/// Bound on one answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Bound on the answer to who waits for a program to start: this machine may have little of a core,
/// and many who want the same.
const PLACED_WITHIN: Duration = Duration::from_secs(60);
/// How long a steward may take to open its socket, and then to introduce itself to a warden: this
/// machine may have much to do.
const START_WITHIN: Duration = Duration::from_secs(30);
/// Whether it has opened its socket is looked at so often.
const LOOKED_EVERY: Duration = Duration::from_micros(500);
/// Largest answer, bytes.
const ANSWER_BYTES: usize = 1 << 20;

/// A connection to a steward.
pub(crate) struct Steward {
    socket: OwnedFd,
    room: RoomId,
    /// When the policy chose the room's node for a program, by the log of its decisions.
    pub(crate) decision_ms: Option<u64>,
}

/// How a process was passed on.
pub(crate) enum Passed {
    /// The process runs there.
    There(HopReport),
    /// It runs where it was, and can only go through home: why.
    Detour(String),
}

/// The use of a room's processes so far.
pub(crate) struct RoomUsage {
    /// The name of the node that hosts it.
    pub(crate) host: String,
    /// Id of the user whose room it is.
    pub(crate) owner: u32,
    /// CPU time so far, microseconds.
    pub(crate) cpu_us: u64,
}

/// What became of a program that was handed to a steward.
pub(crate) enum Placed {
    /// It is the steward's.
    There,
    /// It is as it was, and may be handed to another one: why.
    Not(String),
    /// The steward has ended. If it had taken the program over, the program ends with it; else its
    /// socket tells it.
    Unknown,
}

impl Steward {
    /// Fails at once if nobody serves the room.
    pub(crate) fn connect(run_dir: &Path, room: RoomId) -> io::Result<Steward> {
        let socket = packet::connect(&steward_socket(run_dir, room))?;
        packet::set_timeout(&socket, Some(ANSWER_WITHIN))?;
        Ok(Steward { socket, room, decision_ms: None })
    }

    /// Waits for one that is starting, as long as its process lives.
    pub(crate) fn await_start(run_dir: &Path, room: RoomId, process: Process) -> io::Result<Steward> {
        let start = Instant::now();
        loop {
            match Steward::connect(run_dir, room) {
                Err(e) if is_absent(&e) && start.elapsed() < START_WITHIN && process.is_alive() => {
                    std::thread::sleep(LOOKED_EVERY)
                }
                result => return result,
            }
        }
    }

    pub(crate) fn ask(&self, message: &ToSteward, descriptors: &[BorrowedFd<'_>]) -> io::Result<FromSteward> {
        self.send(message, descriptors)?;
        self.answer()
    }

    fn send(&self, message: &ToSteward, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let bytes = postcard::to_allocvec(message).map_err(io::Error::other)?;
        packet::send(self.socket.as_fd(), &bytes, descriptors)
    }

    fn answer(&self) -> io::Result<FromSteward> {
        let answer = packet::receive(self.socket.as_fd(), ANSWER_BYTES)?;
        if answer.bytes.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        postcard::from_bytes(&answer.bytes).map_err(io::Error::other)
    }

    /// Hands a caller over, which becomes the deputy of `program`. `socket`: the caller's.
    /// `home_devices`: it sees home's numbers of file systems from its beginning.
    pub(crate) fn place(
        &self,
        caller: &ProvenCaller,
        socket: BorrowedFd<'_>,
        program: BorrowedFd<'_>,
        homecoming: Homecoming,
        home_devices: bool,
    ) -> Result<Placed, String> {
        let message = ToSteward::Place { caller: caller.named(), homecoming, home_devices };
        let sent = packet::set_timeout(&self.socket, Some(PLACED_WITHIN))
            .and_then(|()| self.send(&message, &[socket, program, caller.pidfd()]));
        if let Err(e) = sent {
            return Ok(Placed::Not(format!("the steward does not listen: {e}")));
        }
        match self.answer() {
            Ok(FromSteward::Ok) => Ok(Placed::There),
            Ok(FromSteward::Failed { reason }) => Ok(Placed::Not(reason)),
            Ok(_) => Err("the steward gave an unexpected answer".into()),
            Err(e) if has_ended(&e) => Ok(Placed::Unknown),
            Err(e) => Err(silent(&e)),
        }
    }

    /// Hands the connection of the room's warden over.
    ///
    /// # Errors
    /// In words: the two do not understand each other, or the steward does not answer.
    pub(crate) fn connect_warden(&self, socket: BorrowedFd<'_>) -> Result<(), String> {
        packet::set_timeout(&self.socket, Some(START_WITHIN)).map_err(|e| e.to_string())?;
        self.order(&ToSteward::Warden, &[socket])
    }

    /// Asks for something that is answered by yes or a reason.
    pub(crate) fn order(&self, message: &ToSteward, descriptors: &[BorrowedFd<'_>]) -> Result<(), String> {
        match self.ask(message, descriptors) {
            Ok(FromSteward::Ok) => Ok(()),
            Ok(FromSteward::Failed { reason }) => Err(reason),
            Ok(_) => Err("the steward gave an unexpected answer".into()),
            Err(e) => Err(silent(&e)),
        }
    }

    /// Moves a process to the room or home from it, however long that takes: a steward that ends is
    /// noticed, and a step in vain ends by itself. `tool`: who waits.
    pub(crate) fn relocate(&self, message: &ToSteward, tool: Option<BorrowedFd<'_>>) -> Result<HopReport, String> {
        packet::set_timeout(&self.socket, None).map_err(|e| e.to_string())?;
        match self.ask(message, tool.as_slice()) {
            Ok(FromSteward::Moved(leg)) => Ok(leg),
            Ok(FromSteward::Failed { reason }) => Err(reason),
            Ok(_) => Err("the steward gave an unexpected answer".into()),
            Err(e) => Err(silent(&e)),
        }
    }

    /// Asks whose processes the room has.
    ///
    /// # Errors
    /// In words; a steward of an older tern does not know.
    pub(crate) fn owner(&self) -> Result<u32, String> {
        match self.ask(&ToSteward::Owner, &[]) {
            Ok(FromSteward::Owner { uid }) => Ok(uid),
            Ok(FromSteward::Failed { reason }) => Err(reason),
            Ok(_) => Err("the steward gave an unexpected answer".into()),
            Err(e) => Err(silent(&e)),
        }
    }

    /// Asks what processes find in the room; a steward of an older tern has no other rooms.
    pub(crate) fn kind(&self) -> RoomKind {
        match self.ask(&ToSteward::Kind, &[]) {
            Ok(FromSteward::Kind { kind }) => kind,
            _ => RoomKind::Home,
        }
    }

    /// For how long the room's node has not answered, milliseconds, if it owes an answer. A steward
    /// of an older tern does not know.
    pub(crate) fn silent_ms(&self) -> Option<u64> {
        match self.ask(&ToSteward::Link, &[]) {
            Ok(FromSteward::Link { silent_ms }) => silent_ms,
            _ => None,
        }
    }

    /// The room that it is the steward of.
    pub(crate) fn room(&self) -> RoomId {
        self.room
    }

    /// Moves a process straight to another room. As [`Steward::relocate`].
    pub(crate) fn pass(
        &self,
        pid: i32,
        wish: MoveOptions,
        to: Onward,
        tool: Option<BorrowedFd<'_>>,
    ) -> Result<Passed, String> {
        packet::set_timeout(&self.socket, None).map_err(|e| e.to_string())?;
        match self.ask(&ToSteward::Pass { pid, wish, to }, tool.as_slice()) {
            Ok(FromSteward::Moved(leg)) => Ok(Passed::There(leg)),
            Ok(FromSteward::Detour { why }) => Ok(Passed::Detour(why)),
            Ok(FromSteward::Failed { reason }) => Err(reason),
            Ok(_) => Err("the steward gave an unexpected answer".into()),
            Err(e) => Err(silent(&e)),
        }
    }

    /// Ends the room. A steward that ends before its answer has gone out has done as told.
    pub(crate) fn close(&self) -> Result<(), String> {
        match self.ask(&ToSteward::Close, &[]) {
            Ok(FromSteward::Failed { reason }) => Err(reason),
            Ok(_) => Ok(()),
            Err(e) if has_ended(&e) => Ok(()),
            Err(e) => Err(silent(&e)),
        }
    }

    /// Node, user, and CPU time of the room, microseconds.
    pub(crate) fn used(&self) -> Result<RoomUsage, String> {
        match self.ask(&ToSteward::Used, &[]) {
            Ok(FromSteward::Used { host, owner, cpu_us }) => Ok(RoomUsage { host, owner, cpu_us }),
            Ok(FromSteward::Failed { reason }) => Err(reason),
            Ok(_) => Err("the steward gave an unexpected answer".into()),
            Err(e) => Err(silent(&e)),
        }
    }

    /// Host, whether connected, and who is away.
    pub(crate) fn list(&self) -> Result<(String, bool, Vec<Guest>), String> {
        self.ask_for_list().map_err(|e| format!("the steward does not listen: {e}"))?;
        self.listed()
    }

    /// The first half of [`Steward::list`], for who asks many.
    pub(crate) fn ask_for_list(&self) -> io::Result<()> {
        self.send(&ToSteward::List, &[])
    }

    /// Receives what [`Steward::ask_for_list`] asked for.
    pub(crate) fn listed(&self) -> Result<(String, bool, Vec<Guest>), String> {
        match self.answer() {
            Ok(FromSteward::Guests { host, connected, guests }) => Ok((host, connected, guests)),
            Ok(FromSteward::Failed { reason }) => Err(reason),
            Ok(_) => Err("the steward gave an unexpected answer".into()),
            Err(e) => Err(silent(&e)),
        }
    }
}

/// Why nothing came of it.
pub(crate) fn silent(e: &io::Error) -> String {
    match e.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            "the steward does not answer: is this machine overloaded?".into()
        }
        _ => format!("the steward does not answer: {e}"),
    }
}

/// The steward closed the connection before it answered.
pub(crate) fn has_ended(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
}

/// Nobody serves the socket (any more, or yet).
pub(crate) fn is_absent(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}
