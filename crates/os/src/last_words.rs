//! Why this process ends, kept where a process that it has forked can read it afterwards: a panic,
//! a signal, or an exit of its own. A process that is gone answers no question, and its log says
//! nothing of a signal.
//!
//! The words lie in a page that both share. They are put there by a panic hook, by handlers of the
//! signals that end a process by default, and at its exit; the last one counts, but for the exit
//! that follows a panic. SIGKILL leaves none.

use crate::{Error, Result};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// The longest that are kept, bytes.
const WORDS_MAX: usize = 1024;
/// Signals that end a process without its doing; [`crate::stray`] has those that should not.
const DEADLY: [i32; 10] = [
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGSEGV,
    libc::SIGSYS,
    libc::SIGTERM,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGXCPU,
];

/// The page that holds the words.
#[repr(C)]
struct Page {
    bytes: AtomicUsize,
    words: [u8; WORDS_MAX],
}

static PAGE: AtomicPtr<Page> = AtomicPtr::new(std::ptr::null_mut());

/// Keeps this process' last words from now on. Before it has threads.
///
/// # Errors
/// There is no page left.
pub fn keep() -> Result<()> {
    let (access, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: new memory.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), size_of::<Page>(), access, shared, -1, 0) };
    if page == libc::MAP_FAILED {
        return Err(Error::new("mapping a page for last words", std::io::Error::last_os_error()));
    }
    // Fresh memory is zero, which is a page without words.
    PAGE.store(page.cast(), Ordering::Release);
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let thread = std::thread::current();
        say(&format!("thread {} {panic}", thread.name().unwrap_or("?")));
        usual(panic);
    }));
    for signal in DEADLY {
        // SAFETY: a whole sigaction; the handler makes system calls and writes to the page alone.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = died as extern "C" fn(i32, *const libc::siginfo_t, *const libc::c_void) as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESETHAND | libc::SA_ONSTACK | libc::SA_NODEFER;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
    // SAFETY: the function lives as long as the process.
    unsafe { libc::atexit(exited) };
    Ok(())
}

/// Gives what the parent of this process, or the process itself, said last.
pub fn read() -> Option<String> {
    // SAFETY: once there, the page stays.
    let page = unsafe { PAGE.load(Ordering::Acquire).as_ref()? };
    let bytes = page.bytes.load(Ordering::Acquire).min(WORDS_MAX);
    let words = String::from_utf8_lossy(&page.words[..bytes]);
    // Terminals obey what is no text.
    let words: String = words.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    (bytes > 0).then_some(words)
}

/// Forgets what was said: the process has survived it.
pub fn forget() {
    // SAFETY: once there, the page stays.
    if let Some(page) = unsafe { PAGE.load(Ordering::Acquire).as_ref() } {
        page.bytes.store(0, Ordering::Release);
    }
}

fn say(words: &str) {
    let page = PAGE.load(Ordering::Acquire);
    if page.is_null() {
        return;
    }
    let bytes = words.len().min(WORDS_MAX);
    // SAFETY: inside the page. Two threads that die at once may mix their words, which are bytes
    // whatever they say.
    unsafe {
        std::ptr::copy_nonoverlapping(words.as_ptr(), (&raw mut (*page).words).cast(), bytes);
        (*page).bytes.store(bytes, Ordering::Release);
    }
}

fn is_silent() -> bool {
    // SAFETY: once there, the page stays.
    unsafe { PAGE.load(Ordering::Acquire).as_ref() }.is_some_and(|page| page.bytes.load(Ordering::Acquire) == 0)
}

extern "C" fn died(signal: i32, info: *const libc::siginfo_t, _: *const libc::c_void) {
    let mut words = Words::new();
    words.add("it got signal ");
    words.add_number(signal);
    // SAFETY: the kernel gives a whole siginfo; whether it names a sender, its code says.
    let (code, sender) = unsafe { ((*info).si_code, (*info).si_pid()) };
    // One of another PID namespace has no number here.
    if code <= 0 && sender != 0 {
        words.add(" from process ");
        words.add_number(sender);
        words.add(if code == libc::SI_USER { " (kill)" } else { "" });
    }
    // A panic that was no more than aborted has said more.
    if signal != libc::SIGABRT || is_silent() {
        say(words.text());
    }
    // By default now. A fault would come again by itself; other signals would not.
    // SAFETY: a signal to the calling thread.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::gettid(), signal) };
}

/// Text that a signal handler composes: it may not allocate.
struct Words {
    bytes: [u8; 64],
    used: usize,
}

impl Words {
    fn new() -> Words {
        Words { bytes: [0; 64], used: 0 }
    }

    fn add(&mut self, text: &str) {
        for (to, from) in self.bytes[self.used..].iter_mut().zip(text.bytes()) {
            *to = from;
            self.used += 1;
        }
    }

    fn add_number(&mut self, number: i32) {
        let (mut digits, mut left, mut first) = ([0u8; 10], number.unsigned_abs(), 10);
        while first > 0 && (left > 0 || first == 10) {
            first -= 1;
            digits[first] = b'0' + (left % 10) as u8;
            left /= 10;
        }
        self.add(str::from_utf8(&digits[first..]).unwrap_or_default());
    }

    fn text(&self) -> &str {
        str::from_utf8(&self.bytes[..self.used]).unwrap_or_default()
    }
}

extern "C" fn exited() {
    if is_silent() {
        say("it ended by itself");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a process of its own, which ends by `end`.
    fn last_words_of(end: fn()) -> Option<String> {
        keep().unwrap();
        // SAFETY: the child does what the test says and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            end();
            std::process::exit(0);
        }
        // SAFETY: one's own child.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
        read()
    }

    #[test]
    fn an_end_leaves_its_reason() {
        let by_signal = || {
            // SAFETY: a signal to this process, which does not handle it.
            unsafe { libc::raise(libc::SIGXCPU) };
        };
        let words = last_words_of(by_signal).unwrap();
        assert!(words.starts_with("it got signal 24 from process "), "{words}");
        assert_eq!(last_words_of(|| std::process::exit(3)).as_deref(), Some("it ended by itself"));
        let by_panic = || drop(std::panic::catch_unwind(|| panic!("too\nmuch")));
        let words = last_words_of(by_panic).unwrap();
        assert!(words.contains("last_words.rs") && words.contains("too much"), "{words}");
    }
}
