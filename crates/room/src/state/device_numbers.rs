//! Numbers of file systems as home has them: those of devices (`st_dev`) and of mounts.
//!
//! The hosting kernel numbers the room's file systems in its own way. Processes that have run
//! elsewhere have seen home's numbers, and compare: tar(1) takes a file that has another `st_dev`
//! than before for another file, and leaves it as it is. So for them, and for their children,
//! home's numbers are put in the place of this machine's: in what stat(2) and its kin write
//! ([`systable::filter::devices`]) and in /proc/PID/maps. Those that began here see this machine's,
//! which costs nothing.

use room_protocol::message::HomeDevice;
use std::collections::HashMap;
use std::sync::OnceLock;

/// Major numbers of pseudo-terminals (linux/major.h, UNIX98_PTY_SLAVE_MAJOR), whose file system is
/// part of the room's /dev.
const TERMINALS: std::ops::RangeInclusive<u32> = 136..=143;

/// What numbers of the room's are at home.
#[derive(Debug, Default)]
pub struct DeviceNumbers(OnceLock<Known>);

#[derive(Debug, Default, PartialEq, Eq)]
struct Known {
    /// Device numbers here, and at home.
    devices: HashMap<u64, u64>,
    /// Mounts here, and at home.
    mounts: HashMap<u64, u64>,
    /// The room's /dev, and home's file system of terminals.
    terminals: Option<(u64, u64)>,
}

/// Where the attributes that a call writes have what.
struct Layout {
    mode_at: usize,
    rdev_at: usize,
    dev_at: usize,
    is_statx: bool,
}

/// `struct stat` (asm/stat.h).
const STAT: Layout = Layout { mode_at: 24, rdev_at: 40, dev_at: 0, is_statx: false };
/// `struct statx` (linux/stat.h).
const STATX: Layout = Layout { mode_at: 28, rdev_at: 128, dev_at: 136, is_statx: true };
/// `stx_mnt_id`, and the bit of `stx_mask` that says that it is there.
const STATX_MOUNT_AT: usize = 144;
const STATX_MNT_ID: u32 = 0x1000;

/// Bytes of what this call writes.
pub fn bytes_of(nr: u32) -> usize {
    if i64::from(nr) == libc::SYS_statx { 256 } else { 144 }
}

/// Which argument of the call says where it writes.
pub fn written_at(nr: u32) -> usize {
    match i64::from(nr) {
        libc::SYS_statx => 4,
        libc::SYS_newfstatat => 2,
        _ => 1,
    }
}

impl DeviceNumbers {
    /// Learns them. `mountinfo`: the room's mounts, as its first process sees them; `home`: what
    /// home has at the same places.
    pub fn learn(&self, mountinfo: &str, home: &[HomeDevice]) {
        let _ = self.0.set(known(mountinfo, home));
    }

    /// Gives home's number of a file system of the room's.
    pub fn at_home(&self, here: u64) -> Option<u64> {
        self.0.get()?.devices.get(&here).copied()
    }

    /// Puts home's numbers into what a call has written; whether that changed anything.
    pub fn put(&self, nr: u32, out: &mut [u8]) -> bool {
        let Some(known) = self.0.get() else { return false };
        let layout = if i64::from(nr) == libc::SYS_statx { STATX } else { STAT };
        known.put(&layout, out) == Some(true)
    }

    /// /proc/PID/maps or smaps with home's numbers (proc_pid_maps(5): the fourth field).
    pub fn maps(&self, text: &[u8]) -> Vec<u8> {
        let line = |line: &[u8]| {
            let changed = std::str::from_utf8(line).ok().and_then(|line| self.maps_line(line));
            changed.map_or_else(|| line.to_vec(), String::into_bytes)
        };
        text.split_inclusive(|byte| *byte == b'\n').flat_map(line).collect()
    }

    fn maps_line(&self, line: &str) -> Option<String> {
        let mut fields = line.splitn(5, ' ');
        let [range, rights, offset, device] = [fields.next()?, fields.next()?, fields.next()?, fields.next()?];
        let (major, minor) = device.split_once(':')?;
        let hex = |text: &str| u32::from_str_radix(text, 16).ok();
        let here = rustix::fs::makedev(hex(major)?, hex(minor)?);
        let home = *self.0.get()?.devices.get(&here)?;
        let (major, minor) = (rustix::fs::major(home), rustix::fs::minor(home));
        let rest = fields.next()?;
        let (inode, name) = rest.split_once(' ').unwrap_or((rest, ""));
        // The kernel fills up to where the name begins (show_map_vma in fs/proc/task_mmu.c).
        const NAME_AT: usize = 73;
        let begin = format!("{range} {rights} {offset} {major:02x}:{minor:02x} {} ", inode.trim_end());
        match name.trim_start_matches(' ') {
            "" | "\n" => Some(begin + "\n"),
            name => Some(format!("{begin:<NAME_AT$}{name}")),
        }
    }
}

impl Known {
    fn put(&self, layout: &Layout, out: &mut [u8]) -> Option<bool> {
        let here = device(out, layout.dev_at, layout)?;
        let kind =
            u32::from(u16::from_le_bytes(out.get(layout.mode_at..layout.mode_at + 2)?.try_into().ok()?)) & libc::S_IFMT;
        let is_terminal =
            kind == libc::S_IFCHR && TERMINALS.contains(&rustix::fs::major(device(out, layout.rdev_at, layout)?));
        let of_terminals = self.terminals.filter(|(dev, _)| is_terminal && *dev == here).map(|(_, home)| home);
        let mount = self.put_mount(layout, out);
        let Some(home) = of_terminals.or_else(|| self.devices.get(&here).copied()) else { return Some(mount) };
        let bytes = match layout.is_statx {
            true => u64::from(rustix::fs::major(home)) | u64::from(rustix::fs::minor(home)) << 32,
            false => home,
        };
        out.get_mut(layout.dev_at..layout.dev_at + 8)?.copy_from_slice(&bytes.to_le_bytes());
        Some(true)
    }

    fn put_mount(&self, layout: &Layout, out: &mut [u8]) -> bool {
        let has = |out: &[u8]| {
            out.get(..4)
                .is_some_and(|mask| u32::from_le_bytes([mask[0], mask[1], mask[2], mask[3]]) & STATX_MNT_ID != 0)
        };
        if !layout.is_statx || !has(out) {
            return false;
        }
        let home = word(out, STATX_MOUNT_AT).and_then(|here| self.mounts.get(&here));
        match (home, out.get_mut(STATX_MOUNT_AT..STATX_MOUNT_AT + 8)) {
            (Some(home), Some(place)) => {
                place.copy_from_slice(&home.to_le_bytes());
                true
            }
            _ => false,
        }
    }
}

fn word(out: &[u8], at: usize) -> Option<u64> {
    out.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes)
}

fn device(out: &[u8], at: usize, layout: &Layout) -> Option<u64> {
    let word = word(out, at)?;
    Some(if layout.is_statx { rustix::fs::makedev(word as u32, (word >> 32) as u32) } else { word })
}

fn known(mountinfo: &str, home: &[HomeDevice]) -> Known {
    const DEV: &[u8] = b"/dev";
    let at = |path: &[u8]| home.iter().find(|found| found.path == path);
    let mut known = Known::default();
    for line in mountinfo.lines() {
        // number parent major:minor root place ... (proc_pid_mountinfo(5))
        let mut fields = line.split(' ');
        let (number, device, place) = (fields.next(), fields.nth(1), fields.nth(1));
        let (Some(number), Some((major, minor)), Some(place)) =
            (number.and_then(|n| n.parse().ok()), device.and_then(|d| d.split_once(':')), place)
        else {
            continue;
        };
        let (Ok(major), Ok(minor)) = (major.parse(), minor.parse()) else { continue };
        let here = rustix::fs::makedev(major, minor);
        let place = os::mount::unescape(place);
        // What is mounted on a name in /dev is one of home's devices there.
        let in_dev = || at(DEV).filter(|_| place.starts_with(b"/dev/"));
        let Some(found) = at(&place).or_else(in_dev) else { continue };
        known.devices.insert(here, found.device);
        known.mounts.insert(number, found.mount);
        if place == DEV {
            known.terminals = at(b"/dev/pts").map(|terminals| (here, terminals.device));
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers() -> DeviceNumbers {
        let home = [("/", 0x801, 20), ("/a b", 0x1e, 21), ("/dev", 5, 22), ("/dev/pts", 0x17, 23)]
            .map(|(path, device, mount)| HomeDevice { path: path.into(), device, mount });
        let mountinfo = "90 1 0:40 / / rw - fuse tern rw\n91 90 0:41 / /a\\040b rw - fuse tern rw\n92 90 0:42 / /dev rw - fuse tern-dev rw\n\
                         93 92 0:5 /null /dev/null rw - devtmpfs d rw\n94 90 0:44 / /sys rw - sysfs s rw\nodd\n";
        let numbers = DeviceNumbers::default();
        numbers.learn(mountinfo, &home);
        numbers
    }

    fn stat(dev: u64, mode: u32, rdev: u64) -> Vec<u8> {
        let mut out = vec![0; 144];
        out[..8].copy_from_slice(&dev.to_le_bytes());
        out[24..28].copy_from_slice(&mode.to_le_bytes());
        out[40..48].copy_from_slice(&rdev.to_le_bytes());
        out
    }

    #[test]
    fn attributes_have_homes_numbers() {
        let numbers = numbers();
        let shown = |dev, mode, rdev| {
            let mut out = stat(dev, mode, rdev);
            numbers.put(libc::SYS_newfstatat as u32, &mut out).then(|| word(&out, 0)).flatten()
        };
        let file = libc::S_IFREG;
        assert_eq!((shown(40, file, 0), shown(41, file, 0), shown(44, file, 0)), (Some(0x801), Some(0x1e), None));
        let terminal = rustix::fs::makedev(136, 7);
        assert_eq!(shown(42, libc::S_IFCHR, terminal), Some(0x17));
        assert_eq!((shown(42, libc::S_IFDIR, 0), shown(5, libc::S_IFCHR, 0x103)), (Some(5), Some(5)));
        assert!(!DeviceNumbers::default().put(4, &mut stat(40, file, 0)) && !numbers.put(4, &mut []));
    }

    #[test]
    fn extended_attributes_have_homes_numbers() {
        let mut out = vec![0; 256];
        out[..4].copy_from_slice(&STATX_MNT_ID.to_le_bytes());
        (out[140], out[144]) = (40, 90);
        assert!(numbers().put(libc::SYS_statx as u32, &mut out));
        assert_eq!((out[136], out[140], out[144]), (8, 1, 20));
    }

    #[test]
    fn maps_have_homes_numbers() {
        let text = "55d0-55d1 r--p 00000000 00:28 12                                         /bin/a (b)\n\
                    7f00-7f01 rw-p 00000000 00:00 0 \nRss:                4 kB\n";
        let shown = numbers().maps(text.as_bytes());
        assert_eq!(String::from_utf8(shown).unwrap(), text.replacen("00:28", "08:01", 1));
    }
}
