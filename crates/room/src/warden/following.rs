//! Bodies that run here, and whose pages follow. A thread of its own, which waits for nobody: whoever touches a page that is not here yet waits for it, and that may be the
//! tracer, for which the thread of [`crate::warden::cargo`] waits.

use super::cargo::Item;
use super::shared::Shared;
use super::tracer::Order;
use body::{BodyError, Pager};
use os::userfault::Userfault;
use std::collections::HashMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use strategy::{Range, Ranges};
use wire::ToHome;

/// What happens to them.
pub enum Followed {
    /// One is about to run.
    Begins {
        /// It.
        pid: i32,
        /// Who sends them.
        loan: u32,
        /// Brings its pages.
        pager: Arc<Pager>,
    },
    /// The body of a frame of pages.
    Pushed(Vec<u8>),
    /// The body of a frame of runs that do not follow after all.
    Vacant(Vec<u8>),
    /// A process has ended: perhaps nobody misses pages any more.
    Ended,
    /// Nothing of this process is missing any more.
    Complete {
        /// It.
        pid: i32,
        /// Who has sent them.
        loan: u32,
    },
    /// What is missing of this process will not come.
    Broken {
        /// It.
        pid: i32,
        /// In words.
        why: String,
    },
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
    let mut pagers: HashMap<i32, (u32, Arc<Pager>)> = HashMap::new();
    for followed in from {
        match followed {
            Followed::Begins { pid, loan, pager } => {
                // A body of this number was called off: home has another for it.
                if let Some((_, old)) = pagers.insert(pid, (loan, pager)) {
                    old.retire();
                }
            }
            Followed::Pushed(body) => {
                let Some((pages, zeros)) = wire::cargo::pushed(&body) else { continue };
                if let Some((_, pager)) = pagers.get(&pages.pid) {
                    pager.put_zeros(&zeros);
                    pager.put(&pages.runs, pages.bytes);
                }
                room.tell(&ToHome::Filled { pid: pages.pid });
            }
            Followed::Vacant(body) => {
                let Some((pid, runs)) = wire::cargo::later(&body) else { continue };
                if let Some((_, pager)) = pagers.get(&pid) {
                    pager.vacate(&runs);
                }
            }
            Followed::Ended => pagers.values().for_each(|(_, pager)| pager.look_again()),
            Followed::Complete { pid, loan } => {
                if pagers.get(&pid).is_some_and(|(current, _)| *current == loan) {
                    pagers.remove(&pid);
                }
            }
            Followed::Broken { pid, why } => {
                if let Some((_, pager)) = pagers.get(&pid) {
                    pager.fail(&why);
                }
            }
        }
    }
}

/// The body runs meanwhile; it may have ended.
fn make_huge(room: &Shared, pid: i32, wanted: &[Range]) {
    let host = room.guests().host(pid);
    if let Some(Err(e)) = host.map(|host| body::make_huge(host.0, wanted)) {
        tracing::debug!("process {pid}: {e}");
    }
}

/// Has the pages of a body brought that are not here yet. `loan`: who sends them; `huge`: of these, what shall be huge pages.
pub fn start(
    room: &Arc<Shared>,
    pid: i32,
    loan: u32,
    memory: Userfault,
    later: Ranges,
    huge: Vec<Range>,
) -> Result<Arc<Pager>, BodyError> {
    let (asking, ending) = (room.clone(), room.clone());
    let want = move |range| asking.tell(&ToHome::Fetch { pid, ranges: vec![range] });
    let ended = move |result: Result<(), String>| {
        match result {
            Ok(()) => {
                ending.tell(&ToHome::Enough { pid, loan });
                make_huge(&ending, pid, &huge);
            }
            Err(why) => {
                tracing::error!("the memory of process {pid} does not come: {why}: it is killed");
                ending.orders.give(Order::Kill { pid });
                ending.cargo.give(Item::Forget { pid });
            }
        }
        ending.following.give(Followed::Complete { pid, loan });
    };
    Pager::start(memory, later, want, ended)
}
