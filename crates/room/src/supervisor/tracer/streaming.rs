//! Stand-ins that become streams, and streams that become stand-ins again: all who have one stand
//! still, and get the other in its place ([`crate::supervisor::tracer::sharing`]).

use crate::state::orders::Order;
use crate::state::streams::NewStream;
use crate::supervisor::sharers::common_files::{CommonFileKind, CommonOpenFile};
use crate::supervisor::tracer::Tracer;
use crate::supervisor::tracer::state::departing::{Departure, Takeover};
use crate::supervisor::tracer::state::passing::Passing;
use os::pidfd::PidFd;
use os::process;
use room_protocol::message::StandinId;
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// How long a stream that could not become a stand-in waits for the next try.
const NEXT_TRY: Duration = Duration::from_millis(5);

/// So much the kernel takes whole or not at all (`PIPE_BUF`; also of sockets, in one message).
const SENT_WHOLE_BYTES: u64 = 4096;

/// A guest that has a file, and the numbers of its descriptors.
struct Holder {
    pid: i32,
    fds: BTreeSet<i32>,
}

impl Tracer {
    /// Begins to make a stream of a stand-in.
    pub fn stream(&mut self, standin: StandinId) {
        let found = self.holder(standin, |room, mount, inode| room.standins.standin(mount, inode));
        match found {
            Some(Holder { pid, .. }) if self.may_exchange(pid) && !self.is_sending_much(pid) => {
                let passing = Passing::Stream(standin);
                self.stop_for(pid, Departure::passing(self.slept(pid), pid, passing));
                self.check_leaving(pid);
            }
            Some(_) => self.not_streamed(standin, "its process comes, goes, is stopped or sends much"),
            // The process has closed the stream.
            None => {}
        }
    }

    /// Begins to make a stand-in of a stream again.
    pub fn unstream(&mut self, standin: StandinId) {
        let found = self.holder(standin, |room, mount, inode| room.stream(mount, inode));
        match found {
            Some(Holder { pid, fds }) if self.may_exchange(pid) => {
                let passing = Passing::Standin { standin, fds };
                self.stop_for(pid, Departure::passing(self.slept(pid), pid, passing));
                self.check_leaving(pid);
            }
            Some(_) => self.unstream_later(standin, "its process comes, goes or is stopped"),
            None => self.close_unheld(standin),
        }
    }

    /// Closes a stream that no guest has; of two that are joined the other one may have holders.
    fn close_unheld(&mut self, standin: StandinId) {
        let streams = &self.room.home.streams;
        match streams.partner(standin) {
            None => streams.close(standin),
            Some(partner) if self.holder(partner, |room, mount, inode| room.stream(mount, inode)).is_some() => {
                self.unstream(partner);
            }
            Some(partner) => streams.end_joined([(standin, None), (partner, None)]),
        }
    }

    /// A thread is in a call that sends so much that it may have sent a part, or is one of several
    /// and may be in such a call. When the thread is stopped, its call returns that part, which is
    /// less than a blocking socket takes.
    fn is_sending_much(&self, pid: i32) -> bool {
        let threads = self.room.guests().threads_of(pid);
        let are_several = threads.len() > 1;
        threads.into_iter().any(|(host, _)| {
            let line = std::fs::read_to_string(format!("/proc/{}/syscall", host.0)).unwrap_or_default();
            os::waiting::Call::read(&line).map_or(are_several, |call| match call.number {
                libc::SYS_write | libc::SYS_sendto => call.args[2] > SENT_WHOLE_BYTES,
                libc::SYS_writev | libc::SYS_sendmsg | libc::SYS_sendmmsg => true,
                libc::SYS_recvfrom => call.args[3] & libc::MSG_WAITALL as u64 != 0,
                libc::SYS_recvmsg => call.args[2] & libc::MSG_WAITALL as u64 != 0,
                _ => false,
            })
        })
    }

    fn may_exchange(&self, pid: i32) -> bool {
        !self.departing.states.contains_key(&pid) && self.bodies.is_running(pid) && !self.stops.is_stopped(pid)
    }

    /// A guest that has this stand-in, or this stream.
    fn holder(
        &self,
        standin: StandinId,
        kept: impl Fn(&crate::state::shared::Shared, u64, u64) -> Option<StandinId>,
    ) -> Option<Holder> {
        let knows = {
            let guests = self.room.guests();
            let all = guests.pids().into_iter().filter_map(|pid| Some((pid, guests.host(pid)?)));
            all.collect::<Vec<_>>()
        };
        knows.into_iter().find_map(|(pid, host)| {
            let is_it = |fd: &i32| {
                let info = process::fd_info(host.0, *fd);
                info.is_ok_and(|info| kept(&self.room, info.mount_id, info.inode) == Some(standin))
            };
            let fds: BTreeSet<i32> =
                process::descriptors(host.0).unwrap_or_default().into_iter().filter(is_it).collect();
            (!fds.is_empty()).then_some(Holder { pid, fds })
        })
    }

    /// A stand-in did not become a stream.
    pub fn not_streamed(&self, standin: StandinId, why: &str) {
        tracing::debug!("stand-in {} does not become a stream now: {why}", standin.0);
        self.room.home.streams.count_again(standin);
    }

    /// A stream did not become a stand-in again, as it must.
    pub fn unstream_later(&self, standin: StandinId, why: &str) {
        tracing::debug!("stream {} cannot become a stand-in now: {why}", standin.0);
        let room = self.room.clone();
        let again = move || {
            std::thread::sleep(NEXT_TRY);
            if room.home.streams.file(standin).is_some() {
                room.orders.give(Order::Unstream { standin });
            }
        };
        if let Err(e) = std::thread::Builder::new().name("next-try".into()).spawn(again) {
            tracing::error!("starting a thread: {e}");
        }
    }

    /// Home has all that was written to the streams which are about to become stand-ins.
    pub fn end_streams(&self, asked: &Takeover) {
        let mut awaited = Vec::new();
        for (standin, _, held) in &asked.files {
            if !matches!(held.what, CommonFileKind::Stream(_)) {
                continue;
            }
            if let Some(partner) = self.room.home.streams.partner(*standin) {
                let others = asked.files.iter().find(|(other, ..)| *other == partner).map(|(_, _, held)| held);
                let ends = [(*standin, guests_end(held)), (partner, others.and_then(guests_end))];
                self.room.home.streams.end_joined(ends);
            } else {
                awaited.extend(self.room.home.streams.end(*standin, guests_end(held).as_ref()));
            }
            self.room.standins.readiness.forget(*standin);
            self.room.home.streams.count_again_if_asked(*standin);
        }
        if !awaited.is_empty() {
            self.room.home.streams.flush(&self.room.home.uplink);
            awaited.into_iter().for_each(|id| self.room.home.streams.await_closed(id));
        }
    }

    /// The guests have their ends of these.
    pub fn open_streams(&self, asked: &mut Takeover) {
        for (new, file) in asked.streams.drain(..) {
            let NewStream { standin, .. } = new;
            self.room.standins.readiness.forget(standin);
            self.room.home.streams.open(new, file);
        }
    }
}

/// The end of a stream that guests have.
fn guests_end(held: &CommonOpenFile) -> Option<OwnedFd> {
    let place = held.places.first()?;
    PidFd::open(place.host.0).and_then(|pidfd| pidfd.get_fd(place.fd)).ok()
}
