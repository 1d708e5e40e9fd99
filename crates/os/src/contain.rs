//! Containment: a panic while something is handled for one guest becomes an error that names the
//! guest, so that its handler can end that guest and go on with the others.
//!
//! A steward or a warden serves many guests with the same threads. Each of its loops handles one
//! message, request or stop in [`contained`], and says with [`on_account_of`] which guest it works
//! for as soon as that is known. [`contained`] asserts unwind safety for all of its callers. The
//! assertion holds because of what they do with a [`Failure`]: they end the guest on whose account
//! it happened and drop the state that they keep of it, so that nobody reads what was half done for
//! it. Where no guest is named, they end the room, as an uncaught panic would. All locks of these
//! processes are taken over from a thread that panicked (`PoisonError::into_inner`).

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

/// The longest words that are kept of a panic, bytes.
const WORDS_MAX: usize = 400;

/// A panic that was caught.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// On whose account the code worked: a process, by its number at home.
    pub account: Option<i32>,
    /// What the panic said, and where.
    pub words: String,
}

thread_local! {
    static ACCOUNT: Cell<Option<i32>> = const { Cell::new(None) };
    static WORDS: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Notes that this thread works for the guest `pid` from now on, until the [`contained`] work
/// around it ends.
pub fn on_account_of(pid: i32) {
    ACCOUNT.set(Some(pid));
}

/// Runs `work` on account of process `pid`, if that is known. See the module for what the caller
/// owes.
///
/// # Errors
/// The work panicked.
pub fn contained_for<T>(pid: Option<i32>, work: impl FnOnce() -> T) -> Result<T, Failure> {
    contained(|| {
        pid.into_iter().for_each(on_account_of);
        work()
    })
}

/// Runs `work` for nobody in particular yet. See the module for what the caller owes.
///
/// # Errors
/// The work panicked.
pub fn contained<T>(work: impl FnOnce() -> T) -> Result<T, Failure> {
    static LISTENING: Once = Once::new();
    LISTENING.call_once(listen);
    let before = ACCOUNT.replace(None);
    let done = catch_unwind(AssertUnwindSafe(work));
    let account = ACCOUNT.replace(before);
    done.map_err(|_| {
        // The process lives on: whatever ends it says so itself.
        crate::last_words::forget();
        Failure { account, words: WORDS.take() }
    })
}

/// Keeps what each thread's last panic said.
fn listen() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let mut words = panic.to_string().replace(char::is_control, " ");
        let end = words.floor_char_boundary(WORDS_MAX);
        words.truncate(end);
        // A thread that is ending has no place for them any more.
        let _ = WORDS.try_with(|kept| kept.replace(words));
        usual(panic);
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_names_the_guest_and_the_place() {
        assert_eq!(contained(|| 7), Ok(7));
        let failure = contained(|| {
            on_account_of(12);
            let inner = contained(|| on_account_of(13));
            assert_eq!(inner, Ok(()));
            panic!("too\nmuch");
        });
        let Failure { account, words } = failure.unwrap_err();
        assert_eq!(account, Some(12), "what was contained in it is not what it was for");
        assert!(words.contains("contain.rs") && words.contains("too much"), "{words}");
        assert_eq!(contained(|| -> () { panic!() }).unwrap_err().account, None, "it lasts no longer");
    }
}
