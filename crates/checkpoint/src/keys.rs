//! Memory protection keys (pkeys(7)): which keys a process has allocated, and which key each area
//! has. The access rights of a thread are in a register, like others.

use crate::error::{BodyError, stays};
use image::{Area, Image};
use os::inject::{Batch, Inside};

const KEYS: std::ops::RangeInclusive<u64> = 1..=15;
/// Nothing is mapped at so low an address (vm.mmap_min_addr), and the kernel checks the key before
/// it looks for memory (do_mprotect_pkey in mm/mprotect.c).
const NOWHERE: u64 = 0x1000;
const PAGE: u64 = 4096;
const ENOMEM: i64 = -(libc::ENOMEM as i64);

/// Asks for each key whether the process has it. Gives the places of the results.
pub fn ask(batch: &mut Batch) -> Vec<usize> {
    let none = libc::PROT_NONE as u64;
    KEYS.map(|key| batch.may(libc::SYS_pkey_mprotect, [NOWHERE, PAGE, none, key, 0, 0])).collect()
}

/// Reads the results: a bit for each key. On a kernel or processor without keys all calls fail.
pub fn answered(results: impl Iterator<Item = i64>) -> u16 {
    KEYS.zip(results).filter(|(_, result)| *result == ENOMEM).map(|(key, _)| 1 << key).sum()
}

/// Reads the keys of the areas of the frozen process `pid` again. pkey_mprotect(2) may change them
/// without changing anything else that is compared.
///
/// # Errors
/// An area has a key that the process has not allocated: the kernel's own, for memory that can only
/// be executed.
pub fn find_keys(pid: i32, image: &mut Image) -> Result<(), BodyError> {
    let keys = image.process.keys;
    if keys != 0 {
        let found = os::areas::read_with_flags(pid)?;
        let of = |area: &Area| found.iter().find(|f| f.start <= area.start && area.end <= f.end).map(|f| f.key);
        for area in &mut image.areas {
            let Some(key) = of(area) else {
                return stays(format!("its memory at {:#x} has several protection keys", area.start));
            };
            area.key = key;
        }
    }
    match image.areas.iter().find(|a| a.key != 0 && (a.key >= 16 || keys & 1 << a.key == 0)) {
        Some(area) => {
            stays(format!("it has memory that can only be executed, by a protection key, at {:#x}", area.start))
        }
        None => Ok(()),
    }
}

/// Gives a process whose memory is laid out exactly the image's keys, and gives the areas theirs.
pub fn set_keys(inside: &mut Inside, image: &Image) -> Result<(), BodyError> {
    let wanted = image.process.keys;
    let mut batch = inside.batch();
    let places = ask(&mut batch);
    let results = inside.run(&batch)?;
    let has = answered(places.into_iter().map(|place| results.get(place).copied().unwrap_or(0)));
    if has == 0 && wanted == 0 {
        return Ok(());
    }
    let mut batch = inside.batch();
    // The kernel allocates the lowest free key, so the keys below the last wanted one are allocated
    // for a while, too.
    let last = (wanted & !has).checked_ilog2().unwrap_or(0);
    let made = |key: &u64| *key <= u64::from(last) && has & 1 << key == 0;
    for _ in KEYS.filter(made) {
        batch.must("taking a protection key", libc::SYS_pkey_alloc, [0; 6]);
    }
    for key in KEYS.filter(|key| (made(key) || has & 1 << key != 0) && wanted & 1 << key == 0) {
        batch.must("giving up a protection key", libc::SYS_pkey_free, [key, 0, 0, 0, 0, 0]);
    }
    for area in image.areas.iter().filter(|a| a.key != 0) {
        let args = [area.start, area.end - area.start, u64::from(area.protection), u64::from(area.key), 0, 0];
        batch.must("giving memory its protection key", libc::SYS_pkey_mprotect, args);
    }
    inside.run(&batch)?;
    Ok(())
}
