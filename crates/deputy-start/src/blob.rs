//! The deputy blob, as the build script packed it.

static PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/deputy.bin"));

/// Code that runs at any page-aligned address, entry first.
pub struct Blob {
    relocations: &'static [u8],
    /// The code of the blob.
    pub image: &'static [u8],
}

impl Blob {
    /// The one in this binary.
    pub fn deputy() -> Blob {
        let (count, rest) = PACKED.split_at(4);
        let count = count.iter().rev().fold(0usize, |n, b| n << 8 | usize::from(*b));
        let (relocations, image) = rest.split_at(8 * count);
        Blob { relocations, image }
    }

    /// Where an address must be written when the image lies at `base`: (offset, address).
    pub fn relocated(&self, base: u64) -> impl Iterator<Item = (usize, u64)> + '_ {
        let word = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |n, b| n << 8 | u64::from(*b));
        self.relocations.chunks_exact(8).map(move |pair| (word(&pair[..4]) as usize, base + word(&pair[4..])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relocations_lie_inside() {
        let blob = Blob::deputy();
        assert!(!blob.image.is_empty());
        for (at, address) in blob.relocated(0x1000) {
            assert!(at + 8 <= blob.image.len() && (0x1000..0x1000 + blob.image.len() as u64).contains(&address));
        }
    }
}
