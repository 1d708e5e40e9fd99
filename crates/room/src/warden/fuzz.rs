//! A warden that believes its home nothing: for fuzz targets and tests.
//!
//! The guest is this very process, with memory set apart for it; what lies around that must stay as
//! it is.

use crate::calls::follow_up;
use crate::files::{devices, proc};
use crate::state::calls::after::{After, IpcStep, Made};
use crate::state::calls::marshal::Back;
use crate::state::calls::message::Piece;
use crate::state::calls::message::incoming::Incoming;
use crate::state::files::proc::table::Proc;
use crate::state::files::standins::device::Device;
use crate::state::files::standins::requests::{StandinRequest, StandinRequestKind};
use crate::state::guests::{Guest, Waiting, Who};
use crate::state::orders::Orders;
use crate::state::pending::Pending;
use crate::state::shared::Shared;
use crate::warden::from_home as home;
use arbitrary::Unstructured;
use homefs::proto::{InHeader, Request};
use os::inject::Memory;
use os::ptrace::HostTid;
use room_protocol::ToRoom;
use room_protocol::message::{Call, CallId, StandinId, onward};
use std::fs::File;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use zerocopy::IntoBytes;

const GUEST: Who = Who { pid: 7, tid: 7 };
const STEPS_MAX: usize = 32;
/// Bytes that are the guest's, and before and behind them bytes that are not.
const OWN: usize = 16 << 10;
const AROUND: usize = 4096;
const UNTOUCHED: u8 = 0xa5;
/// No message brings more descriptors than this.
const CONTROL_BYTES: u64 = 64;
const SPARES: usize = 16;

/// Memory of the guest's, page aligned.
#[repr(align(4096))]
struct Arena([u8; AROUND + OWN + AROUND]);

static ARENA: Mutex<Arena> = Mutex::new(Arena([UNTOUCHED; AROUND + OWN + AROUND]));

/// Has `work` write to the guest's memory, by the address where that begins.
fn with_memory(work: impl FnOnce(u64)) {
    let mut arena = ARENA.lock().unwrap_or_else(PoisonError::into_inner);
    let at = arena.0.as_mut_ptr() as u64 + AROUND as u64;
    work(at);
    let around = arena.0[..AROUND].iter().chain(&arena.0[AROUND + OWN..]);
    let is_whole = around.copied().all(|byte| byte == UNTOUCHED);
    arena.0.fill(UNTOUCHED);
    assert!(is_whole, "memory was written that is not the guest's to be written");
}

/// A link whose other end takes what comes and says nothing.
fn uplink() -> Option<Arc<link::Sender>> {
    static LINK: OnceLock<Option<Arc<link::Sender>>> = OnceLock::new();
    let connect = || {
        let dir = std::env::temp_dir().join(format!("tern-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(&dir).ok()?;
        let name = identity::NodeName::new("n1").ok()?;
        let node = identity::init(&dir, &name).ok()?;
        let _ = std::fs::remove_dir_all(&dir);
        let listener = TcpListener::bind("127.0.0.1:0").ok()?;
        let socket = TcpStream::connect(listener.local_addr().ok()?).ok()?;
        let server = node.server_config();
        std::thread::spawn(move || {
            let Ok((_sender, mut receiver, _)) = link::accept(listener.accept()?.0, server) else { return Ok(()) };
            let mut body = Vec::new();
            while receiver.receive(&mut body).is_ok() {}
            Ok::<_, std::io::Error>(())
        });
        let (sender, _, _) = link::connect(socket, node.client_config(), identity::server_name(&name).ok()?).ok()?;
        Some(Arc::new(sender))
    };
    LINK.get_or_init(connect).clone()
}

fn sink() -> Option<OwnedFd> {
    File::options().read(true).write(true).open("/dev/null").ok().map(OwnedFd::from)
}

/// A room with one guest.
fn room() -> Option<Arc<Shared>> {
    let (standins, proc) = (Device::new(sink()?), Proc::new(sink()?));
    let room = Arc::new(Shared::new(uplink()?, Orders::new().ok()?, standins, proc));
    let mut guests = room.guests();
    guests.add(GUEST.pid, Guest::new(&[], 0, 0));
    guests.add_thread(host(), GUEST);
    guests.runs(GUEST.pid);
    drop(guests);
    Some(room)
}

fn host() -> HostTid {
    HostTid(std::process::id() as i32)
}

/// What follows from the answer to a guest's call, which may write to `at`.
fn after(input: &mut Unstructured<'_>, at: u64) -> arbitrary::Result<After> {
    let piece = |offset: u64, bytes: u64| Piece { at: at + offset, bytes };
    let back = vec![
        Back {
            from: input.arbitrary::<u8>()?.into(),
            bytes: 128,
            to: at,
            counted_at: Some(input.arbitrary::<u8>()?.into()),
        },
        Back { from: 128, bytes: 8, to: at + 256, counted_at: None },
    ];
    let with_header = input.arbitrary()?;
    let incoming = Incoming {
        who: GUEST,
        pieces: vec![piece(1024, 100), piece(2048, 3000)],
        name: piece(512, 128),
        control: piece(768, if with_header { CONTROL_BYTES } else { 0 }),
        name_bytes_to: (!with_header).then_some(at + 700),
        header_at: with_header.then_some(at + 896),
        close_on_exec: input.arbitrary()?,
        files: Default::default(),
    };
    let listener = Some(StandinId(3));
    let made = Made { who: GUEST, nonblocking: true, close_on_exec: true, listener, back: back.clone() };
    Ok(match input.int_in_range(0..=9)? {
        0 => After::Write(back),
        1 => After::WriteElseHere(back),
        2 => After::HereIfAbsent { pid: GUEST.pid, makes: false },
        3 => After::Sought { standin: StandinId(3), expected: input.arbitrary()? },
        4 => After::Descriptor(Arc::new(made)),
        5 => After::Owed { who: GUEST, number_at: at },
        6 => After::Here,
        7 => After::Ipc(IpcStep::Received { to: at }),
        8 => After::Ipc(IpcStep::Counted { who: GUEST, args: [1, 0, 13, at] }),
        _ => After::Received(Arc::new(incoming)),
    })
}

/// Something that home is to answer.
fn pending(input: &mut Unstructured<'_>, at: u64) -> arbitrary::Result<Option<Pending>> {
    let Some(listener) = sink().map(Arc::new) else { return Ok(None) };
    let waiting = Waiting { listener, id: 1, host_tid: host(), call: Some((0, [0; 6])), timed: None };
    let what = *input.choose(&[
        StandinRequestKind::Read,
        StandinRequestKind::Write,
        StandinRequestKind::Poll(StandinId(3)),
        StandinRequestKind::Lock { asks: true },
        StandinRequestKind::Lock { asks: false },
        StandinRequestKind::File,
    ])?;
    Ok(Some(match input.int_in_range(0..=7)? {
        0 => Pending::Standin(StandinRequest { pid: GUEST.pid, host: Some(host()), unique: 5, what }),
        1 => Pending::Birth { host: host() },
        2 => Pending::Held { host: host(), after: after(input, at)?, asked: true },
        _ => Pending::Notified { waiting, after: after(input, at)?, exact: input.arbitrary()?, asked: true },
    }))
}

/// A guest looks at /dev or /proc: home is asked, and its answer is `out`.
fn look(room: &Shared, input: &mut Unstructured<'_>) -> arbitrary::Result<()> {
    const LOOKUP: u32 = 1;
    let opcode = *input.choose(&[LOOKUP, 3, 5, 14, 15, 27, 28])?;
    let body: &[u8] = if opcode == LOOKUP { b"tty\0" } else { &[0; 40] };
    let nodeid = *input.choose(&[1, 2, 3, 1 << 40])?;
    let len = (size_of::<InHeader>() + body.len()) as u32;
    let header = InHeader { len, opcode, unique: 9, nodeid, pid: GUEST.tid as u32, ..Default::default() };
    let bytes = [header.as_bytes(), body].concat();
    if let Ok(request) = Request::parse(&bytes) {
        match input.arbitrary()? {
            true => proc::handle(room, &request),
            false => drop(devices::serve(room, &request)),
        }
    }
    Ok(())
}

/// Home answers the next call, with any result and any bytes.
fn answer(input: &mut Unstructured<'_>, number: u64) -> arbitrary::Result<ToRoom> {
    let result = match input.int_in_range(0..=3)? {
        0 => i64::from(input.arbitrary::<i8>()?),
        1 => i64::from(input.arbitrary::<u16>()?),
        2 => *input.choose(&[i64::MIN, i64::MAX, -512, -4095, -4096, i64::from(i32::MIN)])?,
        _ => input.arbitrary()?,
    };
    let mut out = vec![0; input.int_in_range(0..=4096)?];
    let given = input.bytes(out.len().min(input.len()).min(400))?;
    out[..given.len()].copy_from_slice(given);
    // Control messages, whose sizes are not easily met by chance.
    if out.len() > 300 && input.arbitrary()? {
        let bytes = u64::from(input.arbitrary::<u8>()?);
        out[40..48].copy_from_slice(&bytes.to_le_bytes());
        out[200..208].copy_from_slice(&bytes.to_le_bytes());
        out[208..216].copy_from_slice(&[1, 0, 0, 0, 1, 0, 0, 0]);
    }
    let ready = input.arbitrary::<Option<u16>>()?.map(|events| (StandinId(3), events));
    Ok(ToRoom::Return { id: CallId(number), result, out, ready })
}

/// A hostile home's messages, and its answers to what guests have asked.
///
/// # Panics
/// Memory was written that no call of a guest's names.
pub fn warden_home(input: &[u8]) {
    let Some(room) = room() else { return };
    with_memory(|at| {
        let mut input = Unstructured::new(input);
        for _ in 0..STEPS_MAX {
            if input.is_empty() || step(&room, &mut input, at).is_err() {
                break;
            }
        }
    });
}

fn step(room: &Arc<Shared>, input: &mut Unstructured<'_>, at: u64) -> arbitrary::Result<()> {
    (0..SPARES).filter_map(|_| sink()).for_each(|file| room.spares.put(file));
    let message = match input.int_in_range(0..=3)? {
        0 => {
            let bytes = input.bytes(input.len().min(200))?;
            let _ = homefs::invalidation::Invalidation::decode(bytes);
            let _ = homefs::offer::Offer::decode(bytes);
            postcard::from_bytes(bytes).map_err(|_| arbitrary::Error::IncorrectFormat)?
        }
        1 => {
            look(room, input)?;
            answer(input, next_number(room) - 1)?
        }
        _ => {
            let Some(pending) = pending(input, at)? else { return Ok(()) };
            let id = room.home.expect(pending);
            let call = Call { pointers: 0b1000, ..Call::new(libc::SYS_wait4, [0; 6]) };
            match input.int_in_range(0..=3)? {
                0 => room.ledger.asked(id, GUEST.pid, &call, || (1, 1)),
                1 => room.ledger.asked(id, GUEST.pid, &Call::new(libc::SYS_times, [0; 6]), || (1, 1)),
                2 => room.devices.asked(id, libc::SYS_fstat as u32),
                _ => {}
            }
            answer(input, id.0)?
        }
    };
    // These make connections, and threads of their own.
    let is_apart = |order: &onward::Order| matches!(order, onward::Order::Connect(_) | onward::Order::Advance { .. });
    if matches!(&message, ToRoom::Onward { order, .. } if is_apart(order)) {
        return Ok(());
    }
    home::obey(room, message);
    while let Some(written) = room.home.memory.take_now() {
        if let Some(result) = follow_up::apply(room, written.id, written.result, &written.out) {
            home::finish(room, written.id, result, &[]);
        }
    }
    Ok(())
}

/// The number that the next question gets.
fn next_number(room: &Shared) -> u64 {
    let id = room.home.expect(Pending::Unasked);
    drop(room.home.expected(id));
    id.0
}

/// Frames of pages, put where they say in a guest's memory.
///
/// # Panics
/// They were put elsewhere.
pub fn page_frames(input: &[u8]) {
    let _ = (
        room_protocol::packed::read(input),
        room_protocol::page_frames::part(input),
        room_protocol::page_frames::process(input),
    );
    let _ = (room_protocol::page_frames::later(input), room_protocol::page_frames::advance(input));
    let Ok(memory) = Memory::of(host().0) else { return };
    with_memory(|at| {
        let private = image::Area::anonymous(at, at + OWN as u64 / 2, 3);
        let shared = (at + OWN as u64 / 2, OWN as u64 / 2);
        let put = |runs: &[checkpoint::Run], bytes: &[u8]| {
            let _ = checkpoint::fuzz::put(&moved(runs, at), bytes, &[private], shared, &memory);
        };
        if let Some(pages) = room_protocol::page_frames::pages(input) {
            put(&pages.runs, pages.bytes);
        }
        if let Some((pages, zeros)) = room_protocol::page_frames::pushed(input) {
            put(&pages.runs, pages.bytes);
            let _ = checkpoint::lie_within(&zeros, &[private]);
        }
        // Such frames are seldom met by chance.
        let mut input = Unstructured::new(input);
        let _ = frame(&mut input).map(|(runs, bytes)| {
            let body = [room_protocol::page_frames::pages_head(GUEST.pid, &runs), bytes].concat();
            room_protocol::page_frames::pages(&body).into_iter().for_each(|pages| put(&pages.runs, pages.bytes));
        });
    });
}

/// The guest's memory begins where the input cannot know: small addresses mean places in it.
fn moved(runs: &[checkpoint::Run], at: u64) -> Vec<checkpoint::Run> {
    let is_near = |run: &checkpoint::Run| run.0 < 1 << 20;
    runs.iter()
        .map(|run| if is_near(run) { (at.wrapping_add(run.0).wrapping_sub(8192), run.1) } else { *run })
        .collect()
}

fn frame(input: &mut Unstructured<'_>) -> arbitrary::Result<(Vec<checkpoint::Run>, Vec<u8>)> {
    const PIECE: u64 = room_protocol::page_frames::PIECE_BYTES as u64;
    let mut runs = Vec::new();
    for _ in 0..input.int_in_range(1..=4)? {
        let place = u64::from(input.arbitrary::<u8>()?) * PIECE;
        let at = match input.int_in_range(0..=3)? {
            0 => 1 << 63 | place,
            1 => input.arbitrary::<u64>()? / PIECE * PIECE,
            _ => place,
        };
        runs.push((at, PIECE * input.int_in_range(1..=8)?));
    }
    let bytes = runs.iter().map(|run| run.1 as usize).sum();
    Ok((runs, vec![1; bytes]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.max(500)))]

        #[test]
        fn no_home_writes_where_no_call_wants_it(input in proptest::collection::vec(any::<u8>(), 0..800)) {
            warden_home(&input);
        }

        #[test]
        fn no_page_lies_elsewhere(input in proptest::collection::vec(any::<u8>(), 0..400)) {
            page_frames(&input);
        }
    }
}
