//! Ranks of MPI: the messages that came and that no receive wants, and the receives that wait,
//! counted in the memory of a rank of Open MPI.
//!
//! `ompi_mpi_communicators` is exported by libmpi.so; `open_mpi` follows what lies behind it. The
//! rank runs meanwhile, and nothing in it is changed. MPICH keeps its queues where no symbol leads
//! to (UCX, libfabric), and has no performance variables of MPI_T for them: a rank of MPICH is only
//! told.

use std::collections::HashMap;

use super::error::{Error, Result};
use super::mapped::{self, FileKey, MappedFile, Program, program_of};
use super::pvm_tasks::Unreadable;
use crate::parse::elf::{self, Symbol};
use crate::parse::open_mpi::{Counter, Memory, Queues, Uncounted};

const OPEN_MPI: &str = "libmpi.so";
const MPICH: &str = "libmpich.so";
const COMMUNICATORS: &str = "ompi_mpi_communicators";
/// A rank that changes is counted again so often.
const TRIES: usize = 3;

/// A process with a library of MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// PID of the rank.
    pub pid: i32,
    /// When the process began, to tell it from a later one with the same number.
    pub began: u64,
    /// The library of the rank.
    pub library: Library,
}

/// A library of MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// Open MPI, with the address of its communicators.
    OpenMpi {
        /// Address of `ompi_mpi_communicators`.
        communicators: u64,
    },
    /// Any version of MPICH.
    Mpich,
}

/// Finds ranks among processes.
#[derive(Debug, Default)]
pub struct Finder {
    /// Processes that were looked at, with the program that they executed then.
    known: HashMap<i32, Looked>,
    files: HashMap<FileKey, Option<Symbol>>,
}

#[derive(Debug)]
struct Looked {
    program: Program,
    found: Option<Found>,
    /// When a program begins, it has no libraries yet: it is looked at again so often.
    again: u32,
}

/// So often a program without MPI is looked at.
const LOOKS: u32 = 3;

/// The result of [`Finder::find`].
#[derive(Debug, Default)]
pub struct Ranks {
    /// Processes with a library of MPI.
    pub found: Vec<Found>,
    /// Processes that cannot be looked at. Each is told once.
    pub unreadable: Vec<Unreadable>,
}

impl Finder {
    /// Looks for ranks among these processes.
    pub fn find(&mut self, pids: &[i32]) -> Ranks {
        let mut ranks = Ranks::default();
        self.known.retain(|pid, _| pids.contains(pid));
        for pid in pids {
            let Some(program) = program_of(*pid) else { continue };
            let known = self.known.get(pid).filter(|known| known.program == program);
            let again = known.map_or(LOOKS, |known| known.again);
            if let Some(known) = known
                && (known.found.is_some() || again == 0)
            {
                ranks.found.extend(known.found);
                continue;
            }
            let (found, again) = match self.look(*pid, program.began) {
                Ok(found) => (found, again.saturating_sub(1)),
                Err(e) if e.is_absent() => (None, again.saturating_sub(1)),
                Err(e) => {
                    ranks.unreadable.push(Unreadable { pid: *pid, reason: e.to_string() });
                    (None, 0)
                }
            };
            ranks.found.extend(found);
            self.known.insert(*pid, Looked { program, found, again });
        }
        ranks
    }

    fn look(&mut self, pid: i32, began: u64) -> Result<Option<Found>> {
        let mappings = mapped::mappings(pid)?;
        if mapped::library(&mappings, MPICH).is_some() {
            return Ok(Some(Found { pid, began, library: Library::Mpich }));
        }
        let Some(library) = mapped::library(&mappings, OPEN_MPI) else { return Ok(None) };
        let Some(start) = mapped::start(&mappings, &library.path) else { return Ok(None) };
        let symbol = self.communicators(pid, &library.path)?;
        let communicators = symbol.map(|symbol| symbol.in_memory(start));
        Ok(communicators.map(|communicators| Found { pid, began, library: Library::OpenMpi { communicators } }))
    }

    fn communicators(&mut self, pid: i32, path: &str) -> Result<Option<Symbol>> {
        let file = MappedFile::open(pid, path)?;
        if let Some(symbol) = self.files.get(&file.key) {
            return Ok(*symbol);
        }
        let key = file.key.clone();
        let symbol = elf::symbol(&file.content()?, COMMUNICATORS);
        self.files.insert(key, symbol);
        Ok(symbol)
    }
}

/// A rank of Open MPI.
#[derive(Debug)]
pub struct Rank {
    pid: i32,
    began: u64,
    communicators: u64,
    counter: Counter,
}

impl Rank {
    /// Makes a rank of what was found; `None`: MPI is another one.
    pub fn new(found: Found) -> Option<Rank> {
        let Library::OpenMpi { communicators } = found.library else { return None };
        Some(Rank { pid: found.pid, began: found.began, communicators, counter: Counter::default() })
    }

    /// Counts what waits in the rank.
    ///
    /// # Errors
    /// The rank has ended, or its memory cannot be read.
    pub fn queues(&mut self) -> Result<std::result::Result<Queues, Uncounted>> {
        if os::process::began(self.pid).ok() != Some(self.began) {
            return Err(Error::new(format!("read process {}", self.pid), std::io::ErrorKind::NotFound));
        }
        let memory = Process { pid: self.pid };
        os::vm::read(self.pid, self.communicators, &mut [0; 8])?;
        let mut counted = Err(Uncounted::NotNow);
        for _ in 0..TRIES {
            counted = self.counter.count(self.communicators, &memory);
            if counted != Err(Uncounted::NotNow) {
                break;
            }
        }
        Ok(counted)
    }
}

struct Process {
    pid: i32,
}

impl Memory for Process {
    fn read(&self, address: u64, bytes: &mut [u8]) -> Option<()> {
        os::vm::read(self.pid, address, bytes).ok()
    }
}
