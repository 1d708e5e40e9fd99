//! Memory protection keys (pkeys(7)): which a process has, and of which each of its areas is. What its threads may do with them is a register, as others are.

use crate::error::{BodyError, stays};
use image::{Area, Image};
use os::inject::{Batch, Inside};

const KEYS: std::ops::RangeInclusive<u64> = 1..=15;
/// Nothing is mapped so low (vm.mmap_min_addr), but the kernel looks at the key before it looks for memory (do_mprotect_pkey in mm/mprotect.c).
const NOWHERE: u64 = 0x1000;
const PAGE: u64 = 4096;
const ENOMEM: i64 = -(libc::ENOMEM as i64);

/// Asks for each key whether the process has it; places of the answers.
pub fn ask(batch: &mut Batch) -> Vec<usize> {
    let none = libc::PROT_NONE as u64;
    KEYS.map(|key| batch.may(libc::SYS_pkey_mprotect, [NOWHERE, PAGE, none, key, 0, 0])).collect()
}

/// The answers: a bit for each key. A kernel or processor that knows no keys says so to all.
pub fn answered(results: impl Iterator<Item = i64>) -> u16 {
    KEYS.zip(results).filter(|(_, result)| *result == ENOMEM).map(|(key, _)| 1 << key).sum()
}

/// Looks again for the keys of the areas of process `pid`, which stands still: pkey_mprotect(2) may change them, and nothing else that is compared.
///
/// # Errors
/// If an area has a key that the process has not: the kernel's own, for memory that can only be executed.
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

/// Gives a process whose memory is laid out these keys and no others, and its areas theirs.
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
    // The kernel gives the lowest that is free: those below the last one wanted too, for a while.
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
