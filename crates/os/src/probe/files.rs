//! FUSE, leases, marks.

use super::{Outcome, child};

/// Minor version of the FUSE protocol with `FUSE_NOTIFY_RESEND`, and with `FUSE_NOTIFY_INC_EPOCH`
/// (linux/fuse.h).
const RESEND_MINOR: u64 = 40;
const EPOCH_MINOR: u64 = 44;

fn open_fuse() -> i64 {
    // SAFETY: opens a path.
    child::result(i64::from(unsafe { libc::open(c"/dev/fuse".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) }))
}

pub fn fuse_device() -> Outcome {
    child::outcome(|| open_fuse().min(0))
}

/// Enters a user namespace, opens the device (the kernel wants it opened in the namespace that
/// mounts), mounts, and reads the first message.
pub fn fuse_protocol() -> Outcome {
    child::outcome(|| match (enter_namespace(), open_fuse()) {
        (0, fuse @ 0..) => mount(fuse as i32),
        (0, refused) | (refused, _) => refused,
    })
}

/// Makes a user and mount namespace in which the caller is root.
fn enter_namespace() -> i64 {
    // SAFETY: numbers only; the process is a child of one thread.
    let (uid, gid, entered) =
        unsafe { (libc::geteuid(), libc::getegid(), libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS)) };
    if entered != 0 {
        return -i64::from(child::errno());
    }
    let mut line = [0; 32];
    let steps = [
        child::write(c"/proc/self/setgroups", b"deny"),
        child::write(c"/proc/self/uid_map", map_line(uid, &mut line)),
        child::write(c"/proc/self/gid_map", map_line(gid, &mut line)),
    ];
    steps.into_iter().find(|step| *step < 0).unwrap_or(0)
}

/// `0 ID 1`, without allocation.
fn map_line(id: u32, line: &mut [u8; 32]) -> &[u8] {
    use std::io::Write;
    let mut rest = &mut line[..];
    // Ten digits at most: it fits.
    let _ = write!(rest, "0 {id} 1");
    let left = rest.len();
    &line[..32 - left]
}

/// Gives the minor protocol version of a connection that is mounted nowhere (fsopen(2),
/// fsconfig(2)).
fn mount(fuse: i32) -> i64 {
    const SET_STRING: u32 = 1;
    const CREATE: u32 = 6;
    let mut digits = [0u8; 16];
    {
        use std::io::Write;
        let _ = write!(&mut digits[..15], "{fuse}");
    }
    let null = std::ptr::null::<u8>();
    // SAFETY: all strings end with a zero and live through the calls.
    unsafe {
        let context = libc::syscall(libc::SYS_fsopen, c"fuse".as_ptr(), 1);
        if context < 0 {
            return -i64::from(child::errno());
        }
        let set = |key: &std::ffi::CStr, value: *const u8| {
            libc::syscall(libc::SYS_fsconfig, context, SET_STRING, key.as_ptr(), value, 0)
        };
        let steps = [
            set(c"source", c"tern-probe".as_ptr().cast()),
            set(c"fd", digits.as_ptr()),
            set(c"rootmode", c"40000".as_ptr().cast()),
            set(c"user_id", c"0".as_ptr().cast()),
            set(c"group_id", c"0".as_ptr().cast()),
            libc::syscall(libc::SYS_fsconfig, context, CREATE, null, null, 0),
        ];
        if steps.iter().any(|step| *step != 0) {
            return -i64::from(child::errno());
        }
        first_message(fuse)
    }
}

/// `struct fuse_in_header` (40 bytes), then `struct fuse_init_in`: major, minor.
fn first_message(fuse: i32) -> i64 {
    let mut message = [0u8; 16 << 10];
    let mut ready = libc::pollfd { fd: fuse, events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry; a buffer of its own size (the kernel wants 8 KiB at least).
    let got = unsafe {
        if libc::poll(&raw mut ready, 1, 10_000) != 1 {
            return -i64::from(libc::ETIMEDOUT);
        }
        child::result(libc::read(fuse, message.as_mut_ptr().cast(), message.len()) as i64)
    };
    if (0..48).contains(&got) {
        return -i64::from(libc::EPROTO);
    }
    let word =
        |at: usize| i64::from(u32::from_ne_bytes([message[at], message[at + 1], message[at + 2], message[at + 3]]));
    match (got, word(40)) {
        (..0, _) => got,
        (_, 7) => word(44),
        _ => -i64::from(libc::EPROTO),
    }
}

fn since(minor: u64) -> Outcome {
    match fuse_protocol() {
        Outcome::Found(found) if found < minor => Outcome::Missing(libc::EOPNOTSUPP),
        outcome => outcome,
    }
}

pub fn fuse_resend() -> Outcome {
    since(RESEND_MINOR)
}

pub fn fuse_epoch() -> Outcome {
    since(EPOCH_MINOR)
}

/// Takes a read lease on the running program's own file, which nobody has open for writing.
pub fn leases() -> Outcome {
    const F_SETLEASE: i32 = 1024;
    child::outcome(|| {
        // SAFETY: opens a path, sets a lease that ends with this child.
        unsafe {
            let fd = libc::open(c"/proc/self/exe".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
            if fd < 0 {
                return -i64::from(child::errno());
            }
            child::result(i64::from(libc::fcntl(fd, F_SETLEASE, libc::F_RDLCK)))
        }
    })
}

/// Sets a mark on a directory that reports names made in it.
pub fn marks() -> Outcome {
    child::outcome(|| {
        let events =
            libc::FAN_CREATE | libc::FAN_DELETE | libc::FAN_ATTRIB | libc::FAN_ONDIR | libc::FAN_EVENT_ON_CHILD;
        // SAFETY: numbers and one path; the group ends with this child.
        unsafe {
            let group = libc::syscall(
                libc::SYS_fanotify_init,
                libc::FAN_CLASS_NOTIF | libc::FAN_CLOEXEC | libc::FAN_REPORT_DFID_NAME,
                libc::O_RDONLY,
            );
            if group < 0 {
                return -i64::from(child::errno());
            }
            let root = c"/".as_ptr();
            child::result(libc::syscall(
                libc::SYS_fanotify_mark,
                group,
                libc::FAN_MARK_ADD,
                events,
                libc::AT_FDCWD,
                root,
            ))
        }
    })
}
