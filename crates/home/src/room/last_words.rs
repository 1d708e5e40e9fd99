//! The last words to the user of a body that has ended: its deputy may have closed its standard
//! error already, with that of the body.

use crate::closing;
use crate::room::state::Room;

impl Room {
    /// Writes `words` to the standard error of a process, if its deputy has closed that already
    /// with the body's; returns whether it did.
    pub fn say_to_the_last(&self, pid: i32, words: &str) -> bool {
        let stderr = self.table().deputies.get_mut(&pid).and_then(|deputy| deputy.stderr.take());
        let Some((_, stderr)) = stderr else { return false };
        let words = words.to_owned();
        // The reader of standard error may make the writer wait.
        closing::briefly(move || {
            let _ = rustix::io::write(&stderr, words.as_bytes());
        });
        true
    }
}
