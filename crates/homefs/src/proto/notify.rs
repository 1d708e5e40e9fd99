//! Notifications from a server to the kernel.

use super::{NotifyInvalEntry, NotifyInvalInode, OUT_HEADER_BYTES, OutHeader};
use zerocopy::IntoBytes;

const NOTIFY_POLL: i32 = 1;
const NOTIFY_INVAL_INODE: i32 = 2;
const NOTIFY_INVAL_ENTRY: i32 = 3;
const NOTIFY_RESEND: i32 = 7;
const NOTIFY_INC_EPOCH: i32 = 8;

fn notification(code: i32, parts: &[&[u8]]) -> Vec<u8> {
    let len = OUT_HEADER_BYTES + parts.iter().map(|p| p.len()).sum::<usize>();
    let header = OutHeader { len: len as u32, error: code, unique: 0 };
    let mut bytes = Vec::with_capacity(len);
    bytes.extend_from_slice(header.as_bytes());
    parts.iter().for_each(|p| bytes.extend_from_slice(p));
    bytes
}

/// Makes the kernel forget the attributes and ACLs of a node. Does not block.
pub fn notify_inval_attr(node: u64) -> Vec<u8> {
    notification(NOTIFY_INVAL_INODE, &[NotifyInvalInode { ino: node, off: -1, len: 0 }.as_bytes()])
}

/// Makes the kernel forget attributes, ACLs and all cached content of a node. Blocks while a READ
/// or WRITE of cached pages is unanswered.
pub fn notify_inval_content(node: u64) -> Vec<u8> {
    notification(NOTIFY_INVAL_INODE, &[NotifyInvalInode { ino: node, off: 0, len: 0 }.as_bytes()])
}

/// Makes the kernel forget one name in a directory. Blocks while a request that holds the
/// directory's lock is unanswered. `flags`: 0 or [`EXPIRE_ONLY`](super::EXPIRE_ONLY).
pub fn notify_inval_entry(parent: u64, name: &[u8], flags: u32) -> Vec<u8> {
    let entry = NotifyInvalEntry { parent, namelen: name.len() as u32, flags };
    notification(NOTIFY_INVAL_ENTRY, &[entry.as_bytes(), name, &[0]])
}

/// Makes the kernel look up all cached names again (Linux 6.16). Does not block.
pub fn notify_inc_epoch() -> Vec<u8> {
    notification(NOTIFY_INC_EPOCH, &[])
}

/// Makes the kernel send requests again that were read but not answered (Linux 6.9).
pub fn notify_resend() -> Vec<u8> {
    notification(NOTIFY_RESEND, &[])
}

/// Tells the kernel that the polled file with this kernel handle may have changed.
pub fn notify_poll(kh: u64) -> Vec<u8> {
    notification(NOTIFY_POLL, &[&kh.to_le_bytes()])
}
