//! Copies of the calling process on many nodes.

use control_protocol::moves::Sibling;
use control_protocol::nodes::HOME;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::errors::Outcome;
use crate::moving;
use crate::spawn::{Coming, Forked, fork};
use crate::tree::{Source, Tree};

/// The memory of a process from which on its copies come from each other, KiB.
const WAVES_FROM_KIB: u64 = 1024;

/// The process that returns from [`to_all`].
pub enum Copied {
    /// A copy, with its rank.
    Copy(usize),
    /// The caller: the PIDs of the copies by rank, or why there is none.
    Caller(Vec<Outcome<i32>>),
}

/// A copy that is under way.
struct UnderWay {
    rank: usize,
    source: Source,
    child: Coming,
}

/// Makes a copy of the calling process on each of these nodes. A copy whose source does not lend
/// its memory gets it from home.
pub fn to_all(nodes: &[String]) -> Copied {
    let mut tree = Tree::new(anonymous_kib() >= WAVES_FROM_KIB);
    let mut pids: Vec<Outcome<i32>> = Vec::with_capacity(nodes.len());
    let mut coming: Vec<UnderWay> = Vec::new();
    loop {
        while let Some(node) = nodes.get(pids.len())
            && let Some(source) = tree.next(|rank| pids[rank].as_ref().is_ok_and(|pid| lives(*pid)))
        {
            let rank = pids.len();
            match fork() {
                Ok(Forked::Child(report)) => {
                    // The copy closes the pipes of its siblings, which would be carried along.
                    drop(coming);
                    match moving::to(node, lender(source, &pids, nodes)) {
                        Ok(()) => return Copied::Copy(rank),
                        Err(e) => report.fail(e),
                    }
                }
                Ok(Forked::Parent(child)) => {
                    pids.push(Ok(child.pid()));
                    coming.push(UnderWay { rank, source, child });
                }
                Err(e) => {
                    pids.push(Err(e));
                    tree.ended(rank, source, false);
                }
            }
        }
        if coming.is_empty() {
            return Copied::Caller(pids);
        }
        for UnderWay { rank, source, child } in take_ended(&mut coming) {
            pids[rank] = child.arrived();
            tree.ended(rank, source, pids[rank].is_ok() && nodes[rank] != HOME);
        }
    }
}

/// The copy from whose node pages come.
fn lender(source: Source, pids: &[Outcome<i32>], nodes: &[String]) -> Option<Sibling> {
    match source {
        Source::Home => None,
        Source::Copy(rank) => {
            let pid = pids.get(rank)?.as_ref().ok()?;
            Some(Sibling { pid: *pid, node: nodes.get(rank)?.clone() })
        }
    }
}

/// Waits until copies have told that they arrived or failed, and takes these.
fn take_ended(coming: &mut Vec<UnderWay>) -> Vec<UnderWay> {
    let mut polled: Vec<_> = coming.iter().map(|one| PollFd::new(one.child.report(), PollFlags::IN)).collect();
    // A signal interrupts the wait: then none has told.
    let waited = poll(&mut polled, None);
    let told: Vec<bool> = polled.iter().map(|one| waited.is_ok() && !one.revents().is_empty()).collect();
    let mut told = told.into_iter();
    coming.extract_if(.., |_| told.next().unwrap_or_default()).collect()
}

/// Tells whether a child has not ended.
fn lives(pid: i32) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    Pid::from_raw(pid).is_some_and(|pid| matches!(waitid(WaitId::Pid(pid), options), Ok(None)))
}

/// The memory of this process that belongs to no file (proc_pid_status(5), RssAnon), KiB.
fn anonymous_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
