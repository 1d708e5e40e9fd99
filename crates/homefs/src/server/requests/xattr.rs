//! Extended attributes and ACLs, with the caller's rights. ACLs arrive as the kernel's own extended
//! attributes.

use crate::proto::{GetxattrIn, GetxattrOut, ReplyBuf, SetxattrIn};
use crate::server::Server;
use crate::server::base::answer::{Answer, Call, Outcome};
use crate::server::state::proc_path::proc_path;
use rustix::fs::XattrFlags;

/// The largest value and the largest list (XATTR_SIZE_MAX and XATTR_LIST_MAX).
const MOST_BYTES: usize = 64 << 10;

impl Server {
    pub(crate) fn getxattr(&self, call: &Call<'_>, buf: &mut ReplyBuf) -> Outcome {
        let mut args = call.request.args();
        let (get, name) = (args.take::<GetxattrIn>()?, args.string()?);
        let fd = self.watched_path(&call.node)?;
        self.assume(call)?;
        let path = proc_path(&fd);
        let query = || rustix::fs::getxattr_query(&*path, name);
        answer(buf, get.size, query, |space| rustix::fs::getxattr(&*path, name, space))
    }

    pub(crate) fn listxattr(&self, call: &Call<'_>, buf: &mut ReplyBuf) -> Outcome {
        let get = call.request.args().take::<GetxattrIn>()?;
        let fd = self.path(&call.node)?;
        self.assume(call)?;
        let path = proc_path(&fd);
        let query = || rustix::fs::listxattr_query(&*path);
        answer(buf, get.size, query, |space| rustix::fs::listxattr(&*path, space))
    }

    pub(crate) fn setxattr(&self, call: &Call<'_>) -> Outcome {
        let mut args = call.request.args();
        let (set, name) = (args.take::<SetxattrIn>()?, args.string()?);
        let value = args.bytes(set.size as usize)?;
        let fd = self.path(&call.node)?;
        self.assume(call)?;
        rustix::fs::setxattr(&*proc_path(&fd), name, value, XattrFlags::from_bits_retain(set.flags))?;
        Ok(Answer::Plain)
    }

    pub(crate) fn removexattr(&self, call: &Call<'_>) -> Outcome {
        let name = call.request.args().string()?;
        let fd = self.path(&call.node)?;
        self.assume(call)?;
        rustix::fs::removexattr(&*proc_path(&fd), name)?;
        Ok(Answer::Plain)
    }
}

/// Replies with a value. A size of 0 asks for the number of bytes, for which rustix has another
/// function.
fn answer(
    buf: &mut ReplyBuf,
    size: u32,
    query: impl FnOnce() -> rustix::io::Result<usize>,
    get: impl FnOnce(&mut [u8]) -> rustix::io::Result<usize>,
) -> Outcome {
    if size == 0 {
        let size = query()? as u32;
        buf.push(&GetxattrOut { size, padding: 0 });
    } else {
        buf.fill((size as usize).min(MOST_BYTES), get)?;
    }
    Ok(Answer::Plain)
}
