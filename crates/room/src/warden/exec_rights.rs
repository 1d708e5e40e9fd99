//! What a program gains that a thread executes.

use room_protocol::message::Credentials;

/// Whether a thread with these rights would have more of them in a program that it executes: user 0
/// that has given some up. A deputy cannot take them back, so that such a program begins at home.
pub fn gains_by_exec(now: &Credentials) -> bool {
    let [real, effective, ..] = now.uid;
    let had = now.capabilities;
    (real == 0 || effective == 0) && (had.bounding | had.inheritable) & !had.permitted != 0
}
