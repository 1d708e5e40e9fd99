//! Bodies that run here, and whose pages follow. A thread of its own, which waits for nobody:
//! whoever touches a page that is not here yet waits for it, and that may be the tracer, for which
//! the thread of [`crate::supervisor::transfer::receiver`] waits.

use crate::state::orders::Order;
use crate::state::shared::Shared;
use crate::state::transfer::incoming_queue::IncomingItem;
use crate::state::transfer::page_source::{Loan, Source};
use crate::state::transfer::postcopy_queue::PostcopyEvent;
use checkpoint::{BodyError, Pager};
use migration_plan::{Range, Ranges};
use os::pidfd::PidFd;
use os::userfault::Userfault;
use room_protocol::ToHome;
use room_protocol::message::onward::{Said, Wanted};
use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

/// Serves for ever.
pub fn serve(room: &Shared) {
    let Some(from) = room.postcopy.from.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
    let mut pagers: HashMap<i32, (u32, Source, Arc<Pager>)> = HashMap::new();
    let of = |pagers: &HashMap<i32, (u32, Source, Arc<Pager>)>, pid: i32, from: &Source| {
        pagers.get(&pid).filter(|(_, source, _)| source == from).map(|(_, _, pager)| pager.clone())
    };
    for followed in from {
        let pid = followed.process();
        let done = room.contain(pid, || match followed {
            PostcopyEvent::Begins { pid, loan, source, pager } => {
                // A body of this number was called off: home has another for it.
                if let Some((_, _, old)) = pagers.insert(pid, (loan, source, pager)) {
                    old.retire();
                }
            }
            PostcopyEvent::Pushed { body, source } => {
                let Some((pages, zeros)) = room_protocol::page_frames::pushed(&body) else { return };
                if let Some(pager) = of(&pagers, pages.pid, &source) {
                    pager.put_zeros(&zeros);
                    pager.put(&pages.runs, pages.bytes);
                }
                source.tell(&room.home, ToHome::Filled { pid: pages.pid }, &Wanted::Filled);
            }
            PostcopyEvent::Vacant { body, source } => {
                let Some((pid, runs)) = room_protocol::page_frames::later(&body) else { return };
                if let Some(pager) = of(&pagers, pid, &source) {
                    pager.vacate(&runs);
                }
            }
            PostcopyEvent::Ended => pagers.retain(|_, (_, _, pager)| pager.look_again()),
            PostcopyEvent::Complete { pid, loan } => {
                if pagers.get(&pid).is_some_and(|(current, _, _)| *current == loan) {
                    pagers.remove(&pid);
                }
            }
            PostcopyEvent::Broken { pid, source, why } => {
                if let Some(pager) = of(&pagers, pid, &source) {
                    pager.fail(&why);
                }
            }
        });
        if done.is_none() {
            pid.into_iter().for_each(|pid| drop(pagers.remove(&pid)));
        }
    }
}

/// Makes these ranges huge pages. The body runs meanwhile, and may have ended.
fn make_huge(room: &Shared, pid: i32, wanted: &[Range]) {
    let host = room.guests().host(pid);
    if let Some(Err(e)) = host.map(|host| checkpoint::make_huge(host.0, wanted)) {
        tracing::debug!("process {pid}: {e}");
    }
}

/// The pages of a body that are not here yet.
pub struct MissingPages {
    /// Tells which of them the body touches.
    pub memory: Userfault,
    /// The ranges that they lie in.
    pub later: Ranges,
    /// The ranges that become huge pages when all is here.
    pub huge: Vec<Range>,
}

/// Has the missing pages of a body brought by the source of this loan.
pub fn start(room: &Arc<Shared>, pid: i32, loan: Loan, missing: MissingPages) -> Result<Arc<Pager>, BodyError> {
    let Loan { number, source } = loan;
    let MissingPages { memory, later, huge } = missing;
    let (asking, ending, asked) = (room.clone(), room.clone(), source.clone());
    let body = room.guests().host(pid).ok_or(BodyError::Exited)?;
    let body = PidFd::open(body.0)?;
    let want = move |range| {
        let ranges = vec![range];
        asked.tell(&asking.home, ToHome::Fetch { pid, ranges: ranges.clone() }, &Wanted::Fetch(ranges));
    };
    let ended = move |result: Result<(), String>| {
        if source != Source::Home {
            ending.tell(&ToHome::Onward { pid, said: Said::Complete { loan: number, result: result.clone() } });
        }
        match result {
            Ok(()) => {
                source.tell(&ending.home, ToHome::Enough { pid, loan: number }, &Wanted::Enough);
                make_huge(&ending, pid, &huge);
                ending.postcopy.give(PostcopyEvent::Complete { pid, loan: number });
            }
            // Its ranges stay watched until all processes that miss pages have ended.
            Err(why) => {
                tracing::error!("the memory of process {pid} does not come: {why}: it is killed");
                // The tracer may wait for it, in the middle of a call that touches such a page.
                drop(body.kill(libc::SIGKILL));
                ending.orders.give(Order::Kill { pid });
                ending.incoming.give(IncomingItem::Forget { pid });
            }
        }
    };
    Pager::start(memory, later, want, ended)
}
