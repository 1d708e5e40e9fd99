//! An image as bytes: a header, then sections, each with a kind, a version and its length. What is not known is refused by its number: a process is never
//! moved half.

use crate::check::{self, Odd};
use crate::state::Image;
use serde::{Serialize, de::DeserializeOwned};
use thiserror::Error;

/// The largest image, bytes: 65 530 areas (vm.max_map_count) and as many descriptors fit.
pub const IMAGE_BYTES_MAX: usize = 16 << 20;

const MAGIC: [u8; 8] = *b"ternimg1";
const HEAD_BYTES: usize = 8;
const PROCESS: (u16, u16) = (1, 9);
const THREADS: (u16, u16) = (2, 6);
const AREAS: (u16, u16) = (3, 3);
const FILES: (u16, u16) = (4, 2);
const DESCRIPTORS: (u16, u16) = (5, 1);
const OBJECTS: (u16, u16) = (6, 3);
const ALL: [(u16, u16); 6] = [PROCESS, THREADS, AREAS, FILES, DESCRIPTORS, OBJECTS];

/// Why bytes are no image.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ImageError {
    /// Not an image, or of another generation.
    #[error("no process image of this version of tern")]
    Magic,
    /// Larger than allowed.
    #[error("image of {0} bytes: at most {IMAGE_BYTES_MAX} are allowed")]
    Size(usize),
    /// A section of a kind or version that is not known here.
    #[error("the image holds state that is not known here: {}, version {version}; upgrade this tern", name(*kind))]
    Unknown {
        /// Its kind.
        kind: u16,
        /// Its version.
        version: u16,
    },
    /// A section is missing, cut off, or comes twice.
    #[error("section {0} is missing, cut off, or comes twice")]
    Section(u16),
    /// The content contradicts itself.
    #[error("the image contradicts itself: {0}")]
    Odd(#[from] Odd),
}

/// What a section is about.
fn name(kind: u16) -> String {
    let known = ["process", "threads", "areas", "files", "descriptors", "objects"];
    let known = kind.checked_sub(1).and_then(|n| known.get(usize::from(n)));
    known.map_or_else(|| format!("section {kind}"), |name| format!("section {kind} ({name})"))
}

impl Image {
    /// The image as bytes.
    pub fn encode(&self) -> Result<Vec<u8>, ImageError> {
        let mut out = MAGIC.to_vec();
        put(&mut out, PROCESS, &self.process)?;
        put(&mut out, THREADS, &self.threads)?;
        put(&mut out, AREAS, &self.areas)?;
        put(&mut out, FILES, &self.files)?;
        put(&mut out, DESCRIPTORS, &self.descriptors)?;
        put(&mut out, OBJECTS, &self.objects)?;
        if out.len() > IMAGE_BYTES_MAX { Err(ImageError::Size(out.len())) } else { Ok(out) }
    }

    /// Reads an image, and checks that it makes sense.
    pub fn decode(bytes: &[u8]) -> Result<Image, ImageError> {
        if bytes.len() > IMAGE_BYTES_MAX {
            return Err(ImageError::Size(bytes.len()));
        }
        let mut rest = bytes.strip_prefix(&MAGIC).ok_or(ImageError::Magic)?;
        let mut found: [Option<&[u8]>; ALL.len()] = [None; ALL.len()];
        while !rest.is_empty() {
            let (head, tail) = rest.split_at_checked(HEAD_BYTES).ok_or(ImageError::Section(0))?;
            let kind = u16::from_le_bytes([head[0], head[1]]);
            let version = u16::from_le_bytes([head[2], head[3]]);
            let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
            let (body, tail) = tail.split_at_checked(length).ok_or(ImageError::Section(kind))?;
            let place = ALL.iter().position(|known| *known == (kind, version));
            let place = place.ok_or(ImageError::Unknown { kind, version })?;
            if found[place].replace(body).is_some() {
                return Err(ImageError::Section(kind));
            }
            rest = tail;
        }
        let image = Image {
            process: take(found[0], PROCESS)?,
            threads: take(found[1], THREADS)?,
            areas: take(found[2], AREAS)?,
            files: take(found[3], FILES)?,
            descriptors: take(found[4], DESCRIPTORS)?,
            objects: take(found[5], OBJECTS)?,
        };
        check::check(&image)?;
        Ok(image)
    }
}

fn put<T: Serialize>(out: &mut Vec<u8>, (kind, version): (u16, u16), value: &T) -> Result<(), ImageError> {
    let body = postcard::to_stdvec(value).map_err(|_| ImageError::Section(kind))?;
    out.extend(kind.to_le_bytes());
    out.extend(version.to_le_bytes());
    out.extend((body.len() as u32).to_le_bytes());
    out.extend(body);
    Ok(())
}

fn take<T: DeserializeOwned>(body: Option<&[u8]>, (kind, _): (u16, u16)) -> Result<T, ImageError> {
    let (value, left) =
        postcard::take_from_bytes(body.ok_or(ImageError::Section(kind))?).map_err(|_| ImageError::Section(kind))?;
    if left.is_empty() { Ok(value) } else { Err(ImageError::Section(kind)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzz::example as image;
    use crate::state::{Content, Opened};

    #[test]
    fn round_trip() {
        assert_eq!(Image::decode(&image().encode().unwrap()), Ok(image()));
    }

    #[test]
    fn unknown_state_is_refused_by_its_number() {
        let mut bytes = image().encode().unwrap();
        bytes.extend([99, 0, 1, 0, 0, 0, 0, 0]);
        assert_eq!(Image::decode(&bytes), Err(ImageError::Unknown { kind: 99, version: 1 }));
        let mut bytes = image().encode().unwrap();
        bytes[10] = 99;
        assert_eq!(Image::decode(&bytes), Err(ImageError::Unknown { kind: 1, version: 99 }));
    }

    #[test]
    fn any_cut_or_bent_image_is_refused_or_makes_sense() {
        let bytes = image().encode().unwrap();
        for length in 0..bytes.len() {
            assert!(Image::decode(&bytes[..length]).is_err());
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut bent = bytes.clone();
                bent[at] ^= 1 << bit;
                if let Ok(image) = Image::decode(&bent) {
                    assert_eq!(check::check(&image), Ok(()));
                }
            }
        }
    }

    /// A generator of numbers that is the same each time (xorshift).
    fn draw(state: &mut u64) -> usize {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        (*state >> 11) as usize
    }

    #[test]
    fn whatever_bytes_are_read_are_refused_or_can_be_shown() {
        let whole = image().encode().unwrap();
        let (mut state, mut understood) = (0x7465_726e, 0);
        for _ in 0..20_000 {
            let mut bytes = whole.clone();
            for _ in 0..1 + draw(&mut state) % 4 {
                let at = draw(&mut state) % bytes.len();
                match draw(&mut state) % 3 {
                    0 => bytes[at] = draw(&mut state) as u8,
                    1 => bytes.truncate(at.max(1)),
                    _ => bytes.insert(at, [0, 1, 0x7f, 0x80, 0xff][draw(&mut state) % 5]),
                }
            }
            if let Ok(image) = Image::decode(&bytes) {
                understood += 1;
                assert!(crate::shown(&image).starts_with("process"));
            }
        }
        assert!(understood > 0);
    }

    #[test]
    fn all_is_shown() {
        let shown = crate::shown(&image());
        for word in
            ["pid 77", "/bin/true (removed)", "3 file 0 at 9", "memory 0 from 1000", "3 of 4096 bytes", "seals 1"]
        {
            assert!(shown.contains(word), "{word}: {shown}");
        }
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let bad = |change: fn(&mut Image)| {
            let mut image = image();
            change(&mut image);
            assert!(matches!(Image::decode(&image.encode().unwrap()), Err(ImageError::Odd(_))), "{image:?}");
        };
        bad(|i| i.areas[0].end = 0x800);
        bad(|i| i.areas[0].end = u64::MAX);
        bad(|i| i.areas[0].content = Content::File { file: 1, offset: 0 });
        bad(|i| i.areas.push(i.areas[0]));
        bad(|i| i.threads.clear());
        bad(|i| i.threads.push(i.threads[0].clone()));
        bad(|i| i.descriptors[0].fd = -1);
        bad(|i| i.descriptors[1].opened = Opened::Made(3));
        bad(|i| i.objects.pipes.clear());
        bad(|i| i.objects.memories.clear());
        bad(|i| i.objects.memories[0].bytes = u64::MAX);
        bad(|i| i.areas[1].content = Content::Memory { memory: 1, offset: 0 });
        bad(|i| i.areas[1].content = Content::Memory { memory: 0, offset: 1 });
        bad(|i| i.objects.pipes[0].capacity = 2);
        bad(|i| i.process.settings.push((38, 1)));
        bad(|i| i.process.barriers = 1);
        bad(|i| i.process.permitted = 1);
        bad(|i| i.process.dumpable = 3);
        bad(|i| i.process.actions.clear());
        bad(|i| i.files[0].path = b"bin\0".to_vec());
    }
}
