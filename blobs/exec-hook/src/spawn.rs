//! The functions of the C library that execute programs.

use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};

use abi::spread;

use crate::ask::Execution;
use crate::sys::{self, call};
use crate::text::{self, Text, Words};
use crate::{search, tokens};

unsafe extern "C" {
    safe static environ: AtomicPtr<*const c_char>;
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn __errno_location() -> *mut c_int;
}

/// The next library that has the function: that of the C library.
const RTLD_NEXT: *mut c_void = -1isize as *mut c_void;
/// So many arguments more are given to `tern` than the program has.
const MORE: usize = 3;
/// Arguments that fit the stack; more are kept in a mapping.
const FEW: usize = 512;
const ENOSYS: c_int = 38;

/// A function of the C library, found when the library is loaded: in a child of a program with
/// threads, dlsym(3) might wait for ever.
struct Original(AtomicPtr<c_void>, &'static [u8]);

static EXECVP: Original = Original(AtomicPtr::new(core::ptr::null_mut()), b"execvp\0");
static EXECVPE: Original = Original(AtomicPtr::new(core::ptr::null_mut()), b"execvpe\0");
static SPAWN: Original = Original(AtomicPtr::new(core::ptr::null_mut()), b"posix_spawn\0");
static SPAWNP: Original = Original(AtomicPtr::new(core::ptr::null_mut()), b"posix_spawnp\0");

impl Original {
    fn get(&self) -> *mut c_void {
        let known = self.0.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        // SAFETY: the name is a string of C.
        let found = unsafe { dlsym(RTLD_NEXT, self.1.as_ptr().cast()) };
        self.0.store(found, Ordering::Relaxed);
        found
    }
}

type SpawnFunction =
    unsafe extern "C" fn(*mut c_int, *const c_char, *const c_void, *const c_void, Words, Words) -> c_int;

/// Called by the dynamic linker.
#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: extern "C" fn() = loaded;

extern "C" fn loaded() {
    for original in [&EXECVP, &EXECVPE, &SPAWN, &SPAWNP] {
        original.get();
    }
    // SAFETY: the C library keeps an array there.
    unsafe { tokens::reopen(environment()) };
}

fn environment() -> Words {
    environ.load(Ordering::Relaxed)
}

/// The arguments for the `tern` that takes a program elsewhere.
struct JobWords {
    few: [*const c_char; FEW + MORE + 1],
    many: Option<(u64, u64)>,
}

impl JobWords {
    fn new() -> JobWords {
        JobWords { few: [core::ptr::null(); FEW + MORE + 1], many: None }
    }

    /// Puts `tern`, the word for a job, and the file before the arguments.
    ///
    /// # Safety
    /// `argv` is an array of strings, which live as long as the result is used.
    unsafe fn fill(&mut self, tool: *const c_char, path: *const c_char, argv: Words) -> Option<Words> {
        const JOB: &[u8; spread::JOB.len() + 1] = b"__job\0";
        const { assert!(JOB[0] == spread::JOB[0] && JOB[4] == spread::JOB[4]) };
        // SAFETY: as the caller promises.
        let count = unsafe { text::count(argv) };
        let first: *mut *const c_char = if count <= FEW {
            self.few.as_mut_ptr()
        } else {
            const READ_WRITE: u64 = 3;
            const PRIVATE_ANONYMOUS: u64 = 0x22;
            let bytes = ((count + MORE + 1) * 8) as u64;
            // SAFETY: a new mapping.
            let mapped = unsafe { call(sys::MMAP, [0, bytes, READ_WRITE, PRIVATE_ANONYMOUS, u64::MAX, 0]) };
            let address = u64::try_from(mapped).ok()?;
            self.many = Some((address, bytes));
            address as *mut *const c_char
        };
        // SAFETY: there is place for `count` words, three more, and the null pointer.
        unsafe {
            *first = tool;
            *first.add(1) = JOB.as_ptr().cast();
            *first.add(2) = path;
            for at in 0..count {
                *first.add(MORE + at) = *argv.add(at);
            }
            *first.add(MORE + count) = core::ptr::null();
        }
        Some(first)
    }
}

impl Drop for JobWords {
    fn drop(&mut self) {
        if let Some((address, bytes)) = self.many {
            // SAFETY: nobody uses the mapping any more.
            unsafe { call(sys::MUNMAP, [address, bytes, 0, 0, 0, 0]) };
        }
    }
}

/// Executes a program by way of `tern` if it goes elsewhere; returns if not, or if that fails.
///
/// # Safety
/// As for execve(2).
unsafe fn go(execution: &Execution) {
    // SAFETY: as the caller promises.
    unsafe {
        let Some(tool) = execution.goes() else { return };
        let mut words = JobWords::new();
        if let Some(words) = words.fill(tool.as_ptr(), execution.path, execution.argv) {
            call(sys::EXECVE, [tool.as_ptr() as u64, words as u64, execution.envp as u64, 0, 0, 0]);
        }
    }
}

fn fail(error: c_int) -> c_int {
    // SAFETY: the C library gives the address of this thread's error number.
    unsafe { *__errno_location() = error };
    -1
}

#[unsafe(no_mangle)]
unsafe extern "C" fn execve(path: *const c_char, argv: Words, envp: Words) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        go(&Execution { path, argv, envp });
        fail(-call(sys::EXECVE, [path as u64, argv as u64, envp as u64, 0, 0, 0]) as c_int)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn execv(path: *const c_char, argv: Words) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { execve(path, argv, environment()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn execvp(file: *const c_char, argv: Words) -> c_int {
    // SAFETY: as the caller promises; the original is the C library's function of this name.
    unsafe {
        find_and_go(file, argv, environment());
        let original = EXECVP.get();
        if original.is_null() {
            return fail(ENOSYS);
        }
        core::mem::transmute::<*mut c_void, unsafe extern "C" fn(*const c_char, Words) -> c_int>(original)(file, argv)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn execvpe(file: *const c_char, argv: Words, envp: Words) -> c_int {
    // SAFETY: as the caller promises; the original is the C library's function of this name.
    unsafe {
        find_and_go(file, argv, envp);
        let original = EXECVPE.get();
        if original.is_null() {
            return fail(ENOSYS);
        }
        type Function = unsafe extern "C" fn(*const c_char, Words, Words) -> c_int;
        core::mem::transmute::<*mut c_void, Function>(original)(file, argv, envp)
    }
}

/// # Safety
/// As for execvpe(3).
unsafe fn find_and_go(file: *const c_char, argv: Words, envp: Words) {
    // SAFETY: as the caller promises.
    unsafe {
        if text::value(envp, spread::SOCKET).is_none() {
            return;
        }
        if let Some(found) = search::find(file, environment()) {
            go(&Execution { path: found.as_ptr(), argv, envp });
        }
    }
}

/// How a program is spawned beside its file: the arguments of posix_spawn(3) in between.
struct Spawn {
    pid: *mut c_int,
    actions: *const c_void,
    attributes: *const c_void,
}

/// Spawns a program by way of `tern` if it goes elsewhere, else by the original function.
///
/// # Safety
/// As for posix_spawn(3).
unsafe fn spawn(original: &Original, file: *const c_char, execution: &Execution, how: &Spawn) -> c_int {
    // SAFETY: as the caller promises; the originals are the C library's functions of these names.
    unsafe {
        let function = |original: &Original| {
            let address = original.get();
            (!address.is_null()).then(|| core::mem::transmute::<*mut c_void, SpawnFunction>(address))
        };
        let Spawn { pid, actions, attributes } = *how;
        let tool: Option<Text<256>> = if execution.path.is_null() { None } else { execution.goes() };
        if let (Some(tool), Some(spawn)) = (tool, function(&SPAWN)) {
            let mut words = JobWords::new();
            if let Some(words) = words.fill(tool.as_ptr(), execution.path, execution.argv)
                && spawn(pid, tool.as_ptr(), actions, attributes, words, execution.envp) == 0
            {
                return 0;
            }
        }
        match function(original) {
            Some(spawn) => spawn(pid, file, actions, attributes, execution.argv, execution.envp),
            None => ENOSYS,
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_spawn(
    pid: *mut c_int,
    path: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    argv: Words,
    envp: Words,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { spawn(&SPAWN, path, &Execution { path, argv, envp }, &Spawn { pid, actions, attributes }) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_spawnp(
    pid: *mut c_int,
    file: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    argv: Words,
    envp: Words,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        let found = text::value(envp, spread::SOCKET).and_then(|_| search::find(file, environment()));
        let path = found.as_ref().map_or(core::ptr::null(), |found| found.as_ptr());
        spawn(&SPAWNP, file, &Execution { path, argv, envp }, &Spawn { pid, actions, attributes })
    }
}
