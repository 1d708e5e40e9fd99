//! From the command line to a room that serves, and to its end.

use crate::files::{proc, standins};
use crate::sandbox::porter;
use crate::sandbox::porter::{Answer, Channels, Command, Setup};
use crate::state::files::proc::table::Proc;
use crate::state::files::standins::device::Device;
use crate::state::listeners::Listeners;
use crate::state::orders::Orders;
use crate::state::shared::Shared;
use crate::state::wall::Wall;
use crate::supervisor::tracer;
use crate::supervisor::tracer::Parts;
use crate::warden::args::WardenArgs;
use crate::warden::uplink::Files;
use crate::warden::{WardenError, from_home as home, limits};
use control_protocol::steward::{Preamble, RoomId, RoomKind};
use homefs::client::Client;
use link::Receiver;
use os::pidfd::PidFd;
use os::ptrace::HostTid;
use room_protocol::message::Home;
use room_protocol::{Kind, ToHome, ToRoom};
use std::io::Write;
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Why a room ends whose porter did: nobody can live there without it.
const PORTER_ENDED: &str = "the first process of its room ended";
/// Why a room ends whose home has stayed away.
const SUSPENDED_TOO_LONG: &str = "it was suspended for longer than was said (tern suspend --for)";
/// How long a home may take to be reached.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// Runs the room until it ends.
pub fn run(args: &WardenArgs) -> Result<(), WardenError> {
    os::stray::outlive()?;
    let identity = identity::Identity::load(&args.state)?;
    let (uplink, mut downlink) = connect(args, &identity)?;
    let clocks = Clocks::read(&uplink, &mut downlink)?;
    send(&uplink, &ToHome::Hello { version: room_protocol::VERSION })?;
    let mut home = opened(&mut downlink)?;
    let lost_after = lost_after(&home);
    uplink.lose_after(lost_after)?;
    (home.monotonic_ns, home.boottime_ns) = clocks.home_ns;
    let (here_monotonic_ns, here_boottime_ns) = clocks.here_ns;
    let children = os::fds::child_signals()?;
    // One FUSE connection per mount, one for /proc, and one for the stand-ins.
    let (porter, channels, numbers, devices) = fork_porter(home.mounts.len() + 2, args)?;
    let limited = limits::put(args, porter);
    let (end, ended) = mpsc::channel();
    let room = serve(uplink, downlink, devices, &end)?;
    room.shared.suspension.lost_after(lost_after);
    let _ = room.shared.home_ahead_ns.set(home.monotonic_ns - here_monotonic_ns);
    if let Ok(watched) = os::cgroup::Group::open(&control_protocol::paths::room_group(RoomId(args.room))) {
        let _ = room.shared.group.set(watched);
    }
    let lanes = take_lanes(args, &room.shared, identity)?;
    let is_local = args.kind == RoomKind::NodeLocal;
    let _ = room.shared.kind.set(args.kind);
    let wall = Wall::needed(clocks.ahead_ns, clocks.doubt_ns).filter(|_| !is_local);
    if !is_local && (wall.is_some() || home.vdso != os::vdso::own()) {
        let _ = room.shared.strange.set(checkpoint::ForeignVdso::new(&home.vdso));
    }
    let home_devices = std::mem::take(&mut home.devices);
    let setup = Setup { home, here_monotonic_ns, here_boottime_ns, wall: wall.is_some(), devices: numbers };
    if let Some(wall) = wall {
        tracing::info!("guests are shown home's wall clock: this machine's is off");
        keep_wall_clock(&room.shared, wall)?;
    }
    let outcome = set_up(&channels, setup).and_then(|(standin_mount_id, standin_dev)| {
        room.shared.standins.set_mount_id(standin_mount_id);
        room.shared.devices.mounted(standin_dev);
        room.shared.device_numbers.learn(&os::process::mounts(porter.0)?, &home_devices);
        trace(&room, porter, channels, children, &end)
    });
    match outcome {
        Ok(()) => room.shared.tell(&ToHome::RoomReady),
        Err(e) => {
            room.shared.tell(&ToHome::RoomFailed { reason: e.to_string() });
            return Err(e);
        }
    }
    // The first thread to end, ends the room: the kernel kills the guests with their tracer, and
    // the group is empty soon.
    let why: &str = ended.recv().unwrap_or("all threads ended");
    tracing::info!("room ends: {why}");
    if why == PORTER_ENDED || why == SUSPENDED_TOO_LONG {
        room.shared.tell(&ToHome::RoomFailed { reason: why.into() });
    }
    // SAFETY: the porter is this process' child and not waited for: the number is its own.
    unsafe { libc::kill(porter.0, libc::SIGKILL) };
    let _ = std::fs::remove_file(lanes);
    limited.map_or(Ok(()), |limited| Ok(limited.end()?))
}

/// Other nodes may bring processes; where the daemon hands their sockets over.
fn take_lanes(args: &WardenArgs, room: &Arc<Shared>, identity: identity::Identity) -> Result<PathBuf, WardenError> {
    let path = control_protocol::paths::warden_socket(&args.run_dir, RoomId(args.room));
    let listener = os::socket::listen(&path)?;
    room.direct_links.set_identity(identity);
    let room = room.clone();
    std::thread::Builder::new()
        .name("lanes".into())
        .spawn(move || crate::supervisor::transfer::direct_link::serve(&room, &listener))
        .map_err(|e| os::Error::new("starting a thread", e))?;
    Ok(path)
}

fn connect(args: &WardenArgs, identity: &identity::Identity) -> Result<(link::Sender, Receiver), WardenError> {
    let failed = |source| WardenError::Connect { home: args.home.clone(), at: args.connect.to_string(), source };
    let mut socket = TcpStream::connect_timeout(&args.connect, CONNECT_WITHIN).map_err(failed)?;
    socket.write_all(&Preamble::Room(RoomId(args.room)).encode()).map_err(failed)?;
    let home = identity::server_name(&identity::NodeName::new(args.home.as_str())?)?;
    let (sender, receiver, _) = link::connect(socket, identity.client_config(), home)?;
    Ok((sender, receiver))
}

fn send(uplink: &link::Sender, message: &ToHome) -> Result<(), WardenError> {
    let bytes = postcard::to_stdvec(message).map_err(|e| WardenError::Protocol(e.to_string()))?;
    Ok(uplink.send(Kind::Message, 0, 0, &[&bytes])?)
}

/// The fewest readings of a clock, of which the best counts.
const CLOCK_READINGS: usize = 8;
/// The most readings of a clock.
const CLOCK_READINGS_MAX: usize = 40;
/// A reading is good if it is later than the link explains by no more than this, nanoseconds.
const LATE_NS: i64 = 2_000_000;
/// The longest time in which a good reading is waited for, nanoseconds.
const CLOCK_WITHIN_NS: i64 = 1_000_000_000;

/// Monotonic and boot-time clocks of both ends at one moment. What they are wrong by, a process
/// sees as a step of its clock when it is moved: backwards, if that is more than it stood still.
struct Clocks {
    home_ns: (i64, i64),
    here_ns: (i64, i64),
    round_trip_ns: i64,
    /// Home's wall clock against this machine's monotonic one.
    ahead_ns: i64,
    /// What that may be wrong by, as an end that was busy answered later than the link explains.
    doubt_ns: i64,
}

impl Clocks {
    /// Reads home's clocks some times: the quickest answer is wrong by half of its time at most.
    fn read(uplink: &link::Sender, downlink: &mut Receiver) -> Result<Clocks, WardenError> {
        let begun_ns = os::namespace::clock_ns(libc::CLOCK_MONOTONIC);
        let mut best: Option<Clocks> = None;
        for reading in 0..CLOCK_READINGS_MAX {
            let late = best.as_ref().is_none_or(|b| b.doubt_ns > LATE_NS / 2);
            let spent_ns = os::namespace::clock_ns(libc::CLOCK_MONOTONIC) - begun_ns;
            if reading >= CLOCK_READINGS && (!late || spent_ns > CLOCK_WITHIN_NS) {
                break;
            }
            let now = Clocks::ask(uplink, downlink)?;
            if best.as_ref().is_none_or(|b| now.round_trip_ns < b.round_trip_ns) {
                best = Some(now);
            }
        }
        best.ok_or_else(|| WardenError::Protocol("no clock".into()))
    }

    fn ask(uplink: &link::Sender, downlink: &mut Receiver) -> Result<Clocks, WardenError> {
        let here = || (os::namespace::clock_ns(libc::CLOCK_MONOTONIC), os::namespace::clock_ns(libc::CLOCK_BOOTTIME));
        let (mut body, asked) = (Vec::new(), here());
        send(uplink, &ToHome::Clock)?;
        downlink.receive(&mut body)?;
        let (round_trip_ns, told) = (here().0 - asked.0, postcard::from_bytes(&body));
        let Ok(ToRoom::Clock { monotonic_ns, boottime_ns, realtime_ns }) = told else {
            return Err(WardenError::Protocol("something else when it was asked for its clocks".into()));
        };
        let here_ns = (asked.0 + round_trip_ns / 2, asked.1 + round_trip_ns / 2);
        // Links are taken to be as quick there as back.
        let link_ns = downlink.least_round_trip().map_or(0, |least| i64::try_from(least.as_nanos()).unwrap_or(0));
        Ok(Clocks {
            home_ns: (monotonic_ns, boottime_ns),
            here_ns,
            round_trip_ns,
            ahead_ns: realtime_ns.saturating_sub(here_ns.0),
            doubt_ns: (round_trip_ns - link_ns).max(0) / 2,
        })
    }
}

/// How long a home may be out of reach: as long as it says, within bounds.
fn lost_after(home: &Home) -> Duration {
    const BOUNDS_MS: std::ops::RangeInclusive<u32> = 1000..=86_400_000;
    Duration::from_millis(home.lost_after_ms.clamp(*BOUNDS_MS.start(), *BOUNDS_MS.end()).into())
}

/// The first message of a home says what it looks like.
fn opened(downlink: &mut Receiver) -> Result<Home, WardenError> {
    let mut body = Vec::new();
    let head = downlink.receive(&mut body)?;
    match (head.kind, postcard::from_bytes(&body)) {
        (Kind::Message, Ok(ToRoom::Open(home))) if home.version == room_protocol::VERSION => Ok(home),
        (Kind::Message, Ok(ToRoom::Open(home))) => Err(WardenError::Protocol(format!(
            "version {} of the room protocol; this node speaks {}: upgrade one of them",
            home.version,
            room_protocol::VERSION
        ))),
        _ => Err(WardenError::Protocol("something before it opened the room".into())),
    }
}

type Forked = (HostTid, Channels, Vec<i32>, Vec<OwnedFd>);

/// The kernel mounts a FUSE connection only in the user namespace in which its device was opened,
/// so the porter opens them, and the warden takes duplicates.
fn fork_porter(devices: usize, args: &WardenArgs) -> Result<Forked, WardenError> {
    let ids = &args.ids;
    // Taken before the fork: it belongs to the machine's own mounts, which the porter leaves.
    let (node, flags) = match args.kind {
        RoomKind::Home => (None, os::namespace::ROOM),
        RoomKind::NodeLocal if ids.is_machines() => (Some(os::mount::own_mounts()?), os::namespace::NODE_ROOT_ROOM),
        RoomKind::NodeLocal => (Some(os::mount::open_path(std::path::Path::new("/"))?), os::namespace::NODE_LOCAL_ROOM),
    };
    let (commands, their_commands) = os::socket::pair()?;
    let (notices, their_notices) = os::socket::pair()?;
    let (spares, their_spares) = os::socket::pair()?;
    // The porter knows them too.
    crate::sandbox::ids::set(*ids);
    // SAFETY: this process has one thread yet.
    let Some((pid, pidfd)) = (unsafe { os::namespace::fork_into(flags)? }) else {
        let mut kept = vec![their_commands.as_raw_fd(), their_notices.as_raw_fd(), their_spares.as_raw_fd()];
        kept.extend(node.as_ref().map(AsRawFd::as_raw_fd));
        os::fds::close_others(&kept);
        let channels = Channels { commands: their_commands, notices: their_notices, spares: their_spares };
        porter::main(channels, devices, node);
    };
    drop((their_commands, their_notices, their_spares));
    let pidfd = PidFd::from(pidfd);
    let numbers: Vec<i32> = match porter::hear(commands.as_fd())? {
        Some((numbers, _)) => numbers,
        None => return Err(WardenError::Room("the porter could not open /dev/fuse (its log says why)".into())),
    };
    let devices = numbers.iter().map(|n| pidfd.get_fd(*n)).collect::<os::Result<Vec<_>>>()?;
    if !ids.is_machines() {
        os::namespace::map_ids(pid, &ids.extents())?;
    }
    Ok((HostTid(pid), Channels { commands, notices, spares }, numbers, devices))
}

/// The serving threads.
struct Serving {
    shared: Arc<Shared>,
    listeners: Arc<Listeners>,
}

fn serve(
    uplink: link::Sender,
    downlink: Receiver,
    mut devices: Vec<OwnedFd>,
    end: &mpsc::Sender<&'static str>,
) -> Result<Serving, WardenError> {
    let failed = |e| os::Error::new("starting a thread", e);
    let standins_device = devices.pop().ok_or_else(|| WardenError::Protocol("no mounts".into()))?;
    let proc_device = devices.pop().ok_or_else(|| WardenError::Protocol("no mounts".into()))?;
    let (standins, proc) = (Device::new(standins_device), Proc::new(proc_device));
    let uplink = Arc::new(uplink);
    uplink.write_posts().map_err(|e| os::Error::new("starting a thread", e))?;
    let shared = Arc::new(Shared::new(uplink, Orders::new()?, standins, proc));
    // Where its own root cannot be had, all is read from home.
    let root = std::fs::File::open("/").ok().map(OwnedFd::from);
    let client = Client::start(devices, Arc::new(Files::new(shared.clone())), root)
        .map_err(|e| os::Error::new("serving home's files", e))?;
    let listeners = Arc::new(Listeners::new()?);
    let thread = |name: &str, run: Box<dyn FnOnce() + Send>| {
        std::thread::Builder::new().name(name.into()).spawn(run).map(drop).map_err(failed)
    };
    let room = shared.clone();
    thread("standins", Box::new(move || standins::serve(&room)))?;
    let room = shared.clone();
    thread("proc", Box::new(move || proc::serve(&room)))?;
    let room = shared.clone();
    thread("streams", Box::new(move || crate::calls::streams::serve(&room)))?;
    let room = shared.clone();
    thread("memory", Box::new(move || crate::warden::from_home::serve_memory(&room)))?;
    let room = shared.clone();
    thread("cargo", Box::new(move || crate::supervisor::transfer::receiver::serve(&room)))?;
    let room = shared.clone();
    thread("following", Box::new(move || crate::supervisor::transfer::postcopy::serve(&room)))?;
    let (room, from) = (shared.clone(), listeners.clone());
    thread("calls", Box::new(move || crate::calls::notices::serve(&room, &from)))?;
    let (room, limit) = (shared.clone(), end.clone());
    thread(
        "suspension",
        Box::new(move || {
            room.suspension.watch(&room.home.uplink);
            let _ = limit.send(SUSPENDED_TOO_LONG);
        }),
    )?;
    let (room, ended) = (shared.clone(), end.clone());
    thread(
        "home",
        Box::new(move || {
            let why = crate::warden::uplink::receive(downlink, &room, &client);
            client.close();
            let _ = ended.send(why);
        }),
    )?;
    Ok(Serving { shared, listeners })
}

fn keep_wall_clock(room: &Arc<Shared>, wall: Wall) -> Result<(), WardenError> {
    let _ = room.wall.set(wall);
    let room = room.clone();
    std::thread::Builder::new()
        .name("wall".into())
        .spawn(move || crate::calls::clock_keeper::keep(&room))
        .map(drop)
        .map_err(|e| os::Error::new("starting a thread", e).into())
}

fn set_up(channels: &Channels, setup: Setup) -> Result<(u64, u64), WardenError> {
    porter::tell(channels.commands.as_fd(), &Command::Setup(setup), &[])?;
    match porter::hear(channels.commands.as_fd())? {
        Some((Answer::Ready { standin_mount_id, standin_dev, missing }, _)) => {
            missing.iter().for_each(|m| tracing::warn!("the room lacks something: {m}"));
            Ok((standin_mount_id, standin_dev))
        }
        Some((Answer::Failed { what, .. }, _)) => Err(WardenError::Room(what)),
        _ => Err(WardenError::Room("the porter ended".into())),
    }
}

fn trace(
    room: &Serving,
    porter: HostTid,
    channels: Channels,
    children: OwnedFd,
    end: &mpsc::Sender<&'static str>,
) -> Result<(), WardenError> {
    let spares = channels.spares.try_clone().map_err(|e| os::Error::new("duplicating a descriptor", e))?;
    let shared = room.shared.clone();
    std::thread::Builder::new()
        .name("spares".into())
        .spawn(move || shared.spares.stock(&spares))
        .map_err(|e| os::Error::new("starting a thread", e))?;
    let (shared, listeners, home_room) = (room.shared.clone(), room.listeners.clone(), room.shared.clone());
    let wait_answered = Box::new(move |id, result, out| home::waited(&home_room, id, result, out));
    let parts = Parts { room: shared, porter, channels, children, listeners, wait_answered };
    let end = end.clone();
    std::thread::Builder::new()
        .name("tracer".into())
        .spawn(move || {
            if let Err(e) = tracer::run(parts) {
                tracing::error!("{e}");
            }
            let _ = end.send(PORTER_ENDED);
        })
        .map(drop)
        .map_err(|e| os::Error::new("starting a thread", e).into())
}

/// One message from home, at its place in the order.
pub fn obey(room: &Arc<Shared>, bytes: &[u8]) -> bool {
    if room.orders.is_flooded() {
        tracing::error!("home sends more than this room can do");
        return false;
    }
    match postcard::from_bytes::<ToRoom>(bytes) {
        // A message that was not obeyed is its guest's loss, not the room's.
        Ok(message) => room.contain(message.process(), || home::obey(room, message)).unwrap_or(true),
        Err(e) => {
            tracing::error!("home sent a message that is none: {e}");
            false
        }
    }
}
