//! Entry: from the loader's memory to a deputy that holds nothing but its own region.

use crate::{serve, signals, sys};
use abi::Start;
use core::arch::naked_asm;

const PR_SET_NAME: u64 = 15;
const PR_SET_MM: u64 = 35;
const PR_SET_MM_MAP: u64 = 14;

/// Offset 0 of the image. `rdi`: the address of a [`Start`]; `rsi`: the first thread's stack. Or
/// `rdi` zero: another thread, whose control block is prepared.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".text.start")]
#[unsafe(naked)]
unsafe extern "C" fn blob_start() -> ! {
    naked_asm!(
        "cld",
        "xor ebp, ebp",
        "test rdi, rdi",
        "jz 2f",
        "mov rsp, rsi",
        "and rsp, -16",
        "call {main}",
        "ud2",
        "2:",
        "mov rdi, fs:[0]",
        "mov rsp, rdi",
        "and rsp, -16",
        "call {resume}",
        "ud2",
        main = sym main,
        resume = sym serve::resume_thread,
    )
}

unsafe extern "C" fn main(start: *const Start) -> ! {
    // SAFETY: the loader passes a Start inside the region, for the life of the process.
    let start = unsafe { &*start };
    signals::mask(!0);
    forget_thread_registrations();
    if start.keeps == 0 {
        unmap_all_but(start.region_start, start.region_end);
    }
    // SAFETY: `comm` is 16 bytes and lives here.
    unsafe { sys::call(sys::PRCTL, [PR_SET_NAME, start.comm.as_ptr() as u64, 0, 0, 0, 0]) };
    set_map(start, start.arg_end, start.env_end, start.exe_fd);
    if start.exe_fd >= 0 {
        // SAFETY: closes a descriptor that is the blob's own.
        unsafe { sys::call(sys::CLOSE, [start.exe_fd as u64, 0, 0, 0, 0, 0]) };
    }
    serve::first_thread(start)
}

/// The kernel would write to these addresses after they are gone.
fn forget_thread_registrations() {
    // SAFETY: both only tell the kernel to forget an address. rseq was unregistered by the loader,
    // who knows where it was.
    unsafe {
        sys::call(sys::SET_ROBUST_LIST, [0, 24, 0, 0, 0, 0]);
        sys::call(sys::SET_TID_ADDRESS, [0; 6]);
    }
}

fn unmap_all_but(from: u64, to: u64) {
    const LOWEST: u64 = 0x1000;
    const TOP: u64 = 0x7fff_ffff_f000;
    // SAFETY: nothing outside the region is used from here on; the stack and this code lie inside
    // it.
    unsafe {
        sys::call(sys::MUNMAP, [LOWEST, from - LOWEST, 0, 0, 0, 0]);
        sys::call(sys::MUNMAP, [to, TOP - to, 0, 0, 0, 0]);
    }
}

/// `struct prctl_mm_map` (linux/prctl.h).
#[repr(C)]
struct MmMap {
    start_code: u64,
    end_code: u64,
    start_data: u64,
    end_data: u64,
    start_brk: u64,
    brk: u64,
    start_stack: u64,
    arg_start: u64,
    arg_end: u64,
    env_start: u64,
    env_end: u64,
    auxv: u64,
    auxv_size: u32,
    exe_fd: u32,
}

/// Tells the kernel where the arguments are, so that `ps` shows the program's command line, and
/// which file the program is. Where the kernel refuses the file (it wants privilege for that), the
/// rest is set without it.
pub fn set_map(start: &Start, arg_end: u64, env_end: u64, exe_fd: i32) {
    let mut map = MmMap {
        start_code: start.region_start,
        end_code: start.region_start + 8,
        start_data: start.region_start,
        end_data: start.region_start + 8,
        start_brk: start.region_end,
        brk: start.region_end,
        start_stack: start.thread_area,
        arg_start: start.arg_start,
        arg_end,
        env_start: arg_end,
        env_end,
        auxv: 0,
        auxv_size: 0,
        exe_fd: exe_fd as u32,
    };
    let set = |map: &MmMap| {
        let bytes = size_of::<MmMap>() as u64;
        // SAFETY: a whole prctl_mm_map is passed.
        unsafe { sys::call(sys::PRCTL, [PR_SET_MM, PR_SET_MM_MAP, map as *const MmMap as u64, bytes, 0, 0]) }
    };
    if set(&map) < 0 && exe_fd >= 0 {
        map.exe_fd = !0;
        set(&map);
    }
}
