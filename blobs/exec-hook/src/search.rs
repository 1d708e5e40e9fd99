//! The search for a program in the directories of PATH, as execvp(3) does it.

use core::ffi::c_char;

use crate::sys::{self, call};
use crate::text::{self, Text, Words};

/// The search path of execvp(3) if PATH is not set.
const DEFAULT_PATH: &[u8] = b"/bin:/usr/bin";

/// Finds the path of a program. A name with a slash is a path already. Nothing is found if the path
/// would be too long: the C library then says what there is to say.
///
/// # Safety
/// `name` is a string of C, `environment` an array of them.
pub unsafe fn find(name: *const c_char, environment: Words) -> Option<Text<4096>> {
    // SAFETY: as the caller promises.
    let (name, path) = unsafe { (text::bytes(name), text::value(environment, b"PATH=").unwrap_or(DEFAULT_PATH)) };
    let mut found = Text::new();
    if name.contains(&b'/') {
        found.push(name);
        return found.is_whole().then_some(found);
    }
    if name.is_empty() {
        return None;
    }
    for directory in path.split(|byte| *byte == b':') {
        let mut found = Text::new();
        found.push(if directory.is_empty() { b"." } else { directory });
        found.push(b"/");
        found.push(name);
        const X_OK: u64 = 1;
        // SAFETY: reads a string of C.
        if found.is_whole() && unsafe { call(sys::ACCESS, [found.as_ptr() as u64, X_OK, 0, 0, 0, 0]) } == 0 {
            return Some(found);
        }
    }
    None
}
