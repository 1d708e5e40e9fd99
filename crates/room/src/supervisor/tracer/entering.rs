//! Node-local mode: a program that begins is taken to the node's own files.
//!
//! The program and its libraries are home's, and the node has neither. So the body executes the
//! program among home's files, as any other, and the kernel and the program's loader find all that
//! the program is made of there. When the loader has done its work it jumps to the program's entry
//! (AT_ENTRY of getauxval(3)). There the tracer has it stop, and has it change its root directory
//! to the node's by a descriptor that it inherited. From then on every path is the node's; what is
//! mapped stays mapped. The network, the host name and the objects of interprocess communication
//! have been the node's from the beginning: the room has none of its own.
//!
//! The stop is the processor's (debug registers): a page of the program that the tracer touched
//! would be read from home, and the tracer may wait for home no more than anybody whom home waits
//! for.
//!
//! Only the tracer may have the program make chroot(2): the filter hands that call to the warden,
//! which refuses it otherwise. The capability for it, which counts in the room's user namespace
//! alone, goes at the same moment.
//!
//! Where root of home is the machine's own root (`admin-by`), the program enters the machine's
//! mount namespace instead (setns(2)): what it mounts is mounted for all. It keeps its
//! capabilities.

use crate::sandbox::ids;
use crate::sandbox::porter::body::SYS_CHROOT;
use crate::supervisor::tracer::Tracer;
use crate::supervisor::tracer::injected::with_inside;
use crate::supervisor::tracer::state::entering::Trap;
use os::inject::Inside;
use os::namespace::{CapabilitySets, capabilities};
use os::ptrace::{Stopped, TraceError};
use std::time::Duration;

/// The key AT_ENTRY (elf.h).
const AT_ENTRY: u64 = 9;
/// Where the texts and records for the calls lie, below what is the thread's own.
const SCRATCH_BYTES: u64 = 8192;
const PATH_BYTES_MAX: usize = 4000;

impl Tracer {
    /// Puts a trap at the entry of a program that has just been executed, if it is to enter the
    /// node. A program in which that fails ends.
    pub fn stop_at_entry(&mut self, pid: i32, stopped: &Stopped) {
        let Some(root) = self.entering.expected(pid) else { return };
        match set_trap(stopped, root) {
            Ok(trap) => self.entering.set(stopped.tid(), trap),
            Err(e) => self.fail_entering(pid, &e),
        }
    }

    /// A signal of a program that is on its way in. `None`: it was the trap, and the program goes
    /// on among the node's files.
    pub fn entry_stop(&mut self, stopped: Stopped, signal: i32) -> Result<Option<Stopped>, TraceError> {
        let host = stopped.tid();
        if signal != libc::SIGTRAP {
            return Ok(Some(stopped));
        }
        let Some(trap) = self.entering.take_at(host, stopped.registers()?.rip) else { return Ok(Some(stopped)) };
        let pid = self.room.guests().who(host).map_or(0, |who| who.pid);
        self.room.filtering.begin(host);
        let entered = enter(stopped, trap);
        self.room.filtering.end(host);
        match entered {
            Ok((stopped, Ok(()))) => stopped.resume(0)?,
            Ok((stopped, Err(e))) => {
                self.fail_entering(pid, &e);
                stopped.resume(0)?;
            }
            Err(e) => return Err(e),
        }
        Ok(None)
    }

    fn fail_entering(&mut self, pid: i32, e: &TraceError) {
        self.lose(pid, format!("it could not enter the node's own files: {e}"));
    }
}

fn set_trap(stopped: &Stopped, root: u64) -> Result<Trap, TraceError> {
    let entry = os::process::auxiliary_entry(stopped.tid().0, AT_ENTRY)?;
    stopped.set_breakpoint(entry)?;
    Ok(Trap { entry, root })
}

fn enter(stopped: Stopped, trap: Trap) -> Result<(Stopped, Result<(), TraceError>), TraceError> {
    let host = stopped.tid().0;
    stopped.clear_breakpoint()?;
    let (status, directory) = (os::process::status(host)?, os::process::link(host, "cwd")?);
    let directory = std::os::unix::ffi::OsStringExt::into_vec(directory.into_os_string());
    let less = |set: u64| set & !SYS_CHROOT;
    let kept = CapabilitySets {
        permitted: less(status.permitted),
        effective: less(status.capabilities),
        inheritable: less(status.inheritable),
    };
    with_inside(stopped, Duration::ZERO, |inside, at| {
        let at = at.wrapping_sub(SCRATCH_BYTES);
        if ids::are_the_machines() {
            enter_mounts(inside, trap.root)?;
            return change_directory(inside, at, &directory);
        }
        change_root(inside, at, trap.root)?;
        change_directory(inside, at, &directory)?;
        drop_rights(inside, at, kept)
    })
}

fn enter_mounts(inside: &mut Inside, mounts: u64) -> Result<(), TraceError> {
    let args = [mounts, libc::CLONE_NEWNS as u64, 0, 0, 0, 0];
    inside.must("entering the node's mount namespace", libc::SYS_setns, args)?;
    inside.must("closing the node's mount namespace", libc::SYS_close, [mounts, 0, 0, 0, 0, 0])?;
    Ok(())
}

fn change_root(inside: &mut Inside, at: u64, root: u64) -> Result<(), TraceError> {
    inside.memory().write(at, b".\0")?;
    inside.must("going to the node's root directory", libc::SYS_fchdir, [root, 0, 0, 0, 0, 0])?;
    inside.must("making the node's root directory its own", libc::SYS_chroot, [at, 0, 0, 0, 0, 0])?;
    inside.must("closing the node's root directory", libc::SYS_close, [root, 0, 0, 0, 0, 0])?;
    Ok(())
}

/// The directory of the same name, if the node has it; else the root directory.
fn change_directory(inside: &mut Inside, at: u64, path: &[u8]) -> Result<(), TraceError> {
    if path.len() > PATH_BYTES_MAX {
        return Ok(());
    }
    inside.memory().write(at, &[path, b"\0"].concat())?;
    inside.call(libc::SYS_chdir, [at, 0, 0, 0, 0, 0]).map(drop)
}

fn drop_rights(inside: &mut Inside, at: u64, kept: CapabilitySets) -> Result<(), TraceError> {
    let (head, data) = capabilities(kept);
    let bytes: Vec<u8> = head.iter().chain(&data).flat_map(|word| word.to_le_bytes()).collect();
    inside.memory().write(at, &bytes)?;
    let head_bytes = size_of_val(&head) as u64;
    inside.must(
        "giving up the right to change the root directory",
        libc::SYS_capset,
        [at, at + head_bytes, 0, 0, 0, 0],
    )?;
    Ok(())
}
