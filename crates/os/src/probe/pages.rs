//! Looking at memory and its changes.

use super::{Outcome, child};
use linux_raw_sys::general::{UFFD_FEATURE_WP_ASYNC, UFFD_USER_MODE_ONLY, pm_scan_arg, uffdio_api};

/// `_IOWR('f', 16, struct pm_scan_arg)` (linux/fs.h).
const PAGEMAP_SCAN: u64 = 0xc000_0000 | (size_of::<pm_scan_arg>() as u64) << 16 | (b'f' as u64) << 8 | 16;
/// `_IOWR(0xAA, 0x3F, struct uffdio_api)` (linux/userfaultfd.h).
const UFFDIO_API: u64 = 0xc000_0000 | (size_of::<uffdio_api>() as u64) << 16 | 0xaa << 8 | 0x3f;
/// The version of the interface, `UFFD_API`.
const UFFD_API: u64 = 0xaa;
const PAGE: usize = 4096;
/// Bit of a pagemap entry (Documentation/admin-guide/mm/pagemap.rst).
const SOFT_DIRTY: u64 = 1 << 55;

/// Makes a fresh page and writes to it; null on failure.
fn page() -> *mut u8 {
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping where the kernel likes; written to only if it is there.
    unsafe {
        let at = libc::mmap(std::ptr::null_mut(), PAGE, access, kind, -1, 0);
        if at == libc::MAP_FAILED {
            return std::ptr::null_mut();
        }
        at.cast::<u8>().write_volatile(1);
        at.cast()
    }
}

fn pagemap() -> i64 {
    // SAFETY: opens a path.
    child::result(i64::from(unsafe { libc::open(c"/proc/self/pagemap".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) }))
}

pub fn scan() -> Outcome {
    child::outcome(|| {
        let (page, map) = (page(), pagemap());
        if page.is_null() || map < 0 {
            return map.min(-i64::from(libc::ENOMEM));
        }
        let mut regions = [0u64; 6];
        let start = page as u64;
        let mut request = pm_scan_arg {
            size: size_of::<pm_scan_arg>() as u64,
            flags: 0,
            start,
            end: start + PAGE as u64,
            walk_end: 0,
            vec: regions.as_mut_ptr() as u64,
            vec_len: 2,
            max_pages: 0,
            category_inverted: 0,
            category_mask: 0,
            category_anyof_mask: 1 << 3, // PAGE_IS_PRESENT
            return_mask: 1 << 3,
        };
        // SAFETY: the request and its array live through the call.
        let found = child::result(i64::from(unsafe { libc::ioctl(map as i32, PAGEMAP_SCAN, &raw mut request) }));
        if found == 1 && regions[0] == start { 0 } else { found.min(-i64::from(libc::EIO)) }
    })
}

/// Opens a userfaultfd and agrees on features.
fn userfaultfd(flags: u32, features: u64) -> i64 {
    // SAFETY: numbers only.
    let fd = child::result(unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC as u32 | flags) });
    if fd < 0 {
        return fd;
    }
    let mut api = uffdio_api { api: UFFD_API, features, ioctls: 0 };
    // SAFETY: the structure lives through the call.
    child::result(i64::from(unsafe { libc::ioctl(fd as i32, UFFDIO_API, &raw mut api) }))
}

/// Asynchronous write protection raises no faults, so user mode is enough for it.
pub fn write_tracking() -> Outcome {
    child::outcome(|| userfaultfd(UFFD_USER_MODE_ONLY, u64::from(UFFD_FEATURE_WP_ASYNC)))
}

pub fn demand_paging() -> Outcome {
    child::outcome(|| userfaultfd(0, 0))
}

pub fn soft_dirty() -> Outcome {
    child::outcome(|| {
        let (page, map) = (page(), pagemap());
        if page.is_null() || map < 0 {
            return map.min(-i64::from(libc::ENOMEM));
        }
        let dirty = || {
            let (mut entry, at) = (0u64, (page as usize / PAGE * 8) as i64);
            // SAFETY: reads one entry into a number.
            let got = unsafe { libc::pread(map as i32, (&raw mut entry).cast(), 8, at) };
            got == 8 && entry & SOFT_DIRTY != 0
        };
        let cleared = child::write(c"/proc/self/clear_refs", b"4");
        let before = dirty();
        // SAFETY: our own page.
        unsafe { page.write_volatile(2) };
        match (cleared, before, dirty()) {
            (0, false, true) => 0,
            (0, ..) => -i64::from(libc::EOPNOTSUPP),
            _ => cleared,
        }
    })
}
