//! A steward that believes neither its deputies nor the room: for fuzz targets and tests.
//!
//! The deputy is a process of its own that does not run the blob; a bystander must survive whatever
//! the deputy says.

use crate::agent::event_loop::EventLoop;
use crate::deputy::channel;
use crate::deputy::proof::DeputyProof;
use crate::deputy::record::{Deputy, Phase};
use crate::deputy::stops::Stops;
use crate::deputy::watchdog::Watchdog;
use crate::proxy::{from_room, image_frames};
use crate::room::args::StewardArgs;
use crate::room::poller::Poller;
use crate::room::state::Room;
use arbitrary::Unstructured;
use control_protocol::steward::RoomKind;
use os::pidfd::PidFd;
use os::process_identity::ProcessIdentity;
use room_protocol::ToHome;
use room_protocol::message::{Birth, Call, CallId, Program, StandinId};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

/// What one input may do: the packets of the steward's own fit its sockets.
const STEPS_MAX: usize = 64;
/// More than this no sequence of them makes the steward remember.
const SIGNALS_MAX: usize = 4096;

/// A process that only waits: for the end of this one, too.
struct Sleeper(Child);

impl Sleeper {
    fn start() -> std::io::Result<Sleeper> {
        Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().map(Sleeper)
    }

    fn pid(&self) -> i32 {
        self.0.id() as i32
    }

    fn lives(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A room with one deputy, and one process that has nothing to do with it.
struct Home {
    room: Arc<Room>,
    steward: EventLoop,
    deputy: i32,
    /// The deputy's and the heir's ends.
    _ends: [OwnedFd; 2],
}

impl Home {
    fn with(deputy: &Sleeper) -> os::Result<Home> {
        let (ours, heirs) = os::socket::pair()?;
        let (channel, theirs) = os::socket::pair()?;
        let (run_dir, state) = ("/".into(), "/".into());
        let (room, host) = ("0".repeat(32), "n2".into());
        let (kind, owner, lost_after_ms) = (RoomKind::Home, 0, 15_000);
        let args = StewardArgs { room, host, address: None, owner, lost_after_ms, kind, run_dir, state };
        let room = Arc::new(Room::new(args, Poller::new()?, Watchdog::at(ours)));
        let pid = deputy.pid();
        let proof = DeputyProof::of_coming(ProcessIdentity::of(pid)?);
        let program = Program { path: Vec::new(), argv: Vec::new(), envp: Vec::new() };
        let mut deputy = Deputy::new(PidFd::open(pid)?, proof, program, channel);
        deputy.phase = Phase::Away;
        deputy.standins.insert(StandinId(1), vec![0]);
        deputy.threads.values_mut().for_each(|thread| thread.ready());
        room.adopt(pid, deputy)?;
        let steward = EventLoop { room: room.clone(), buffer: Vec::new(), stops: Stops::new() };
        Ok(Home { steward, room, deputy: pid, _ends: [theirs, heirs] })
    }

    /// The poller's thread does what others have left to it.
    fn obey_orders(&mut self) {
        while let Some(order) = self.room.poller.next_order() {
            self.steward.obey(order);
        }
    }

    /// Gives the deputy a job, so that its reply has something to answer.
    fn ask(&self, input: &mut Unstructured<'_>, number: u64) -> arbitrary::Result<ToHome> {
        let (id, pid) = (CallId(number), self.deputy);
        Ok(match input.int_in_range(0..=6)? {
            0 => ToHome::Birth { id, pid, tid: pid, birth: Birth::Thread },
            1 => ToHome::Birth { id, pid, tid: pid, birth: Birth::Process },
            2 => ToHome::Stops { pid, tid: pid, signal: libc::SIGTSTP, continued: 0 },
            3 => ToHome::Cancel { id: CallId(number.saturating_sub(1)) },
            4 => ToHome::Ignores { pid, tid: pid, ignored: input.arbitrary()?, child_flags: 0 },
            5 => ToHome::Unborn { pid, number: input.arbitrary()? },
            _ => {
                let nr = *input.choose(&[libc::SYS_read, libc::SYS_setuid, libc::SYS_wait4, libc::SYS_accept])?;
                let standin = Some(StandinId(1));
                ToHome::Call { id, pid, tid: pid, call: Call { standin, ..Call::new(nr, [0; 6]) } }
            }
        })
    }

    /// A packet of the deputy: any bytes, or a proper head with any content.
    fn packet(&self, input: &mut Unstructured<'_>, bystander: i32) -> arbitrary::Result<Vec<u8>> {
        if input.ratio(1, 8)? {
            return Ok(input.arbitrary::<&[u8]>()?.to_vec());
        }
        let kind = *input.choose(&[abi::REPLY, abi::REPLY, abi::REPLY, abi::READY, abi::SIGNAL])?;
        let channel = i64::from(input.arbitrary::<u8>()?) << 32;
        let result = match input.int_in_range(0..=6)? {
            0 => i64::from(bystander) | channel,
            1 => i64::from(self.deputy) | channel,
            2 => i64::from(std::process::id()),
            3 => abi::NOT_EXECUTED,
            4 => -i64::from(libc::EINTR),
            5 => i64::from(input.arbitrary::<i8>()?),
            _ => input.arbitrary()?,
        };
        let mut data = vec![0; if kind == abi::SIGNAL { 128 } else { usize::from(input.arbitrary::<u8>()?) }];
        let given = input.bytes(data.len().min(input.len()).min(24))?;
        data[..given.len()].copy_from_slice(given);
        let head = [kind.to_le_bytes(), (data.len() as u32).to_le_bytes()].concat();
        Ok([&head[..], &result.to_le_bytes(), &data].concat())
    }
}

/// Two processes that wait, made anew when one has been killed.
static PROCESSES: Mutex<Option<(Sleeper, Sleeper)>> = Mutex::new(None);

fn with_processes(work: impl FnOnce(&Sleeper, &mut Sleeper)) {
    let mut both = PROCESSES.lock().unwrap_or_else(PoisonError::into_inner);
    let usable = both.as_mut().is_some_and(|(deputy, bystander)| deputy.lives() && bystander.lives());
    if !usable {
        *both = Sleeper::start().and_then(|deputy| Ok((deputy, Sleeper::start()?))).ok();
    }
    if let Some((deputy, bystander)) = both.as_mut() {
        work(deputy, bystander);
    }
}

/// A hostile deputy's packets, between what the room asks of it.
///
/// # Panics
/// The steward acted on a process that is none of the deputy's, or remembers without bound.
pub fn steward_deputy(input: &[u8]) {
    with_processes(|deputy, bystander| {
        let Ok(mut home) = Home::with(deputy) else { return };
        let mut input = Unstructured::new(input);
        let mut number = 0;
        while !input.is_empty() && number < STEPS_MAX as u64 {
            number += 1;
            let done = step(&mut home, &mut input, number, bystander.pid());
            if done.is_err() {
                break;
            }
        }
        let table = home.room.table();
        assert!(!table.deputies.contains_key(&bystander.pid()), "a bystander was adopted");
        assert!(table.deputies.values().all(|d| d.unborn.len() <= SIGNALS_MAX));
        drop(table);
        assert!(bystander.lives(), "a bystander was killed");
    });
}

fn step(home: &mut Home, input: &mut Unstructured<'_>, number: u64, bystander: i32) -> arbitrary::Result<()> {
    if input.ratio(1, 3)? {
        let _ = from_room::obey(&home.room, home.ask(input, number)?);
        home.obey_orders();
    } else if let Some(said) = channel::said(&home.packet(input, bystander)?) {
        let pid = home.deputy;
        home.steward.said(pid, pid, said);
    }
    Ok(())
}

/// A hostile room's messages and frames, one behind the other: a byte for its kind, then what that
/// kind has.
///
/// # Panics
/// The steward acted on a process that is none of the room's.
pub fn home_warden(input: &[u8]) {
    with_processes(|deputy, bystander| {
        let Ok(home) = Home::with(deputy) else { return };
        let mut rest = input;
        for _ in 0..STEPS_MAX {
            let Some((kind, behind)) = rest.split_first() else { break };
            rest = behind;
            match kind % 4 {
                0 => rest = frame(&home.room, rest),
                // The deputy's number is not the input's to know.
                1 => {
                    let mut input = Unstructured::new(rest);
                    let Ok(asked) = home.ask(&mut input, 1) else { break };
                    let _ = from_room::obey(&home.room, asked);
                    rest = input.take_rest();
                }
                _ => {
                    let Ok((message, behind)) = postcard::take_from_bytes::<ToHome>(rest) else { break };
                    rest = behind;
                    if from_room::obey(&home.room, message).is_err() {
                        break;
                    }
                }
            }
        }
        assert!(!home.room.table().deputies.contains_key(&bystander.pid()), "a bystander was adopted");
        assert!(bystander.lives(), "a bystander was killed");
    });
}

/// A frame: a byte for its kind, a byte for its length.
fn frame<'a>(room: &Room, input: &'a [u8]) -> &'a [u8] {
    let Some(([kind, bytes], rest)) = input.split_first_chunk::<2>().map(|(head, rest)| (*head, rest)) else {
        return &[];
    };
    let (body, rest) = rest.split_at(usize::from(bytes).min(rest.len()));
    let wire_bytes = body.len() as u32;
    match kind % 8 {
        0 => image_frames::image_part(room, body),
        1 => image_frames::image_pages(room, body.to_vec().into(), wire_bytes),
        2 => image_frames::pages_stocked(room, body),
        3 => image_frames::pages_dense(room, body),
        4 => image_frames::pages_advance(room, body.to_vec().into(), wire_bytes),
        5 => image_frames::pages_later(room, body),
        6 => image_frames::pages_vacant(room, body),
        _ => image_frames::pages_pushed(room, body, wire_bytes),
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.max(300)))]

        #[test]
        fn no_deputy_leads_its_steward_to_others(input in proptest::collection::vec(any::<u8>(), 0..600)) {
            steward_deputy(&input);
        }

        #[test]
        fn no_room_leads_a_steward_to_others(input in proptest::collection::vec(any::<u8>(), 0..600)) {
            home_warden(&input);
        }
    }
}
