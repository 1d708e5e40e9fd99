//! How soon the kernel kills a body when memory runs out.

use os::ptrace::HostTid;

/// Where memory runs out guests are killed before their warden, without which they all end, and
/// before what this node's owner runs.
pub const ENDANGERED: i32 = 500;

/// `wish`: how much sooner its program wants to be killed, thousandths; no later than others.
pub fn endanger(body: HostTid, wish: i32) {
    if let Err(e) = os::process::endanger(body.0, wish.max(ENDANGERED)) {
        tracing::debug!("{e}");
    }
}
