//! Where a call runs.

use crate::errno::Errno;

/// Who answers a call that a guest makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The hosting kernel, alone: the filter lets it through.
    Local,
    /// The deputy at home makes the same call; arguments and results travel as the row describes
    /// them.
    Home,
    /// Code of its own in the warden (or, for [`Special::Clone`] and [`Special::TakeSignal`], in
    /// the tracer).
    Special(Special),
    /// It cannot be done away: the process goes home and makes the call there. If it cannot go, the
    /// call fails with this error, and the log and `tern why` name it.
    GoHome(Errno),
    /// It cannot be done away either, but programs try it only to see whether it is there, and do
    /// without: nobody goes home for it, it fails with this error.
    Refused(Errno),
    /// There is no such call in the kernel: "function not implemented" at once.
    Unused,
}

/// The families of calls that have code of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Special {
    /// A new thread or process: stops in the tracer, not in the warden.
    Clone,
    /// Takes a signal that came from home: stops in the tracer, which puts in what the signal
    /// carried there.
    TakeSignal,
    /// Signals become readable: from then on they must carry in the body what they carried at home,
    /// before anybody takes them.
    SignalFd,
    /// Nice values are home's, and the body's as far as they make it give way.
    Nice,
    /// Owners of files: ids that only home has.
    Owner,
    /// A file that an epoll instance is to watch: regular ones are refused.
    Watch,
    /// What children used: home knows them, and their bodies ran here.
    Usage,
    /// `ioctl`: what it means depends on what the descriptor is.
    Ioctl,
    /// `fcntl` commands about flags, owners, signals, leases, pipes.
    Fcntl,
    /// Attributes of a descriptor that may be a stand-in.
    Stat,
    /// Positions of a descriptor that may be a stand-in.
    Seek,
    /// Copies between descriptors one of which may be a stand-in.
    Splice,
    /// A mapping that others share.
    SharedMapping,
    /// A semaphore (eventfd(2)), which old kernels do not tell from a counter.
    Semaphore,
    /// Holds another process, or looks into its memory: it must be in the same place.
    Inspecting,
    /// How processes are scheduled.
    Schedule,
    /// What two processes have in common.
    Compare,
    /// The call is about sockets.
    Socket,
    /// System V objects: semaphores and queues are home's; memory is made in the room, unless home
    /// has it.
    Ipc,
    /// Signals to processes and threads.
    Signal,
    /// What a signal does: mirrored at home.
    Disposition,
    /// Waiting for children.
    Wait,
    /// Users, groups, capabilities.
    Credentials,
    /// The call is `prctl`.
    Prctl,
    /// Resource limits: set away and at home.
    Limits,
}
