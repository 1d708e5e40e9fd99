//! Keyboards and pointers, by the kernel's event devices.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Size of `struct input_event` (linux/input.h): two words of time, type, code and value.
const EVENT_BYTES: usize = 24;
/// Where the type begins in it.
const TYPE_AT: usize = 16;
/// Types of events that people cause: EV_KEY, EV_REL, EV_ABS (linux/input-event-codes.h). EV_SW is
/// not one: plugs and lids.
const OF_PEOPLE: std::ops::RangeInclusive<u16> = 1..=3;
/// Property of devices that report how they are held: INPUT_PROP_ACCELEROMETER.
const ACCELEROMETER: u32 = 6;
/// Events that are read at once.
const BATCH: usize = 64;

/// The event devices that people use.
#[derive(Debug)]
pub(super) struct EventDevices {
    devices: PathBuf,
    about: PathBuf,
    open: BTreeMap<String, File>,
    /// Why one could not be opened.
    failed: Option<String>,
}

impl EventDevices {
    /// Names the directories of the devices, and of what the kernel says about them.
    pub(super) fn new(devices: &Path, about: &Path) -> EventDevices {
        EventDevices { devices: devices.to_owned(), about: about.to_owned(), open: BTreeMap::new(), failed: None }
    }

    /// Opens devices that have come.
    pub(super) fn look(&mut self) {
        self.failed = None;
        for entry in std::fs::read_dir(&self.devices).into_iter().flatten().flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            if !name.starts_with("event") || self.open.contains_key(&name) || !self.is_of_people(&name) {
                continue;
            }
            let opened = File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open(entry.path());
            match opened {
                Ok(device) => drop(self.open.insert(name, device)),
                Err(e) => self.failed = Some(format!("{name} cannot be opened: {e}")),
            }
        }
    }

    fn is_of_people(&self, name: &str) -> bool {
        let read = |what: &str| std::fs::read_to_string(self.about.join(name).join("device").join(what));
        let bits = |what| read(what).map(|text| lowest_bits(&text)).unwrap_or(0);
        let types = bits("capabilities/ev");
        OF_PEOPLE.into_iter().any(|kind| types >> kind & 1 == 1) && bits("properties") >> ACCELEROMETER & 1 == 0
    }

    /// Takes all events that have come. Gives whether people caused one.
    pub(super) fn take(&mut self) -> bool {
        let mut any = false;
        self.open.retain(|_, device| {
            let mut events = [0; EVENT_BYTES * BATCH];
            loop {
                match device.read(&mut events) {
                    Ok(0) => return false,
                    Ok(bytes) => any |= has_input(&events[..bytes]),
                    Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(e) => return e.kind() == std::io::ErrorKind::WouldBlock,
                }
            }
        });
        any
    }

    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.open.values().map(|device| device.as_fd())
    }

    pub(super) fn found(&self) -> Result<String, String> {
        let names: Vec<String> = self.open.keys().cloned().collect();
        match &self.failed {
            Some(why) => Err(why.clone()),
            None if names.is_empty() => Err(format!("none in {}", self.devices.display())),
            None => Ok(super::words::counted(&names)),
        }
    }
}

/// Gives the lowest word of a bit mask as sysfs prints it: words in hexadecimal, the highest first.
fn lowest_bits(text: &str) -> u64 {
    text.split_whitespace().last().and_then(|word| u64::from_str_radix(word, 16).ok()).unwrap_or(0)
}

fn has_input(events: &[u8]) -> bool {
    let kind = |event: &[u8]| event[TYPE_AT..].first_chunk().map(|bytes| u16::from_ne_bytes(*bytes));
    events.chunks_exact(EVENT_BYTES).filter_map(kind).any(|kind| OF_PEOPLE.contains(&kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: u16) -> Vec<u8> {
        let mut event = vec![0; EVENT_BYTES];
        event[TYPE_AT..TYPE_AT + 2].copy_from_slice(&kind.to_ne_bytes());
        event
    }

    #[test]
    fn keys_and_movement_are_input_and_plugs_are_not() {
        assert!([1, 2, 3].into_iter().all(|kind| has_input(&event(kind))));
        assert!(![0, 4, 5, 17].into_iter().any(|kind| has_input(&event(kind))));
        assert!(has_input(&[event(4), event(1), event(0)].concat()) && !has_input(&[]));
        assert_eq!(
            (lowest_bits("120013\n"), lowest_bits("3 ffffffffffffffff 1f\n"), lowest_bits("")),
            (0x12_0013, 0x1f, 0)
        );
    }

    /// Pipes stand for devices.
    #[test]
    fn devices_of_people_are_opened_and_read() {
        let dir = std::env::temp_dir().join(format!("tern-input-{}", std::process::id()));
        let (devices, about) = (dir.join("dev"), dir.join("sys"));
        std::fs::create_dir_all(&devices).unwrap();
        for (name, types, properties) in [("event0", "120013", "0"), ("event1", "21", "0"), ("event2", "9", "40")] {
            let of = about.join(name).join("device/capabilities");
            std::fs::create_dir_all(&of).unwrap();
            std::fs::write(of.join("ev"), types).unwrap();
            std::fs::write(about.join(name).join("device/properties"), properties).unwrap();
            rustix::fs::mknodat(
                rustix::fs::CWD,
                devices.join(name),
                rustix::fs::FileType::Fifo,
                rustix::fs::Mode::from_raw_mode(0o600),
                0,
            )
            .unwrap();
        }
        let mut keyboards = EventDevices::new(&devices, &about);
        assert!(keyboards.found().unwrap_err().contains("none in"));
        keyboards.look();
        assert_eq!(keyboards.found(), Ok("1 (event0)".into()), "a switch and an accelerometer are not people");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
