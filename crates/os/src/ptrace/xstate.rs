//! The extended state of a thread in its standard form (Intel SDM volume 1, 13.4). How many
//! components there are differs between processors of a maker, not where they lie.

/// Where the kernel notes which components it saves (XCR0), in the part of the area that is left to
/// software.
const AT_MASK: usize = 464;
/// Which components are not in their initial state.
const AT_IN_USE: usize = 512;
/// Header and legacy part.
const LEAST_BYTES: usize = 576;
/// A component: its bit, where it lies, and its name.
type Component = (u32, std::ops::Range<usize>, &'static str);

/// Those that not all processors have. All of them begin as zeros, but for the rights to protection
/// keys.
const COMPONENTS: [Component; 9] = [
    (2, 576..832, "AVX registers"),
    (3, 960..1024, "MPX registers"),
    (4, 1024..1088, "MPX registers"),
    (5, 1088..1152, "AVX-512 registers"),
    (6, 1152..1664, "AVX-512 registers"),
    (7, 1664..2688, "AVX-512 registers"),
    (9, 2688..2696, "protection keys"),
    (17, 2752..2816, "AMX tiles"),
    (18, 2816..11008, "AMX tiles"),
];

const KEYS: u32 = 9;
const KEYS_PLACE: std::ops::Range<usize> = 2688..2696;
/// The rights to protection keys that Linux gives to a program: none, but to the first
/// (init_pkru_value in arch/x86/mm/pkeys.c).
const KEYS_BEGIN: u64 = 0x5555_5554;

fn word(area: &[u8], at: usize) -> u64 {
    area.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// What of the extended state `area` a processor lacks whose own is `own`.
pub fn lacks(area: &[u8], own: &[u8]) -> Option<&'static str> {
    fitted(area, own).err()
}

/// Without the zeros at its end, which say nothing: most of it is what nearly no program uses (8
/// KiB of AMX tiles).
pub fn cut(mut area: Vec<u8>) -> Vec<u8> {
    const WORD: usize = 8;
    let zeros = area.rchunks_exact(WORD).take_while(|word| *word == [0; WORD]).count() * WORD;
    area.truncate((area.len() - zeros).max(LEAST_BYTES.min(area.len())));
    area
}

/// `area` in the size of `own`, this processor's; or what it lacks.
pub fn fitted(area: &[u8], own: &[u8]) -> Result<Vec<u8>, &'static str> {
    if area.len() < LEAST_BYTES || own.len() < LEAST_BYTES {
        return Err("extended state of this form");
    }
    let (in_use, has) = (word(area, AT_IN_USE), word(own, AT_MASK));
    let mut fitted = area.to_vec();
    for bit in (0..u64::BITS).filter(|bit| (in_use & !has) >> bit & 1 == 1) {
        let Some((_, place, name)) = COMPONENTS.iter().find(|(known, _, _)| *known == bit) else {
            return Err("such extended state");
        };
        // A processor may say that a component is in use which is as it began.
        let is_as_it_began =
            |bytes: &[u8]| bytes.iter().all(|b| *b == 0) || bit == KEYS && bytes == KEYS_BEGIN.to_le_bytes();
        if !area.get(place.clone()).is_some_and(is_as_it_began) {
            return Err(name);
        }
    }
    fitted.resize(own.len(), 0);
    let mut in_use = in_use & has;
    if has & !word(area, AT_MASK) & 1 << KEYS != 0
        && let Some(place) = fitted.get_mut(KEYS_PLACE)
    {
        place.copy_from_slice(&KEYS_BEGIN.to_le_bytes());
        in_use |= 1 << KEYS;
    }
    fitted[AT_IN_USE..AT_IN_USE + 8].copy_from_slice(&in_use.to_le_bytes());
    Ok(fitted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(bytes: usize, mask: u64, used: u64) -> Vec<u8> {
        let mut area = vec![0; bytes];
        area[AT_MASK..AT_MASK + 8].copy_from_slice(&mask.to_le_bytes());
        area[AT_IN_USE..AT_IN_USE + 8].copy_from_slice(&used.to_le_bytes());
        area
    }

    #[test]
    fn what_is_cut_is_as_it_was() {
        let mut full = area(11008, 0x607, 0x7);
        full[700] = 9;
        let short = cut(full.clone());
        assert_eq!((short.len(), fitted(&short, &full).unwrap()), (704, full.clone()));
        let idle = area(11008, 0x607, 0);
        assert_eq!(cut(idle.clone()).len(), LEAST_BYTES);
        assert_eq!(fitted(&cut(idle.clone()), &idle).unwrap(), idle);
        assert_eq!(cut(vec![0; 8]), [0; 8]);
    }

    #[test]
    fn what_is_not_used_need_not_be_there() {
        let (large, small) = (area(2696, 0xe7, 0x7), area(832, 0x7, 0x7));
        assert_eq!(fitted(&large, &small).unwrap().len(), 832);
        assert_eq!(fitted(&small, &large).unwrap().len(), 2696);
        let idle = area(2696, 0xe7, 0x47);
        assert_eq!(word(&fitted(&idle, &small).unwrap(), AT_IN_USE), 7);
        let mut used = idle;
        used[1200] = 1;
        assert_eq!(fitted(&used, &small), Err("AVX-512 registers"));
        assert_eq!(fitted(&area(2696, 0, 1 << 30), &small), Err("such extended state"));
        assert!(fitted(&[0; 100], &small).is_err());
    }

    #[test]
    fn rights_to_no_protection_key_need_no_keys() {
        let (with, without) = (|mask, used| area(2696, mask, used), area(832, 0x7, 0x7));
        let mut begun = with(0x207, 0x203);
        begun[KEYS_PLACE].copy_from_slice(&KEYS_BEGIN.to_le_bytes());
        assert_eq!(word(&fitted(&begun, &without).unwrap(), AT_IN_USE), 3);
        let mut chosen = begun.clone();
        chosen[KEYS_PLACE][0] = 0x50;
        assert_eq!(fitted(&chosen, &without), Err("protection keys"));
        let there = fitted(&without, &with(0x207, 0x203)).unwrap();
        assert_eq!((word(&there, AT_IN_USE), word(&there, KEYS_PLACE.start)), (0x207, KEYS_BEGIN));
    }
}
