//! Ranks of MPI, as they come and go.

use std::collections::HashMap;

use super::output::{Draft, Output};
use crate::layer::{Layer, rank};
use crate::parse::open_mpi::{Queues, Uncounted};
use crate::record::{Change, Detail, Value};
use crate::source::error::Error;
use crate::source::mpi_ranks::{Finder, Found, Rank};
use crate::source::processes::program;

/// A rank without queues of ob1 is told when it was seen so often in samples: until MPI_Init(3)
/// returns there are none.
const OTHER_PML_SAMPLES: u32 = 200;

/// Ranks of MPI.
pub struct MpiWatch {
    named: bool,
    finder: Finder,
    known: HashMap<i32, Known>,
}

struct Known {
    found: Found,
    /// `None`: its queues cannot be counted.
    rank: Option<Rank>,
    /// `None`: MPI has not begun.
    object: Option<u32>,
    /// Samples without queues of ob1.
    without: u32,
    /// The rank cannot be read: netmon tells that once.
    is_unreadable: bool,
}

impl MpiWatch {
    /// Makes a watch. `named` says that the user named processes.
    pub fn new(named: bool) -> MpiWatch {
        MpiWatch { named, finder: Finder::default(), known: HashMap::new() }
    }

    /// Looks for ranks among these processes.
    pub fn find(&mut self, pids: &[i32], output: &mut Output) {
        let ranks = self.finder.find(pids);
        for unreadable in ranks.unreadable.iter().filter(|_| self.named) {
            output.note(format!(
                "process {}: {}; if it is a rank of MPI, its messages are not counted",
                unreadable.pid, unreadable.reason
            ));
        }
        for found in ranks.found {
            let known = self.known.get(&found.pid);
            if known.is_some_and(|known| known.found == found) {
                continue;
            }
            if let Some(object) = known.and_then(|known| known.object) {
                output.gone(object, "the process executes another program");
            }
            let rank = Rank::new(found);
            if rank.is_none() {
                let program = program(found.pid).unwrap_or_default();
                output.note(format!(
                    "{program}[{}] is a rank of MPICH, which does not tell its queues: they are n/a, and its sockets are shown",
                    found.pid
                ));
            }
            self.known.insert(found.pid, Known { found, rank, object: None, without: 0, is_unreadable: false });
        }
    }

    /// Counts what waits in all ranks.
    pub fn sample(&mut self, output: &mut Output) {
        self.known.retain(|pid, known| {
            let Some(rank) = &mut known.rank else { return os::process::began(*pid).ok() == Some(known.found.began) };
            match rank.queues() {
                Ok(Ok(queues)) => {
                    let object = *known.object.get_or_insert_with(|| output.object(draft(*pid)));
                    output.sample(object, changes(queues));
                    true
                }
                Ok(Err(Uncounted::OtherPml)) => {
                    known.without += 1;
                    if known.without == OTHER_PML_SAMPLES {
                        output.note(format!(
                            "process {pid} is a rank of Open MPI that has no queues of the PML ob1: they are n/a (with UCX or libfabric, the network card may have them)"
                        ));
                    }
                    true
                }
                Ok(Err(Uncounted::NotNow)) => true,
                Err(e) => keep_unreadable(*pid, known, &e, output),
            }
        });
    }
}

/// Says why a rank cannot be read, once. False: it is gone.
fn keep_unreadable(pid: i32, known: &mut Known, error: &Error, output: &mut Output) -> bool {
    if error.is_absent() {
        known.object.into_iter().for_each(|object| output.gone(object, format!("process {pid} has ended")));
        return false;
    }
    if !std::mem::replace(&mut known.is_unreadable, true) {
        output.note(format!("rank of MPI, process {pid}: cannot read its messages: {error}"));
    }
    true
}

fn changes(queues: Queues) -> Vec<Change> {
    vec![
        Change::exact(rank::UNEXPECTED_MESSAGES, queues.unexpected),
        Change { column: rank::UNEXPECTED_BYTES, value: queues.unexpected_bytes.map(Value::Exact) },
        Change::exact(rank::POSTED_RECEIVES, queues.posted),
    ]
}

fn draft(pid: i32) -> Draft {
    let program = program(pid).unwrap_or_default();
    let details = vec![Detail::new("program", &program), Detail::new("library", "Open MPI, ob1")];
    Draft { layer: Layer::Rank, name: format!("rank {program}[{pid}]"), pid: Some(pid), details }
}
