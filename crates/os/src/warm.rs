//! Memory that is there before it is needed: while a process stands still, each page that its
//! movers touch for the first time costs it microseconds.

use std::ffi::CStr;
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

/// More than a move uses of a thread's stack, and of memory that is freed again.
const STACK_BYTES: usize = 96 << 10;
const HEAP_BYTES: usize = 768 << 10;
/// What is freed is kept up to so much, bytes ...
const KEPT_BYTES: i32 = 4 << 20;
/// ... and what is allocated at once, up to so much, comes from what is kept.
const LARGE_BYTES: i32 = 2 << 20;
const PAGE: usize = 4096;

/// Has this process' allocator keep what threads free. At the start of the process.
pub fn keep_freed() {
    // SAFETY: sets numbers of the allocator (mallopt(3)); no other thread runs yet.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_BYTES);
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES);
    }
}

/// Touches memory that the calling thread will use: the stack, and what the allocator will give it
/// next. A page that nobody has touched takes up to 20 us where the machine is a virtual one, which
/// must get it from its host.
pub fn up() {
    stack();
    let mut heap = Vec::<u8>::with_capacity(HEAP_BYTES);
    touch(heap.spare_capacity_mut());
    black_box(&mut heap);
}

#[inline(never)]
fn stack() {
    let mut bytes = [const { MaybeUninit::uninit() }; STACK_BYTES];
    touch(&mut bytes);
    black_box(&mut bytes);
}

fn touch(bytes: &mut [MaybeUninit<u8>]) {
    for page in bytes.chunks_mut(PAGE) {
        page[0].write(1);
    }
}

/// So many threads wait for work at most; each keeps the memory that it has touched.
const IDLE_MAX: usize = 4;

/// Those that wait.
static IDLE: Mutex<Vec<Idle>> = Mutex::new(Vec::new());

/// What a thread does, under which name; whether it can do something else then.
type Task = (&'static CStr, Box<dyn FnOnce() -> bool + Send>);
/// Of those that wait.
const NAME: &CStr = c"standby";

/// A thread that has begun, and whose memory is there; it waits for what it is to do. One that is
/// dropped unused waits for another who wants one, or ends.
#[derive(Debug)]
pub struct Standby(Option<Idle>);

/// The way to it, and its number, when it has begun.
#[derive(Clone, Debug)]
struct Idle {
    give: Sender<Task>,
    tid: Arc<AtomicI32>,
}

impl Standby {
    /// One that has done something before, or a new one.
    pub fn start() -> std::io::Result<Standby> {
        if let Some(idle) = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop() {
            return Ok(Standby(Some(idle)));
        }
        let (give, given) = channel::<Task>();
        let this = Idle { give, tid: Arc::default() };
        let again = this.clone();
        let serve = move || {
            // SAFETY: takes nothing.
            again.tid.store(unsafe { libc::gettid() }, Ordering::Relaxed);
            up();
            while let Ok((name, task)) = given.recv() {
                set_name(name);
                if !task() {
                    break;
                }
                set_name(NAME);
                if !is_wanted(&again) {
                    break;
                }
            }
        };
        std::thread::Builder::new().name(NAME.to_string_lossy().into_owned()).spawn(serve)?;
        Ok(Standby(Some(this)))
    }

    /// Its number, if it has begun.
    pub fn tid(&self) -> Option<i32> {
        self.0.as_ref().map(|idle| idle.tid.load(Ordering::Relaxed)).filter(|tid| *tid != 0)
    }

    /// Has it do this under this name, and then whatever comes.
    pub fn run(self, name: &'static CStr, task: impl FnOnce() + Send + 'static) {
        self.run_until(name, move || {
            task();
            true
        });
    }

    /// Has it do this, and then whatever comes, if that says so. Else it ends, and with it what the
    /// kernel keeps for the very thread, such as whom it traces.
    pub fn run_until(mut self, name: &'static CStr, task: impl FnOnce() -> bool + Send + 'static) {
        if let Some(idle) = self.0.take() {
            idle.give(name, task);
        }
    }
}

impl Idle {
    /// The thread waits until then, whatever comes: it cannot have ended.
    fn give(&self, name: &'static CStr, task: impl FnOnce() -> bool + Send + 'static) {
        let _ = self.give.send((name, Box::new(task)));
    }
}

impl Drop for Standby {
    /// The thread holds its own way to itself, so that it would wait for ever.
    fn drop(&mut self) {
        if let Some(idle) = self.0.take()
            && !is_wanted(&idle)
        {
            idle.give(NAME, || false);
        }
    }
}

fn set_name(name: &CStr) {
    // SAFETY: reads a string that ends; the calling thread's own name.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

fn is_wanted(one: &Idle) -> bool {
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    let is_wanted = idle.len() < IDLE_MAX;
    if is_wanted {
        idle.push(one.clone());
    }
    is_wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_do_one_thing_after_another_until_they_are_told_to_end() {
        let does = |last: bool| {
            let (told, hear) = channel();
            Standby::start().unwrap().run_until(c"one", move || {
                told.send(std::thread::current().id()).unwrap();
                !last
            });
            hear.recv().unwrap()
        };
        let idle = || IDLE.lock().unwrap().len();
        let first = does(false);
        while idle() < 1 {
            std::thread::yield_now();
        }
        assert_eq!(does(true), first, "it was idle");
        assert_ne!(does(false), first, "it has ended");
    }

    /// Failed before: each move that was refused left a thread behind, until the process could have
    /// no more and was aborted.
    #[test]
    fn threads_that_nobody_uses_end() {
        let threads = || {
            let all = crate::process::threads(std::process::id() as i32).unwrap();
            let named =
                |tid: &i32| std::fs::read(format!("/proc/self/task/{tid}/comm")).is_ok_and(|n| n == b"standby\n");
            all.iter().filter(|tid| named(tid)).count()
        };
        for _ in 0..10 {
            drop((0..10).map(|_| Standby::start().unwrap()).collect::<Vec<_>>());
        }
        while threads() > IDLE_MAX + 1 {
            std::thread::yield_now();
        }
    }
}
