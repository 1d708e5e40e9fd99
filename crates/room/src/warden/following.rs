//! Bodies that run here, and whose pages follow. A thread of its own, which waits for nobody:
//! whoever touches a page that is not here yet waits for it, and that may be the tracer, for which
//! the thread of [`crate::warden::receiver`] waits.

use super::receiver::Item;
use super::shared::Shared;
use super::tracer::orders::Order;
use checkpoint::{BodyError, Pager};
use link::{Body, Sender as Link};
use migration_plan::{Range, Ranges};
use os::pidfd::PidFd;
use os::userfault::Userfault;
use room_protocol::message::onward::{Said, Wanted};
use room_protocol::{Kind, ToHome};
use std::collections::HashMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Who has the pages.
#[derive(Clone)]
pub enum Source {
    /// The pages come from home.
    Home,
    /// Another room, at the other end of this.
    Room(Arc<Link>),
}

impl PartialEq for Source {
    fn eq(&self, other: &Source) -> bool {
        match (self, other) {
            (Source::Home, Source::Home) => true,
            (Source::Room(one), Source::Room(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if matches!(self, Source::Home) { "Home" } else { "Room" })
    }
}

impl Source {
    /// Tells home, or the other room.
    fn tell(&self, room: &Shared, to_home: ToHome, to_room: &Wanted) {
        match (self, postcard::to_stdvec(to_room)) {
            // Whoever reads from a way that fails sees it.
            (Source::Room(link), Ok(bytes)) => drop(link.send(Kind::Message, 0, 0, &[&bytes])),
            _ => room.tell(&to_home),
        }
    }
}

impl Source {
    /// Says that these pages are here from an earlier stay; whether they are the last.
    pub fn tell_stocked(&self, room: &Shared, pid: i32, pages: Vec<(u64, [u8; 16])>, last: bool) {
        match self {
            Source::Home if pages.is_empty() => {}
            Source::Home => room.tell(&ToHome::Stocked { pid, pages }),
            Source::Room(link) => {
                // Whoever reads from a way that fails sees it.
                let told = postcard::to_stdvec(&Wanted::Stocked { pages, last });
                let _ = told.map(|bytes| link.send(Kind::Message, 0, 0, &[&bytes]));
            }
        }
    }

    /// Says that all that it has sent of a process is in place.
    pub fn tell_in_place(&self) {
        if let (Source::Room(link), Ok(bytes)) = (self, postcard::to_stdvec(&Wanted::InPlace)) {
            // Whoever reads from a way that fails sees it.
            let _ = link.send(Kind::Message, 0, 0, &[&bytes]);
        }
    }
}

/// What happens to them.
pub enum Followed {
    /// One is about to run.
    Begins {
        /// PID of the process, at home.
        pid: i32,
        /// Who sends them.
        loan: u32,
        /// The source of the pages.
        source: Source,
        /// Brings its pages.
        pager: Arc<Pager>,
    },
    /// A frame of pages.
    Pushed {
        /// The body of the message.
        body: Body,
        /// Who sends it.
        source: Source,
    },
    /// A frame of runs that do not follow after all.
    Vacant {
        /// The body of the message.
        body: Vec<u8>,
        /// Who sends it.
        source: Source,
    },
    /// A process has ended: perhaps nobody misses pages any more.
    Ended,
    /// Nothing of this process is missing any more.
    Complete {
        /// PID of the process, at home.
        pid: i32,
        /// Who has sent them.
        loan: u32,
    },
    /// What is missing of this process will not come.
    Broken {
        /// PID of the process, at home.
        pid: i32,
        /// Who had it.
        source: Source,
        /// What happened, in words.
        why: String,
    },
}

impl Followed {
    /// The process that it is about.
    fn process(&self) -> Option<i32> {
        match self {
            Followed::Begins { pid, .. } | Followed::Complete { pid, .. } | Followed::Broken { pid, .. } => Some(*pid),
            Followed::Pushed { body, .. } => room_protocol::page_frames::process(body),
            Followed::Vacant { body, .. } => room_protocol::page_frames::process(body),
            Followed::Ended => None,
        }
    }
}

/// The way to the thread.
pub struct Following {
    to: Sender<Followed>,
    from: Mutex<Option<Receiver<Followed>>>,
}

impl Default for Following {
    fn default() -> Following {
        let (to, from) = channel();
        Following { to, from: Mutex::new(Some(from)) }
    }
}

impl Following {
    /// Puts one at the end.
    pub fn give(&self, followed: Followed) {
        // The thread ends with the room.
        let _ = self.to.send(followed);
    }
}

/// Serves for ever.
pub fn serve(room: &Shared) {
    let Some(from) = room.following.from.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
    let mut pagers: HashMap<i32, (u32, Source, Arc<Pager>)> = HashMap::new();
    let of = |pagers: &HashMap<i32, (u32, Source, Arc<Pager>)>, pid: i32, from: &Source| {
        pagers.get(&pid).filter(|(_, source, _)| source == from).map(|(_, _, pager)| pager.clone())
    };
    for followed in from {
        let pid = followed.process();
        let done = room.contain(pid, || match followed {
            Followed::Begins { pid, loan, source, pager } => {
                // A body of this number was called off: home has another for it.
                if let Some((_, _, old)) = pagers.insert(pid, (loan, source, pager)) {
                    old.retire();
                }
            }
            Followed::Pushed { body, source } => {
                let Some((pages, zeros)) = room_protocol::page_frames::pushed(&body) else { return };
                if let Some(pager) = of(&pagers, pages.pid, &source) {
                    pager.put_zeros(&zeros);
                    pager.put(&pages.runs, pages.bytes);
                }
                source.tell(room, ToHome::Filled { pid: pages.pid }, &Wanted::Filled);
            }
            Followed::Vacant { body, source } => {
                let Some((pid, runs)) = room_protocol::page_frames::later(&body) else { return };
                if let Some(pager) = of(&pagers, pid, &source) {
                    pager.vacate(&runs);
                }
            }
            Followed::Ended => pagers.retain(|_, (_, _, pager)| pager.look_again()),
            Followed::Complete { pid, loan } => {
                if pagers.get(&pid).is_some_and(|(current, _, _)| *current == loan) {
                    pagers.remove(&pid);
                }
            }
            Followed::Broken { pid, source, why } => {
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

/// The body runs meanwhile; it may have ended.
fn make_huge(room: &Shared, pid: i32, wanted: &[Range]) {
    let host = room.guests().host(pid);
    if let Some(Err(e)) = host.map(|host| checkpoint::make_huge(host.0, wanted)) {
        tracing::debug!("process {pid}: {e}");
    }
}

/// Has the pages of a body brought that are not here yet. `huge`: of these, what shall be huge
/// pages.
pub fn start(
    room: &Arc<Shared>,
    pid: i32,
    (loan, source): (u32, Source),
    memory: Userfault,
    (later, huge): (Ranges, Vec<Range>),
) -> Result<Arc<Pager>, BodyError> {
    let (asking, ending, asked) = (room.clone(), room.clone(), source.clone());
    let body = room.guests().host(pid).ok_or(BodyError::Gone)?;
    let body = PidFd::open(body.0)?;
    let want = move |range| {
        let ranges = vec![range];
        asked.tell(&asking, ToHome::Fetch { pid, ranges: ranges.clone() }, &Wanted::Fetch(ranges));
    };
    let ended = move |result: Result<(), String>| {
        if source != Source::Home {
            ending.tell(&ToHome::Onward { pid, said: Said::Complete { loan, result: result.clone() } });
        }
        match result {
            Ok(()) => {
                source.tell(&ending, ToHome::Enough { pid, loan }, &Wanted::Enough);
                make_huge(&ending, pid, &huge);
                ending.following.give(Followed::Complete { pid, loan });
            }
            // What it watches stays watched until all who miss pages have ended.
            Err(why) => {
                tracing::error!("the memory of process {pid} does not come: {why}: it is killed");
                // The tracer may wait for it, in the middle of a call that touches such a page.
                drop(body.kill(libc::SIGKILL));
                ending.orders.give(Order::Kill { pid });
                ending.cargo.give(Item::Forget { pid });
            }
        }
    };
    Pager::start(memory, later, want, ended)
}
