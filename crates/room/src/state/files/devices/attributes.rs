//! Attributes of a stand-in that is a device, as fstat(2) and its kin write them: `st_dev` is that
//! of the room's /dev, or nobody would find its name there.

/// Where a structure has what: `struct stat` (asm/stat.h) and `struct statx` (linux/stat.h).
const STAT_DEV_AT: usize = 0;
const STAT_MODE_AT: usize = 24;
const STATX_MODE_AT: usize = 28;
const STATX_DEV_AT: usize = 136;

/// The call asks for attributes of a descriptor.
pub fn are_asked_by(nr: u32) -> bool {
    matches!(i64::from(nr), libc::SYS_fstat | libc::SYS_newfstatat | libc::SYS_statx)
}

/// Sets the file system's number, if the bytes are a device's.
pub fn place(nr: u32, out: &mut [u8], dev: u64) {
    let is_statx = i64::from(nr) == libc::SYS_statx;
    let mode_at = if is_statx { STATX_MODE_AT } else { STAT_MODE_AT };
    let Some(mode) = out.get(mode_at..mode_at + 2) else { return };
    let kind = u32::from(u16::from_le_bytes([mode[0], mode[1]])) & libc::S_IFMT;
    if !matches!(kind, libc::S_IFCHR | libc::S_IFBLK) {
        return;
    }
    let (at, bytes) = if is_statx {
        let (major, minor) = (rustix::fs::major(dev), rustix::fs::minor(dev));
        (STATX_DEV_AT, u64::from(major) | u64::from(minor) << 32)
    } else {
        (STAT_DEV_AT, dev)
    };
    if let Some(place) = out.get_mut(at..at + 8) {
        place.copy_from_slice(&bytes.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_devices_are_placed() {
        for (kind, placed) in [(libc::S_IFCHR, true), (libc::S_IFIFO, false)] {
            let mut out = [0; 256];
            out[STAT_MODE_AT..STAT_MODE_AT + 4].copy_from_slice(&kind.to_le_bytes());
            place(libc::SYS_fstat as u32, &mut out, 0x2f);
            assert_eq!(out[0] == 0x2f, placed);
            let mut out = [0; 256];
            out[STATX_MODE_AT..STATX_MODE_AT + 2].copy_from_slice(&(kind as u16).to_le_bytes());
            place(libc::SYS_statx as u32, &mut out, 0x2f);
            assert_eq!((out[136], out[140]), (0, if placed { 0x2f } else { 0 }));
        }
        place(libc::SYS_fstat as u32, &mut [], 1);
    }
}
