//! Tasks of PVM: the messages that they have received and not taken, counted in their memory.
//!
//! `pvmrxlist` is exported by libpvm3.so, and is a symbol of programs that are linked with
//! libpvm3.a and not stripped. The task runs meanwhile, and nothing in it is changed.

use std::collections::HashMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::error::{Error, Result};
use super::processes::open_file;
use crate::parse::elf::{self, Symbol};
use crate::parse::proc_maps::{self, Mapping};
use crate::parse::pvm_message::{self, Broken, MESSAGE_BYTES, Message, Waiting};

const LIBRARY: &str = "libpvm3.so";
const LIST: &str = "pvmrxlist";
/// Longer files are no programs of PVM's users.
const FILE_BYTES_MAX: u64 = 64 << 20;
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
}

/// Finds tasks among processes.
#[derive(Debug, Default)]
pub struct Tasks {
    /// Processes that were looked at, with the program that they executed then.
    known: HashMap<i32, Looked>,
    symbols: HashMap<FileKey, Option<Symbol>>,
}

#[derive(Debug)]
struct Looked {
    program: Program,
    task: Option<Task>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Program {
    began: u64,
    path: PathBuf,
}

/// A file, as long as it is not changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct FileKey {
    device: u64,
    inode: u64,
    changed: i64,
}

impl Tasks {
    /// Looks for tasks among these processes. `named` says that the user named them: then programs
    /// are looked into that have no shared library of PVM, too. Gives also why processes cannot be
    /// looked at.
    pub fn find(&mut self, pids: &[i32], named: bool) -> Found {
        let mut found = Found::default();
        self.known.retain(|pid, _| pids.contains(pid));
        for pid in pids {
            let Some(program) = program(*pid) else { continue };
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
        let path = format!("/proc/{pid}/maps");
        let text = fs::read_to_string(&path).map_err(|e| Error::new(format!("read {path}"), e))?;
        let mappings = proc_maps::read(&text);
        let library = |mapping: &&Mapping| {
            Path::new(&mapping.path).file_name().is_some_and(|name| name.to_string_lossy().starts_with(LIBRARY))
        };
        let shared = mappings.iter().find(library);
        if shared.is_none() && !named && !is_started_by_pvm(pid) {
            return Ok(None);
        }
        // A program that names the list has it itself, even if it has the library.
        let own = fs::read_link(format!("/proc/{pid}/exe")).ok();
        let own = mappings.iter().find(|mapping| own.as_deref() == Some(Path::new(&mapping.path)));
        for file in own.into_iter().chain(shared) {
            let start = mappings.iter().filter(|m| m.path == file.path && m.offset == 0).map(|m| m.start).min();
            if let (Some(start), Some(symbol)) = (start, self.symbol(pid, &file.path)?) {
                return Ok(Some(Task { pid, began, list: symbol.in_memory(start) }));
            }
        }
        Ok(None)
    }

    /// Finds the list in a file, as the process sees it.
    fn symbol(&mut self, pid: i32, path: &str) -> Result<Option<Symbol>> {
        use std::os::unix::fs::MetadataExt as _;
        let seen = format!("/proc/{pid}/root{path}");
        let failed = |e| Error::new(format!("read {path} of process {pid}"), e);
        let file = open_file(Path::new(&seen)).map_err(failed)?;
        let about = file.metadata().map_err(failed)?;
        let key = FileKey { device: about.dev(), inode: about.ino(), changed: about.mtime() };
        if let Some(symbol) = self.symbols.get(&key) {
            return Ok(*symbol);
        }
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(failed)?;
        let symbol = elf::symbol(&bytes, LIST);
        self.symbols.insert(key, symbol);
        Ok(symbol)
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

fn program(pid: i32) -> Option<Program> {
    let began = os::process::began(pid).ok()?;
    // A program that may not be seen has no path; that it is so is found when it is looked at.
    let path = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    Some(Program { began, path })
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

    fn message(&self, address: u64) -> Option<Message> {
        let mut bytes = [0; MESSAGE_BYTES];
        os::vm::read(self.pid, address, &mut bytes).ok()?;
        pvm_message::read(&bytes)
    }
}
