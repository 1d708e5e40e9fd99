//! Whether a process is still the deputy that its steward takes it for.
//!
//! # The problem
//! A deputy is its user's own process. The user may write to its channel from another process,
//! trace it, replace its code, or never run the blob at all. Such a deputy can harm only itself, as
//! long as the steward, which is root, does nothing for it that its user could not do. Two things
//! would be more: to act on another process that the deputy names as its child, and to act on the
//! deputy after it has executed a set-user-ID program, which has the same number and other rights.
//!
//! # The way taken
//! Nothing that a deputy says about processes is believed. Its packets count only if the kernel
//! names it as their sender ([`packet::Sender`]). Its identity ([`os::process_identity`]) is
//! written down when it comes, and compared before each step that uses its rights; rights may
//! shrink, and may change in the ways that set*id calls allow. And the blob must lie in its memory
//! where it lay at first, byte by byte: execve(2) removes it, whatever ids the next program has.
//! Before the steward puts a program's memory into a deputy, that must have nothing but the blob.
//!
//! A process can still change between a check and the step behind it. So steps that change a
//! process check while all its threads stand still.

use checkpoint::BodyError;
use deputy_start::blob::Blob;
use os::areas::Area;
use os::inject::Memory;
use os::process_identity::{IdentityError, ProcessIdentity};

/// Why a process is not taken for a deputy.
#[derive(Debug, thiserror::Error)]
pub enum ProofError {
    /// Its rights are not those that it had.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The kernel shows nothing of the process: most often it has ended.
    #[error("looking at process {pid}")]
    Unseen {
        /// PID of the process that this is about.
        pid: i32,
        /// Cause of the failure.
        #[source]
        source: os::Error,
    },
    /// The blob is not in its memory.
    #[error("process {pid} does not run the deputy's code")]
    NoBlob {
        /// PID of the process that this is about.
        pid: i32,
    },
    /// Its memory holds more than a deputy has.
    #[error("process {pid} has memory at {start:#x} that no deputy has")]
    OtherMemory {
        /// PID of the process that this is about.
        pid: i32,
        /// Where that begins.
        start: u64,
    },
    /// A deputy named the process as its child, and the kernel says otherwise.
    #[error("process {pid} is no child of {parent}")]
    NoChild {
        /// PID of the process that this is about.
        pid: i32,
        /// Its alleged parent.
        parent: i32,
    },
    /// Another process used its channel.
    #[error("process {sender} spoke on the channel of {pid}")]
    NotSender {
        /// PID of the deputy.
        pid: i32,
        /// The process that spoke; 0 if the kernel does not know it.
        sender: i32,
    },
    /// The process sent a message that no deputy sends.
    #[error("process {pid} said {what}")]
    Nonsense {
        /// PID of the process that this is about.
        pid: i32,
        /// The kind of the message.
        what: &'static str,
    },
}

impl From<ProofError> for BodyError {
    fn from(e: ProofError) -> BodyError {
        BodyError::NotMigratable(format!("its deputy is not trusted: {e}"))
    }
}

/// Identity and code of a deputy at its last check, to be compared at the next one.
#[derive(Clone, Debug)]
pub struct DeputyProof {
    identity: ProcessIdentity,
    /// Where the blob lies; `None` until the process has said that the blob runs.
    blob: Option<u64>,
}

impl DeputyProof {
    /// Of a process that will become a deputy.
    pub fn of_coming(identity: ProcessIdentity) -> DeputyProof {
        DeputyProof { identity, blob: None }
    }

    /// Of a process that is a deputy already, of another steward here.
    ///
    /// # Errors
    /// The blob does not lie in it.
    pub fn of_deputy(pid: i32) -> Result<DeputyProof, ProofError> {
        Ok(DeputyProof { identity: identity(pid)?, blob: Some(find_blob(pid)?) })
    }

    /// Of process `pid`, which this deputy says to have forked.
    ///
    /// # Errors
    /// The kernel says otherwise, or the child has rights that its parent has not.
    pub fn child(&self, pid: i32) -> Result<DeputyProof, ProofError> {
        let parent = self.identity.pid;
        let unseen = |source| ProofError::Unseen { pid, source };
        let status = os::process::status(pid).map_err(unseen)?;
        if status.tgid != pid || status.ppid != parent {
            return Err(ProofError::NoChild { pid, parent });
        }
        let child = identity(pid)?;
        ProcessIdentity { pid, began: child.began, ..self.identity.clone() }.may_become(&child)?;
        Ok(DeputyProof { identity: child, blob: None })
    }

    /// PID of the process.
    pub fn pid(&self) -> i32 {
        self.identity.pid
    }

    /// Checks that its rights have not changed at all since it came. For processes that are not
    /// deputies yet.
    ///
    /// # Errors
    /// They have.
    pub fn check_unchanged(&self) -> Result<(), ProofError> {
        Ok(self.identity.still_is(&identity(self.identity.pid)?)?)
    }

    /// The process says that the blob runs: finds it.
    ///
    /// # Errors
    /// The blob does not lie in it, or its rights have changed since it came.
    pub fn begin(&mut self) -> Result<(), ProofError> {
        self.check_unchanged()?;
        self.blob = Some(find_blob(self.identity.pid)?);
        Ok(())
    }

    /// Checks that the process is still a deputy, with no more rights than at the last check.
    /// Before the blob runs in it, only the rights are checked.
    ///
    /// # Errors
    /// It is not.
    pub fn check(&mut self) -> Result<(), ProofError> {
        let pid = self.identity.pid;
        if let Some(at) = self.blob
            && !has_blob(pid, &areas(pid)?, at)
        {
            return Err(ProofError::NoBlob { pid });
        }
        let now = identity(pid)?;
        self.identity.may_become(&now)?;
        self.identity = now;
        Ok(())
    }

    /// Checks that the stopped process has these `areas` and nothing in them but the blob, its
    /// threads' areas, and what was laid out in it (`laid`, from and to addresses).
    ///
    /// # Errors
    /// The deputy maps a file, or memory that another process shares.
    pub fn check_memory(&self, areas: &[Area], laid: &[(u64, u64)]) -> Result<(), ProofError> {
        let pid = self.identity.pid;
        let at = self.blob.filter(|at| has_blob(pid, areas, *at)).ok_or(ProofError::NoBlob { pid })?;
        let is_own = |area: &&Area| {
            let is_threads = area.writable && !area.executable && !area.shared && area.inode == 0;
            is_code(area, at) || is_threads || area.name == b"[vsyscall]"
        };
        let is_laid = |area: &&Area| os::pages::subtract(&[(area.start, area.end)], laid).is_empty();
        match areas.iter().find(|area| !is_own(area) && !is_laid(area)) {
            Some(area) => Err(ProofError::OtherMemory { pid, start: area.start }),
            None => Ok(()),
        }
    }
}

fn identity(pid: i32) -> Result<ProcessIdentity, ProofError> {
    ProcessIdentity::of(pid).map_err(|source| ProofError::Unseen { pid, source })
}

fn areas(pid: i32) -> Result<Vec<Area>, ProofError> {
    os::areas::read(pid).map_err(|source| ProofError::Unseen { pid, source })
}

/// Private anonymous memory that can be executed and not written, with room for the blob at this
/// address.
fn is_code(area: &Area, at: u64) -> bool {
    let bytes = Blob::deputy().image.len() as u64;
    let holds = area.start <= at && at.checked_add(bytes).is_some_and(|end| end <= area.end);
    holds && area.executable && !area.writable && !area.shared && area.inode == 0
}

fn has_blob(pid: i32, areas: &[Area], at: u64) -> bool {
    areas.iter().any(|area| is_code(area, at)) && is_blob(pid, at)
}

/// Where the blob lies in a process: at the start of an area, for it was put into memory of its
/// own.
fn find_blob(pid: i32) -> Result<u64, ProofError> {
    let areas = areas(pid)?;
    let mut places = areas.iter().filter(|area| is_code(area, area.start)).map(|area| area.start);
    places.find(|at| is_blob(pid, *at)).ok_or(ProofError::NoBlob { pid })
}

/// Whether the bytes at this address of the process are the blob's, as it is relocated there.
fn is_blob(pid: i32, at: u64) -> bool {
    let blob = Blob::deputy();
    let mut wanted = blob.image.to_vec();
    for (offset, address) in blob.relocated(at) {
        wanted[offset..offset + 8].copy_from_slice(&address.to_le_bytes());
    }
    let mut found = vec![0; wanted.len()];
    Memory::of(pid).is_ok_and(|memory| memory.read(at, &mut found).is_ok()) && found == wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> i32 {
        std::process::id() as i32
    }

    #[test]
    fn this_test_is_no_deputy() {
        assert!(matches!(DeputyProof::of_deputy(own()), Err(ProofError::NoBlob { .. })));
        let mut coming = DeputyProof::of_coming(ProcessIdentity::of(own()).unwrap());
        coming.check_unchanged().unwrap();
        coming.check().unwrap();
        assert!(matches!(coming.begin(), Err(ProofError::NoBlob { .. })));
    }

    #[test]
    fn only_children_are_children() {
        let parent = DeputyProof::of_coming(ProcessIdentity::of(own()).unwrap());
        assert!(matches!(parent.child(1), Err(ProofError::NoChild { .. })));
        assert!(matches!(parent.child(own()), Err(ProofError::NoChild { .. })));
        assert!(parent.child(0).is_err() && parent.child(-1).is_err() && parent.child(i32::MAX).is_err());
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let verdict = parent.child(child.id() as i32);
        child.kill().unwrap();
        child.wait().unwrap();
        verdict.unwrap();
    }

    #[test]
    fn memory_of_others_is_found() {
        let pid = own();
        let proof = DeputyProof { blob: Some(0x1000), ..DeputyProof::of_coming(ProcessIdentity::of(pid).unwrap()) };
        assert!(matches!(proof.check_memory(&areas(pid).unwrap(), &[]), Err(ProofError::NoBlob { .. })));
    }
}
