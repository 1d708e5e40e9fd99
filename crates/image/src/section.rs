//! The encoding of an image: a header, then sections, each with a kind, a version and its length. A
//! section of unknown kind or version is refused by its number, so a process never moves with a
//! part of its state.

use crate::check::{self, Inconsistent};
use crate::state::Image;
use serde::{Serialize, de::DeserializeOwned};
use thiserror::Error;

/// The largest image, bytes: 65 530 areas (vm.max_map_count) and as many descriptors fit.
pub const IMAGE_BYTES_MAX: usize = 16 << 20;

const MAGIC: [u8; 8] = *b"ternimg1";
const HEAD_BYTES: usize = 8;
/// The kind of a section, and the version of its encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Section {
    kind: u16,
    version: u16,
}

const PROCESS: Section = Section { kind: 1, version: 10 };
const THREADS: Section = Section { kind: 2, version: 6 };
const AREAS: Section = Section { kind: 3, version: 4 };
const FILES: Section = Section { kind: 4, version: 2 };
const DESCRIPTORS: Section = Section { kind: 5, version: 1 };
const OBJECTS: Section = Section { kind: 6, version: 3 };
const ALL: [Section; 6] = [PROCESS, THREADS, AREAS, FILES, DESCRIPTORS, OBJECTS];

/// Why bytes are no image.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ImageError {
    /// The bytes are no image, or an image of another generation.
    #[error("no process image of this version of tern")]
    Magic,
    /// The image is larger than allowed.
    #[error("image of {0} bytes: at most {IMAGE_BYTES_MAX} are allowed")]
    Size(usize),
    /// A section has a kind or version that this version of tern does not know.
    #[error("the image holds state that is not known here: {}, version {version}; upgrade this tern", name(*kind))]
    Unknown {
        /// Kind of the section.
        kind: u16,
        /// Version of the section.
        version: u16,
    },
    /// A section is missing, cut off, or comes twice.
    #[error("section {0} is missing, cut off, or comes twice")]
    Section(u16),
    /// The content is inconsistent.
    #[error("the image contradicts itself: {0}")]
    Inconsistent(#[from] Inconsistent),
}

/// Names a kind of section.
fn name(kind: u16) -> String {
    let known = ["process", "threads", "areas", "files", "descriptors", "objects"];
    let known = kind.checked_sub(1).and_then(|n| known.get(usize::from(n)));
    known.map_or_else(|| format!("section {kind}"), |name| format!("section {kind} ({name})"))
}

impl Image {
    /// Encodes the image.
    ///
    /// # Errors
    /// The image is larger than [`IMAGE_BYTES_MAX`].
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

    /// Decodes an image and checks its consistency.
    ///
    /// # Errors
    /// The bytes are no image, of another version, or inconsistent.
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
            let place = ALL.iter().position(|known| *known == Section { kind, version });
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

fn put<T: Serialize>(out: &mut Vec<u8>, section: Section, value: &T) -> Result<(), ImageError> {
    let Section { kind, version } = section;
    let body = postcard::to_stdvec(value).map_err(|_| ImageError::Section(kind))?;
    out.extend(kind.to_le_bytes());
    out.extend(version.to_le_bytes());
    out.extend((body.len() as u32).to_le_bytes());
    out.extend(body);
    Ok(())
}

fn take<T: DeserializeOwned>(body: Option<&[u8]>, section: Section) -> Result<T, ImageError> {
    let kind = section.kind;
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

    /// A generator of the same pseudo-random numbers each time (xorshift).
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
        for word in [
            "pid 77",
            "/bin/true (removed)",
            "3 file 0 at 9",
            "memory 0 from 1000",
            "3 of 4096 bytes",
            "seals 1",
            "ring",
            "1 completions",
        ] {
            assert!(shown.contains(word), "{word}: {shown}");
        }
    }

    #[test]
    fn inconsistent_images_are_refused() {
        let bad = |change: fn(&mut Image)| {
            let mut image = image();
            change(&mut image);
            assert!(matches!(Image::decode(&image.encode().unwrap()), Err(ImageError::Inconsistent(_))), "{image:?}");
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
        bad(|i| i.areas[2].end += 4 << 20);
        bad(|i| i.process.rings[0].start = 0x3000);
        bad(|i| i.process.rings[0].events = vec![[0; 4]; 127]);
        bad(|i| i.objects.pipes[0].capacity = 2);
        bad(|i| i.process.settings.push((38, 1)));
        bad(|i| i.process.barriers = 1);
        bad(|i| i.process.permitted = 1);
        bad(|i| i.process.dumpable = 3);
        bad(|i| i.process.actions.clear());
        bad(|i| i.files[0].path = b"bin\0".to_vec());
    }
}
