//! Tasks of PVM: the messages that they have received and not taken, counted in their memory.
//!
//! `pvmrxlist` is exported by libpvm3.so, and is a symbol of programs that are linked with
//! libpvm3.a and not stripped. The task runs meanwhile, and nothing in it is changed.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use super::error::{Error, Result};
use super::mapped::{self, FileKey, MappedFile, Program, program_of};
use crate::parse::elf::{self, Symbol};
use crate::parse::pvm_message::{self, Broken, FRAGMENT_BYTES, MESSAGE_BYTES, Message, Waiting};

const LIBRARY: &str = "libpvm3.so";
const LIST: &str = "pvmrxlist";
/// Where `txlist` and the places of its reader and writer are in a build of libpvm3.so, from
/// `pvmrxlist`: found in the code of mroute.
struct Build {
    id: [u8; 20],
    entries: u64,
    reader: u64,
    writer: u64,
}

/// Builds whose places are known.
const BUILDS: [Build; 1] = [
    // Debian, libpvm3 3.4.6-5, amd64
    Build {
        id: [
            0xe7, 0xae, 0x5a, 0x38, 0xc5, 0x49, 0xc9, 0x1b, 0x94, 0xe3, 0xd9, 0x05, 0xc2, 0x8d, 0xbb, 0xb9, 0x7f, 0xc0,
            0x16, 0xd8,
        ],
        entries: 0x1258,
        reader: 0x123c,
        writer: 0x1238,
    },
];
/// A list that changes is counted again so often.
const TRIES: usize = 5;

/// A task of PVM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// PID of the task.
    pub pid: i32,
    /// When the process began, to tell it from a later one with the same number.
    began: u64,
    /// Address of the pointer to the list's head.
    list: u64,
    /// Number of its build among those that are known.
    build: Option<usize>,
}

/// Finds tasks among processes.
#[derive(Debug, Default)]
pub struct Tasks {
    /// Processes that were looked at, with the program that they executed then.
    known: HashMap<i32, Looked>,
    files: HashMap<FileKey, Option<ListPlace>>,
}

/// Where a file has the list.
#[derive(Clone, Copy, Debug)]
struct ListPlace {
    symbol: Symbol,
    build: Option<usize>,
}

#[derive(Debug)]
struct Looked {
    program: Program,
    task: Option<Task>,
}

impl Tasks {
    /// Looks for tasks among these processes. `named` says that the user named them: then programs
    /// are looked into that have no shared library of PVM, too. Gives also why processes cannot be
    /// looked at.
    pub fn find(&mut self, pids: &[i32], named: bool) -> Found {
        let mut found = Found::default();
        self.known.retain(|pid, _| pids.contains(pid));
        for pid in pids {
            let Some(program) = program_of(*pid) else { continue };
            if let Some(looked) = self.known.get(pid)
                && looked.program == program
            {
                found.tasks.extend(looked.task);
                continue;
            }
            match self.look(*pid, named, program.began) {
                Ok(task) => {
                    found.tasks.extend(task);
                    self.known.insert(*pid, Looked { program, task });
                }
                Err(e) if e.is_absent() => {}
                Err(e) => {
                    found.unreadable.push(Unreadable { pid: *pid, reason: e.to_string() });
                    self.known.insert(*pid, Looked { program, task: None });
                }
            }
        }
        found
    }

    fn look(&mut self, pid: i32, named: bool, began: u64) -> Result<Option<Task>> {
        let mappings = mapped::mappings(pid)?;
        let shared = mapped::library(&mappings, LIBRARY);
        if shared.is_none() && !named && !is_started_by_pvm(pid) {
            return Ok(None);
        }
        // A program that names the list has it itself, even if it has the library.
        let own = fs::read_link(format!("/proc/{pid}/exe")).ok();
        let own = mappings.iter().find(|mapping| own.as_deref() == Some(Path::new(&mapping.path)));
        for file in own.into_iter().chain(shared) {
            let start = mapped::start(&mappings, &file.path);
            if let (Some(start), Some(ListPlace { symbol, build })) = (start, self.place(pid, &file.path)?) {
                return Ok(Some(Task { pid, began, list: symbol.in_memory(start), build }));
            }
        }
        Ok(None)
    }

    /// Finds the list in a file, as the process sees it.
    fn place(&mut self, pid: i32, path: &str) -> Result<Option<ListPlace>> {
        let file = MappedFile::open(pid, path)?;
        if let Some(place) = self.files.get(&file.key) {
            return Ok(*place);
        }
        let key = file.key.clone();
        let bytes = file.content()?;
        let build = elf::build_id(&bytes).and_then(|id| BUILDS.iter().position(|build| build.id == id));
        let place = elf::symbol(&bytes, LIST).map(|symbol| ListPlace { symbol, build });
        self.files.insert(key, place);
        Ok(place)
    }
}

/// What [`Tasks::find`] found.
#[derive(Debug, Default)]
pub struct Found {
    /// Tasks, or at least programs with PVM's library.
    pub tasks: Vec<Task>,
    /// Processes that cannot be looked at. Each is told once.
    pub unreadable: Vec<Unreadable>,
}

/// A process that cannot be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// PID of the process.
    pub pid: i32,
    /// Why it cannot.
    pub reason: String,
}

/// Tells whether a PVM daemon started the process: such have its socket in their environment.
fn is_started_by_pvm(pid: i32) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|word| word.starts_with(b"PVMSOCK=") || word.starts_with(b"PVMEPID="))
}

impl Task {
    /// Counts the messages in the task's `pvmrxlist`. `None`: it has not begun to use PVM, or the
    /// list changed each time it was counted.
    pub fn waiting(&self) -> Result<Option<Waiting>> {
        if os::process::began(self.pid).ok() != Some(self.began) {
            return Err(Error::new(format!("read process {}", self.pid), std::io::ErrorKind::NotFound));
        }
        let mut head = [0; 8];
        os::vm::read(self.pid, self.list, &mut head)?;
        let head = u64::from_ne_bytes(head);
        if head == 0 {
            return Ok(None);
        }
        for _ in 0..TRIES {
            match pvm_message::count(head, |address| self.message(address)) {
                Ok(waiting) => return Ok(Some(waiting)),
                Err(Broken::Changing) => {}
                Err(Broken::TooLong) => {
                    return Err(Error::new(
                        format!("count the messages of process {}", self.pid),
                        std::io::ErrorKind::InvalidData,
                    ));
                }
            }
        }
        Ok(None)
    }

    /// Tells whether [`Task::to_send`] can count.
    pub fn is_of_known_build(&self) -> bool {
        self.build.is_some()
    }

    /// Counts the messages in the task's `txlist`, which PVM's own handlers and those of the
    /// program send while it receives. `None`: the build is not known, or the list changed.
    pub fn to_send(&self) -> Option<Waiting> {
        let Build { entries, reader, writer, .. } = self.build.and_then(|build| BUILDS.get(build))?;
        let places = || Some([self.number(self.list + reader)?, self.number(self.list + writer)?]);
        let before = places()?;
        let mut waiting = Waiting::default();
        for entry in pvm_message::to_send(before[0], before[1]) {
            let message = self.message(self.address(self.list + entries + u64::from(entry) * 8)?)?;
            let fragment = |address| pvm_message::read_fragment(&self.bytes::<FRAGMENT_BYTES>(address)?);
            waiting.messages += 1;
            waiting.bytes += pvm_message::fragment_bytes(message.content, fragment).ok()?;
        }
        (places()? == before).then_some(waiting)
    }

    fn message(&self, address: u64) -> Option<Message> {
        pvm_message::read(&self.bytes::<MESSAGE_BYTES>(address)?)
    }

    fn number(&self, address: u64) -> Option<u32> {
        self.bytes(address).map(u32::from_ne_bytes)
    }

    fn address(&self, address: u64) -> Option<u64> {
        self.bytes(address).map(u64::from_ne_bytes)
    }

    fn bytes<const LENGTH: usize>(&self, address: u64) -> Option<[u8; LENGTH]> {
        let mut bytes = [0; LENGTH];
        os::vm::read(self.pid, address, &mut bytes).ok()?;
        Some(bytes)
    }
}
