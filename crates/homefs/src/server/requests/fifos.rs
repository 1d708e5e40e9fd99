//! FIFOs that a room opened by path, through their stand-ins. They are opened, read and written
//! here, each on a thread of its own.

use crate::proto::{MAX_IO_BYTES, OpenOut, ReadIn, ReplyBuf, STANDIN_BYTES, WriteIn, WriteOut, fopen};
use crate::server::Server;
use crate::server::base::answer::{Answer, Call, Outcome, Refused};
use crate::server::state::handles::{Kind, Open};
use crate::server::state::nodes::reopen;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Flags with which readers and writers of one stand-in do not block each other.
const STREAM_FLAGS: u32 = fopen::DIRECT_IO | fopen::STREAM | fopen::PARALLEL_DIRECT_WRITES | fopen::NOFLUSH;

/// Changes attributes into those of a stand-in: a regular file, larger than most writes.
pub(crate) fn disguise(attr: &mut crate::proto::Attr) {
    attr.mode = (attr.mode & !libc::S_IFMT) | libc::S_IFREG;
    attr.size = STANDIN_BYTES;
}

impl Server {
    pub(crate) fn open_fifo(self: &Arc<Self>, call: &Call<'_>, flags: u32) -> Outcome {
        if !call.stands_in || call.node.file_type != FileType::Fifo {
            return Err(Refused(Errno::NXIO));
        }
        let path = self.path(&call.node)?;
        let opener = self.assume(call)?;
        let flags = OFlags::from_bits_retain(flags) & (OFlags::ACCMODE | OFlags::NONBLOCK);
        self.later(call, move |server, node, buf| {
            server.authority.assume(&opener)?;
            let file = Arc::new(reopen(&path, flags)?);
            // Each read and write request tells itself whether it waits.
            rustix::fs::fcntl_setfl(&*file, flags - OFlags::NONBLOCK)?;
            let fh = server.handles.next();
            server.handles.insert(fh, Open { node: node.clone(), file, kind: Kind::Stream, opener })?;
            buf.push(&OpenOut { fh, open_flags: STREAM_FLAGS, backing_id: 0 });
            Ok(Answer::Plain)
        });
        Ok(Answer::Later)
    }

    pub(crate) fn read_fifo(self: &Arc<Self>, call: &Call<'_>, read: &ReadIn, open: Arc<Open>) -> Outcome {
        let size = (read.size as usize).min(MAX_IO_BYTES);
        let waits = !OFlags::from_bits_retain(read.flags).contains(OFlags::NONBLOCK);
        self.later(call, move |_, _, buf| {
            if waits || is_ready(&open.file, PollFlags::IN)? {
                buf.fill(size, |space| rustix::io::read(&*open.file, space))?;
                return Ok(Answer::Plain);
            }
            Err(Refused(Errno::AGAIN))
        });
        Ok(Answer::Later)
    }

    pub(crate) fn write_fifo(
        self: &Arc<Self>,
        call: &Call<'_>,
        write: &WriteIn,
        data: &[u8],
        open: Arc<Open>,
    ) -> Outcome {
        let waits = !OFlags::from_bits_retain(write.flags).contains(OFlags::NONBLOCK);
        let data = data.to_vec();
        self.later(call, move |_, _, buf: &mut ReplyBuf| {
            if !waits && !is_ready(&open.file, PollFlags::OUT)? {
                return Err(Refused(Errno::AGAIN));
            }
            // A writable FIFO has space for one atomic piece (PIPE_BUF), which is what a writer
            // that does not wait gets.
            let piece = if waits { data.len() } else { data.len().min(libc::PIPE_BUF) };
            let size = rustix::io::write(&*open.file, &data[..piece])?;
            buf.push(&WriteOut { size: size as u32, padding: 0 });
            Ok(Answer::Plain)
        });
        Ok(Answer::Later)
    }
}

fn is_ready(file: &OwnedFd, what: PollFlags) -> rustix::io::Result<bool> {
    poll(&mut [PollFd::new(file, what)], Some(&Timespec::default())).map(|ready| ready > 0)
}
