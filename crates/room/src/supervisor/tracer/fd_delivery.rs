//! A thread whose call is over, and stands still, takes the descriptors that came with its message.

use crate::state::due_before_return::Descriptor;
use crate::supervisor::tracer::Tracer;
use crate::supervisor::tracer::fstat_filters::{ToShow, show};
use os::inject::Inside;
use os::ptrace::TraceError;
use std::sync::Arc;

impl Tracer {
    /// Has a thread take a descriptor. `at`: memory that is free, below its stack.
    pub fn take_descriptor(&self, inside: &mut Inside, at: u64, due: Descriptor) -> Result<(), TraceError> {
        let host = inside.tid();
        self.room.filtering.offer(host, Arc::new(due.file));
        let (nr, args) = os::seccomp::asking_call();
        let taken = inside.call(nr, args);
        self.room.filtering.begin(host);
        let number = taken?;
        inside.memory().write(due.number_at, &(number.max(-1) as i32).to_le_bytes())?;
        if let (Some(pid), Ok(fd)) = (self.room.process(host), u32::try_from(number)) {
            let has_offset = due.has_offset;
            show(&self.room, inside, at, ToShow { pid, fd: Some(fd as i32), has_offset })?;
        }
        keep_at_exec(inside, number, due.close_on_exec)
    }
}

fn keep_at_exec(inside: &mut Inside, number: i64, close_on_exec: bool) -> Result<(), TraceError> {
    match u64::try_from(number) {
        Ok(number) if !close_on_exec => {
            inside.must("keeping a descriptor at exec", libc::SYS_fcntl, [number, libc::F_SETFD as u64, 0, 0, 0, 0])?;
        }
        Ok(_) => {}
        Err(_) => tracing::warn!("a descriptor that came with a message is lost: error {}", -number),
    }
    Ok(())
}
