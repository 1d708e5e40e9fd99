//! What the steward's threads share.

use crate::deputy::record::{Deputy, Phase};
use crate::deputy::table::{DeputyTable, RoomState};
use crate::deputy::watchdog::Watchdog;
use crate::deputy::{channel, rights};
use crate::room::args::StewardArgs;
use crate::room::call_counts::CallInquiries;
use crate::room::history;
use crate::room::inquiry::Inquiry;
use crate::room::link::RoomLink;
use crate::room::poller::{Poller, Source};
use crate::room::sessions::Sessions;
use crate::room::suspension::Suspension;
use os::awake::Vigil;
use room_protocol::ToRoom;
use room_protocol::message::{CallId, Place};
use rustix::event::epoll::EventFlags;
use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// One room, seen from home.
pub struct Room {
    /// The room's name, the node that hosts it, and home's directories.
    pub args: StewardArgs,
    /// The link to the room, and the home's files that are served over it.
    pub link: RoomLink,
    /// Waits for channels and processes.
    pub poller: Poller,
    /// Ends deputies that the steward leaves behind.
    pub watchdog: Watchdog,
    /// Migration sessions under way.
    pub sessions: Sessions,
    /// Sources of pages that follow processes to the room.
    pub lenders: checkpoint::Lenders,
    /// Pages of processes that have left home, kept for their return.
    pub page_cache: checkpoint::PageCache,
    /// Memory for frames of pages.
    pub bodies: link::Bodies,
    pagers: Mutex<HashMap<i32, Arc<checkpoint::Pager>>>,
    /// Keeps processors awake while programs begin in the room.
    pub vigil: Vigil,
    /// Whether the room is suspended.
    pub suspension: Suspension,
    /// Questions about the calls that processes make in the room.
    pub call_inquiries: CallInquiries,
    /// The way to the thread that looks at /proc.
    pub inquiries: OnceLock<std::sync::mpsc::Sender<(CallId, Inquiry)>>,
    table: Mutex<DeputyTable>,
    reported: Condvar,
}

impl Room {
    /// Makes a room without deputies.
    pub fn new(args: StewardArgs, poller: Poller, watchdog: Watchdog) -> Room {
        Room {
            args,
            link: RoomLink::default(),
            poller,
            watchdog,
            sessions: Sessions::default(),
            lenders: checkpoint::Lenders::default(),
            page_cache: checkpoint::PageCache::of_machine(),
            bodies: link::Bodies::default(),
            pagers: Mutex::default(),
            vigil: Vigil::default(),
            suspension: Suspension::default(),
            call_inquiries: CallInquiries::default(),
            inquiries: OnceLock::new(),
            table: Mutex::default(),
            reported: Condvar::new(),
        }
    }

    /// Locks the table of deputies.
    pub fn table(&self) -> MutexGuard<'_, DeputyTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a deputy: the poller watches it, and the watchdog ends it with the steward.
    pub fn adopt(&self, pid: i32, deputy: Deputy) -> os::Result<()> {
        let pidfd = deputy.pidfd.clone();
        let generation = self.watchdog.generation();
        self.watchdog.entrust(pid, &pidfd);
        // What it says meanwhile is heard when it is there.
        let mut table = self.table();
        let deputy = table.deputies.entry(pid).insert_entry(deputy);
        for (tid, thread) in &deputy.get().threads {
            self.poller.add(thread.channel().as_fd(), Source::Channel { pid, tid: *tid }, EventFlags::IN)?;
        }
        self.poller.add(pidfd.as_fd(), Source::End { pid }, EventFlags::IN)?;
        drop(table);
        // One that replaced the heir meanwhile may not have seen it in the table.
        if self.watchdog.generation() != generation {
            self.watchdog.entrust(pid, &pidfd);
        }
        // Whether it is stopped is looked at from now on.
        self.poller.wake();
        Ok(())
    }

    /// Checks that process `pid` is still the deputy that it was.
    ///
    /// # Errors
    /// The process is not that deputy any more, or belongs to another room.
    pub fn check_deputy(&self, pid: i32) -> Result<(), checkpoint::BodyError> {
        let mut table = self.table();
        let deputy = table.deputies.get_mut(&pid).ok_or(checkpoint::BodyError::Exited)?;
        Ok(deputy.proof.check()?)
    }

    /// Makes calls in a deputy, as [`checkpoint::visit_at_length`] does in any process, once it
    /// stands still and is proven to be one.
    ///
    /// # Errors Those of the visit; or the process is no deputy any more.
    pub fn visit_deputy<T>(
        &self,
        pid: i32,
        work: impl FnOnce(&mut checkpoint::Inside) -> Result<T, checkpoint::BodyError>,
    ) -> Result<T, checkpoint::BodyError> {
        checkpoint::visit_at_length(pid, |inside| {
            self.check_deputy(pid)?;
            work(inside)
        })
    }

    /// Locks the pagers of processes that came home before their pages.
    pub fn pagers(&self) -> MutexGuard<'_, HashMap<i32, Arc<checkpoint::Pager>>> {
        self.pagers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells whether the room is gone.
    pub fn is_lost(&self) -> bool {
        matches!(self.table().room, RoomState::Lost(_))
    }

    /// Tells the room something ([`RoomLink::tell`]).
    pub fn tell(&self, message: &ToRoom) {
        self.link.tell(message);
    }

    /// Has something looked up in /proc.
    pub fn inquire(&self, id: CallId, inquiry: Inquiry) {
        if let Some(inquiries) = self.inquiries.get() {
            let _ = inquiries.send((id, inquiry));
        }
    }

    /// Lets an empty body open files with the rights of process `pid`.
    pub fn borrow_rights(&self, pid: i32) -> os::Result<()> {
        let rights = rights::credentials(pid)?;
        self.table().coming.insert(pid, rights);
        Ok(())
    }

    /// Ends what [`Room::borrow_rights`] began.
    pub fn return_rights(&self, pid: i32) {
        self.table().coming.remove(&pid);
    }

    /// Tells a room that stands to make the process of a body that will be placed.
    pub fn expect(&self, pid: i32) {
        let ready = self.table().room == RoomState::Ready;
        if ready {
            self.tell(&ToRoom::Expect { pid });
        }
    }

    /// Has the room make a body, now or when the room stands.
    pub fn place(&self, place: Place) {
        let mut table = self.table();
        match table.room.clone() {
            RoomState::Making => table.waiting.push(place),
            RoomState::Ready => {
                drop(table);
                self.tell_place(place);
            }
            RoomState::Lost(why) => {
                let words = format!("tern: cannot run on {}: {why}\n", self.args.host);
                if let Some(deputy) = table.deputies.get_mut(&place.pid) {
                    deputy.end(channel::order(abi::OP_EXIT, [125, 0], &[]), Some(&words));
                }
            }
        }
    }

    /// Tells the room of a process, and then of the signals that have come for it.
    fn tell_place(&self, place: Place) {
        let pid = place.pid;
        self.tell(&ToRoom::Place(Box::new(place)));
        let early =
            || self.table().deputies.get_mut(&pid).map(|deputy| deputy.early.take()).filter(|early| !early.is_empty());
        while let Some(early) = early() {
            early.into_iter().for_each(|(tid, info)| self.tell(&ToRoom::Signal { pid, tid, info: info.to_vec() }));
        }
    }

    /// Notes that the room stands, and places the bodies that waited for that.
    pub fn ready(&self) {
        os::fault::past("room");
        let waiting = {
            let mut table = self.table();
            table.room = RoomState::Ready;
            std::mem::take(&mut table.waiting)
        };
        waiting.into_iter().for_each(|place| self.tell_place(place));
    }

    /// Notes that the room is gone, or could not be made. Every deputy ends: as if killed if its
    /// program ran.
    pub fn lost(&self, why: &str) {
        // Another node may have said it, and terminals obey what is no text.
        let why: &str = &why.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>();
        let mut table = self.table();
        if matches!(table.room, RoomState::Lost(_)) {
            return;
        }
        table.room = RoomState::Lost(why.to_owned());
        table.waiting.clear();
        self.sessions.end();
        self.lenders.stop();
        let ends: Vec<(i32, bool)> = table
            .deputies
            .iter()
            .filter(|(_, deputy)| deputy.phase != Phase::Ending)
            .map(|(pid, deputy)| (*pid, deputy.phase == Phase::Away))
            .collect();
        drop(table);
        ends.into_iter().for_each(|(pid, ran)| self.end_with_room(pid, ran, why));
        self.poller.wake();
    }

    /// Ends a deputy whose room is gone: as if killed, if its program `ran`.
    fn end_with_room(&self, pid: i32, ran: bool, why: &str) {
        // Before it ends: who waits for it looks there.
        history::note_lost(&self.args.run_dir, pid, &self.args.host);
        let host = &self.args.host;
        let (packet, words) = match ran {
            true => (
                channel::order(abi::OP_DIE, [libc::SIGKILL as u64, 0], &[]),
                format!("tern: process {pid} ran on {host}, which is lost ({why}): it ends as if killed\n"),
            ),
            false => (channel::order(abi::OP_EXIT, [125, 0], &[]), format!("tern: cannot run on {host}: {why}\n")),
        };
        // Its body may have ended before the room, and its standard error with it.
        let words = Some(words).filter(|words| !self.say_to_the_last(pid, words));
        if let Some(deputy) = self.table().deputies.get_mut(&pid) {
            deputy.end(packet, words.as_deref());
        }
    }

    /// Wakes those that wait for a report of usage.
    pub fn reported(&self) {
        self.table().reports += 1;
        self.reported.notify_all();
    }

    /// Asks the room what the bodies use, if there are any ([`Room::ask_usage`]).
    pub fn refresh_usage(&self) {
        if !self.table().deputies.is_empty() {
            self.ask_usage();
        }
    }

    /// Asks the room what the bodies use and have used, and waits for the answer a moment: an old
    /// answer is better than none.
    pub fn ask_usage(&self) {
        const PATIENCE: Duration = Duration::from_millis(500);
        let before = self.table().reports;
        if self.table().room != RoomState::Ready {
            return;
        }
        self.tell(&ToRoom::Report);
        let table = self.table();
        drop(self.reported.wait_timeout_while(table, PATIENCE, |t| t.reports == before));
    }
}
