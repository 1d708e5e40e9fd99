//! The loop of a deputy thread: receive a request, run it, reply.

use crate::{signals, start, sys};
use abi::*;
use core::arch::asm;
use core::mem::offset_of;
use core::sync::atomic::{AtomicI32, AtomicU32, Ordering};

/// A thread's control block: at the top of its stack, and the FS base points to it.
#[repr(C)]
pub struct Thread {
    this: *mut Thread,
    /// A child that a fork makes has another.
    channel_fd: AtomicI32,
    /// Header and data of the current request.
    buffer: *mut u8,
    /// Shared by all threads, in the region: what the loader said.
    start: *const Start,
}

// Written by others too: abi::ThreadBlock.
const _: () = assert!(
    size_of::<Thread>() == size_of::<ThreadBlock>()
        && offset_of!(Thread, channel_fd) == offset_of!(ThreadBlock, channel_fd)
        && offset_of!(Thread, buffer) == offset_of!(ThreadBlock, buffer)
        && offset_of!(Thread, start) == offset_of!(ThreadBlock, start)
);

/// The kernel's `struct msghdr`.
#[repr(C)]
struct Message {
    name: u64,
    name_bytes: u64,
    iov: *const [u64; 2],
    iov_count: u64,
    control: *mut u8,
    control_bytes: u64,
    flags: u64,
}

impl Thread {
    /// The calling thread's control block.
    pub fn current() -> &'static Thread {
        let this: *const Thread;
        // SAFETY: `enter` made the FS base point to a control block whose first word is its own
        // address, for the life of the thread.
        unsafe {
            asm!("mov {}, fs:[0]", out(reg) this, options(nostack, readonly));
            &*this
        }
    }

    /// How many SIGCONTs this process has told.
    pub fn continued(&self) -> &AtomicU32 {
        // SAFETY: the loader's Start lives in the region as long as the process.
        unsafe { &(*self.start).continued }
    }

    fn channel(&self) -> i32 {
        self.channel_fd.load(Ordering::Relaxed)
    }

    /// Sends one packet; a steward that is gone ends the process (nobody else could answer for it).
    pub fn send(&self, packet: &[u8]) {
        const MSG_NOSIGNAL: u64 = 0x4000;
        const EINTR: i64 = -4;
        loop {
            let args = [self.channel() as u64, packet.as_ptr() as u64, packet.len() as u64, MSG_NOSIGNAL, 0, 0];
            // SAFETY: sends bytes of a slice.
            match unsafe { sys::call(sys::SENDTO, args) } {
                EINTR => continue,
                n if n < 0 => lost(),
                _ => return,
            }
        }
    }

    /// Receives a request into the buffer. Returns its length and the descriptor that came with it,
    /// or -1.
    fn receive(&self) -> (usize, i32) {
        const MSG_CMSG_CLOEXEC: u64 = 0x4000_0000;
        const EINTR: i64 = -4;
        let mut control = [0u64; 3];
        let iov = [self.buffer as u64, (size_of::<Request>() + DATA_BYTES) as u64];
        loop {
            let message = Message {
                name: 0,
                name_bytes: 0,
                iov: &iov,
                iov_count: 1,
                control: control.as_mut_ptr().cast(),
                control_bytes: 24,
                flags: 0,
            };
            let args = [self.channel() as u64, &message as *const Message as u64, MSG_CMSG_CLOEXEC, 0, 0, 0];
            // SAFETY: the message points to live memory of the stated sizes.
            match unsafe { sys::call(sys::RECVMSG, args) } {
                EINTR => continue,
                n if n <= 0 => lost(),
                // SCM_RIGHTS: length 20, level SOL_SOCKET (1), type 1, then the descriptor.
                n => {
                    // SAFETY: the kernel wrote the control words through the pointer above.
                    let control = unsafe { core::ptr::read_volatile(&control) };
                    let fd = if control[0] == 20 && control[1] == 1 << 32 | 1 { control[2] as i32 } else { -1 };
                    return (n as usize, fd);
                }
            }
        }
    }

    fn data(&self) -> *mut u8 {
        // SAFETY: the buffer has room for a header and the data.
        unsafe { self.buffer.add(size_of::<Request>()) }
    }

    fn serve(&self) -> ! {
        loop {
            let (bytes, fd) = self.receive();
            if bytes < size_of::<Request>() {
                lost()
            }
            // SAFETY: a whole header was received.
            let request = unsafe { self.buffer.cast::<Request>().read_unaligned() };
            let (result, out_bytes) = match request.op {
                OP_CALL => self.run(&request),
                OP_TAKE => (i64::from(fd), 0),
                OP_THREAD => (self.new_thread(fd), 0),
                OP_FORK => match self.new_process(fd, request.args[0]) {
                    Some(result) => (result, 0),
                    None => continue,
                },
                OP_IGNORE => {
                    signals::catch_all(request.args[0], request.args[1]);
                    (0, 0)
                }
                OP_PROGRAM => (self.set_program(&request), 0),
                OP_STOP => {
                    signals::stop(request.args[0] as i32, request.args[1] as u32);
                    (0, 0)
                }
                OP_THREAD_EXIT => self.leave(),
                OP_EXIT => sys::exit_group(request.args[0]),
                OP_DIE => signals::die(request.args[0] as i32),
                // SAFETY: the steward ended the path by NUL, inside the buffer.
                OP_DIE_WITH_CORE => unsafe { signals::die_with_core(request.args[0] as i32, self.data()) },
                _ => (-38, 0),
            };
            self.reply(&request, result, out_bytes);
        }
    }

    /// Ends the thread and frees its area: the stack under these very instructions, so nothing is
    /// called between the two.
    fn leave(&self) -> ! {
        let area = self as *const Thread as u64 + 64 - STACK_BYTES as u64;
        // SAFETY: the channel and the area are this thread's own; the first thread's area lies in
        // the region, and goes like the others.
        unsafe {
            sys::call(sys::CLOSE, [self.channel() as u64, 0, 0, 0, 0, 0]);
            signals::mask(!0);
            asm!("syscall", "xor edi, edi", "mov eax, {exit}", "syscall", "ud2", exit = const sys::EXIT,
                 in("rax") sys::MUNMAP, in("rdi") area, in("rsi") THREAD_AREA_BYTES as u64, options(noreturn, nostack));
        }
    }

    fn reply(&self, request: &Request, result: i64, out_bytes: u32) {
        let from = request.out_offset as usize;
        let head = Reply { kind: REPLY, data_bytes: out_bytes, result };
        // The header goes right before the data that goes back: over the end of the request's own
        // header or data that is done with. SAFETY: the packet starts inside the buffer (a request
        // header is larger than a reply header) and ends inside the data, which `run` checked.
        let packet = unsafe {
            let at = self.data().add(from).sub(size_of::<Reply>());
            at.cast::<Reply>().write_unaligned(head);
            core::slice::from_raw_parts(at, size_of::<Reply>() + out_bytes as usize)
        };
        self.send(packet);
    }

    fn run(&self, request: &Request) -> (i64, u32) {
        let data = self.data() as u64;
        if (request.out_offset as usize).saturating_add(request.out_bytes as usize) > DATA_BYTES {
            return (-22, 0);
        }
        let mut args = request.args;
        for (i, arg) in args.iter_mut().enumerate() {
            if request.pointers & (1 << i) != 0 {
                *arg = arg.wrapping_add(data);
            }
        }
        self.relocate(request);
        let call = || {
            // SAFETY: the steward built the call; its pointers lie in this thread's buffer.
            unsafe { sys::interruptible(u64::from(request.nr), &args) }
        };
        let result = match u64::from(request.blocked) {
            0 => call(),
            blocked => {
                let before = signals::mask(blocked);
                let result = call();
                signals::mask(before);
                result
            }
        };
        let out_bytes = match (request.out_per_result, result) {
            (_, ..0) => 0,
            (0, _) => request.out_bytes,
            (each, n) => {
                let bytes = (n as u64).saturating_mul(u64::from(each)).saturating_add(u64::from(request.out_fixed));
                bytes.min(u64::from(request.out_bytes)) as u32
            }
        };
        (result, out_bytes)
    }

    /// Makes addresses of the offsets that structures in the data hold. The list lies behind the
    /// data, where the call may write: it is used up before.
    fn relocate(&self, request: &Request) {
        let list = request.data_bytes as usize;
        for i in 0..request.inner as usize {
            let at = list + 4 * i;
            if at + 4 > DATA_BYTES {
                return;
            }
            // SAFETY: inside the buffer, as was just checked.
            let word = unsafe { self.data().add(at).cast::<u32>().read_unaligned() } as usize;
            if word + 8 <= list {
                // SAFETY: likewise.
                unsafe {
                    let word = self.data().add(word).cast::<u64>();
                    word.write_unaligned(word.read_unaligned().wrapping_add(self.data() as u64));
                }
            }
        }
    }

    fn new_thread(&self, channel_fd: i32) -> i64 {
        const PROT_READ_WRITE: u64 = 3;
        const MAP_PRIVATE_ANONYMOUS: u64 = 0x22;
        if channel_fd < 0 {
            return -9;
        }
        // SAFETY: fresh memory for a fresh thread.
        unsafe {
            let area = sys::call(
                sys::MMAP,
                [0, THREAD_AREA_BYTES as u64, PROT_READ_WRITE, MAP_PRIVATE_ANONYMOUS, !0, 0],
            );
            let tid = if area < 0 { area } else { spawn(prepare(area as u64, channel_fd, self.start)) };
            if tid < 0 {
                sys::call(sys::CLOSE, [channel_fd as u64, 0, 0, 0, 0, 0]);
                return tid;
            }
            with_channel(tid, channel_fd)
        }
    }

    /// Makes a child. `None` in the child, whose channel is the new one; a signal that came to it
    /// waits until then. The first `others` words of the data are channels of threads that the
    /// child does not have.
    fn new_process(&self, channel_fd: i32, others: u64) -> Option<i64> {
        const SIGCHLD: u64 = 17;
        if channel_fd < 0 {
            return Some(-9);
        }
        let close = |fd: i32| {
            // SAFETY: closes a descriptor that is this blob's own.
            unsafe { sys::call(sys::CLOSE, [fd as u64, 0, 0, 0, 0, 0]) };
        };
        let before = signals::mask(!0);
        // SAFETY: a copy of this process; the child goes on below with a copy of this stack.
        let pid = unsafe { sys::call(sys::CLONE, [SIGCHLD, 0, 0, 0, 0, 0]) };
        if pid != 0 {
            close(channel_fd);
            signals::mask(before);
            return Some(pid);
        }
        close(self.channel());
        let steward = peer(channel_fd);
        for i in 0..(others as usize).min(DATA_BYTES / size_of::<i32>()) {
            // SAFETY: inside the buffer.
            let fd = unsafe { self.data().cast::<i32>().add(i).read_unaligned() };
            // A thread that has just ended has closed its channel, and the number may already mean
            // the new one, or a file.
            if fd != channel_fd && peer(fd) == steward {
                close(fd);
            }
        }
        self.channel_fd.store(channel_fd, Ordering::Relaxed);
        self.continued().store(0, Ordering::Relaxed);
        signals::mask(before);
        Thread::current().say_ready();
        None
    }

    fn say_ready(&self) {
        // SAFETY: no memory is passed.
        let tid = unsafe { sys::call(sys::GETTID, [0; 6]) };
        let head = Reply { kind: READY, data_bytes: 0, result: with_channel(tid, self.channel()) };
        // SAFETY: a whole header.
        self.send(unsafe { core::slice::from_raw_parts((&head as *const Reply).cast(), size_of::<Reply>()) });
    }

    fn set_program(&self, request: &Request) -> i64 {
        // SAFETY: the loader's Start lives in the region as long as the process.
        let start = unsafe { &*self.start };
        let bytes = request.args[0].min(start.arg_room);
        let arg_end = start.arg_start + bytes;
        // SAFETY: the region has `arg_room` bytes there, used for nothing else.
        unsafe { core::ptr::copy(self.data(), start.arg_start as *mut u8, bytes as usize) };
        let exe_fd = if request.args[1] == 0 { -1 } else { self.open_program(request.args[0]) };
        start::set_map(start, arg_end, arg_end, exe_fd);
        if exe_fd >= 0 {
            // SAFETY: closes a descriptor that was opened here.
            unsafe { sys::call(sys::CLOSE, [exe_fd as u64, 0, 0, 0, 0, 0]) };
        }
        0
    }

    /// Opens the path at this offset of the data with the process' own rights: a program that may
    /// be executed but not read stays unnamed.
    fn open_program(&self, offset: u64) -> i32 {
        /// O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC: whatever the path names, opening it waits
        /// for nothing.
        const FLAGS: u64 = 0x100 | 0x800 | 0x8_0000;
        // SAFETY: the steward ended the path by NUL, inside the buffer.
        unsafe { sys::call(sys::OPEN, [self.data() as u64 + offset, FLAGS, 0, 0, 0, 0]) as i32 }
    }
}

/// A thread's number, and above it its channel's.
fn with_channel(tid: i64, channel_fd: i32) -> i64 {
    tid | i64::from(channel_fd) << 32
}

/// Which process made the other end of a socket (SO_PEERCRED of unix(7)); -1 of anything else.
fn peer(fd: i32) -> i32 {
    const SOL_SOCKET: u64 = 1;
    const SO_PEERCRED: u64 = 17;
    // `struct ucred`: process, user, group.
    let (mut credentials, mut bytes) = ([0i32; 3], 12u32);
    let to = [&mut credentials as *mut [i32; 3] as u64, &mut bytes as *mut u32 as u64];
    // SAFETY: the kernel writes at most the twelve bytes that are there, and their count.
    let result = unsafe { sys::call(sys::GETSOCKOPT, [fd as u64, SOL_SOCKET, SO_PEERCRED, to[0], to[1], 0]) };
    if result < 0 { -1 } else { credentials[0] }
}

/// Ends as if killed. The steward's heir has a second to say why first: it kills when it has.
fn lost() -> ! {
    let second = [1i64, 0];
    // SAFETY: the kernel reads two words.
    unsafe { sys::call(sys::NANOSLEEP, [&second as *const [i64; 2] as u64, 0, 0, 0, 0, 0]) };
    signals::die(9)
}

/// Lays a control block at the top of the stack of `area`.
///
/// # Safety
/// `area` is [`THREAD_AREA_BYTES`] of memory that nobody else uses.
unsafe fn prepare(area: u64, channel_fd: i32, start: *const Start) -> *mut Thread {
    let block = ThreadBlock::new(area, channel_fd, start as u64);
    let thread = block.this as *mut Thread;
    // SAFETY: see above; a block and a thread's record are laid out alike.
    unsafe { thread.cast::<ThreadBlock>().write(block) };
    thread
}

/// Starts a thread on its area; returns its TID.
///
/// # Safety
/// `thread` comes from [`prepare`].
unsafe fn spawn(thread: *mut Thread) -> i64 {
    /// CLONE_VM | FS | FILES | SIGHAND | THREAD | SYSVSEM | SETTLS
    const FLAGS: u64 = 0x100 | 0x200 | 0x400 | 0x800 | 0x1_0000 | 0x4_0000 | 0x8_0000;
    let tid: i64;
    // SAFETY: the child starts on its own stack, never returns, and takes its control block from
    // the FS base that the kernel set.
    unsafe {
        asm!(
            "syscall", "test rax, rax", "jnz 2f",
            "xor ebp, ebp", "mov rdi, fs:[0]", "and rsp, -16", "call {enter}", "ud2",
            "2:",
            enter = sym enter,
            inlateout("rax") sys::CLONE => tid, in("rdi") FLAGS, in("rsi") thread, in("rdx") 0, in("r10") 0, in("r8") thread,
            lateout("rcx") _, lateout("r11") _,
        );
    }
    tid
}

unsafe extern "C" fn enter(thread: *const Thread) -> ! {
    // SAFETY: `spawn` and `first_thread` pass a prepared control block.
    unsafe { (*thread).serve() }
}

/// Goes on as a deputy thread whose control block, FS base and stack somebody else has prepared;
/// all signals are blocked.
///
/// # Safety
/// As said.
pub unsafe extern "C" fn resume_thread(thread: *const Thread) -> ! {
    // SAFETY: the caller's control block names the process' Start.
    let start = unsafe { (*thread).start };
    while ready(start).load(Ordering::Acquire) == 0 {
        // SAFETY: no memory is passed.
        unsafe { sys::call(sys::SCHED_YIELD, [0; 6]) };
    }
    signals::mask(0);
    // SAFETY: as the caller promises.
    unsafe { enter(thread) }
}

/// Whether signals are caught.
fn ready(start: *const Start) -> &'static AtomicU32 {
    // SAFETY: the Start lives as long as the process.
    unsafe { &(*start).ready }
}

/// Becomes the deputy's first thread.
pub fn first_thread(start: &'static Start) -> ! {
    const ARCH_SET_FS: u64 = 0x1002;
    // SAFETY: the area is the thread's own; the stack in use begins below the control block.
    unsafe {
        let thread = prepare(start.thread_area, start.channel_fd, start);
        sys::call(sys::ARCH_PRCTL, [ARCH_SET_FS, thread as u64, 0, 0, 0, 0]);
        signals::catch_but(start.ignored, 0);
        ready(start).store(1, Ordering::Release);
        signals::mask(0);
        (*thread).say_ready();
        enter(thread)
    }
}
