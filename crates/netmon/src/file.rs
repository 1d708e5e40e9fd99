//! The file format of recordings (`Netmon.dat`).
//!
//! A file is [`MAGIC`] and blocks. A block is its length (4 bytes, little-endian), the first 8
//! bytes of the BLAKE3 hash of its content, and its content: records, one behind the other, as
//! postcard writes them. A writer appends whole blocks. If it is killed while it writes, the last
//! block is short or does not match its hash: a reader takes all blocks before it.

use crate::record::Record;

/// The first bytes of each file.
pub const MAGIC: &[u8; 8] = b"NETMON1\n";
const HEAD_BYTES: usize = 12;
/// The longest content of a block that a reader accepts.
const BLOCK_BYTES_MAX: usize = 16 << 20;
/// A writer ends a block at this length.
pub const BLOCK_BYTES: usize = 64 << 10;

/// Why bytes are no recording.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// The first bytes are others.
    #[error("this is no recording of netmon")]
    NotARecording,
    /// A block does not match its hash, or is of another version.
    #[error("the recording is damaged")]
    Damaged,
    /// A record cannot be written.
    #[error("a record cannot be encoded")]
    Encoding,
}

/// Collects records into a block.
#[derive(Debug, Default)]
pub struct Block {
    content: Vec<u8>,
}

impl Block {
    /// Makes a block of content that anybody wrote.
    #[cfg(any(test, feature = "fuzz"))]
    pub fn of(content: Vec<u8>) -> Block {
        Block { content }
    }

    /// Adds a record.
    pub fn add(&mut self, record: &Record) -> Result<(), Error> {
        self.content = postcard::to_extend(record, std::mem::take(&mut self.content)).map_err(|_| Error::Encoding)?;
        Ok(())
    }

    /// Gives the bytes of the records.
    pub fn len(&self) -> usize {
        self.content.len()
    }

    /// Tells whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.content.is_empty()
    }

    /// Gives the block as a file has it, and begins the next one.
    pub fn take(&mut self) -> Vec<u8> {
        let content = std::mem::take(&mut self.content);
        let mut bytes = (content.len() as u32).to_le_bytes().to_vec();
        bytes.extend(&blake3::hash(&content).as_bytes()[..8]);
        bytes.extend(content);
        bytes
    }
}

/// The records of a file, as far as it could be read.
#[derive(Debug, PartialEq, Eq)]
pub struct Recording {
    /// The records of all whole blocks.
    pub records: Vec<Record>,
    /// Bytes at the end that are no whole block: the writer was killed, or the file was damaged.
    pub torn_bytes: usize,
}

/// Reads a file. Bytes behind the first block that is not sound are not read.
///
/// # Errors
/// The file does not begin as a recording does.
pub fn read(bytes: &[u8]) -> Result<Recording, Error> {
    let mut rest = bytes.strip_prefix(MAGIC).ok_or(Error::NotARecording)?;
    let mut records = Vec::new();
    while let Some((content, behind)) = block(rest) {
        let mut added = Vec::new();
        if !read_records(content, &mut added) {
            break;
        }
        records.append(&mut added);
        rest = behind;
    }
    Ok(Recording { records, torn_bytes: rest.len() })
}

/// A file that comes in parts.
#[derive(Debug, Default)]
pub struct Parts {
    bytes: Vec<u8>,
    has_begun: bool,
}

impl Parts {
    /// Adds a part. Gives the records of all blocks that are whole now.
    ///
    /// # Errors
    /// The bytes are no recording, or a block is damaged.
    pub fn add(&mut self, part: &[u8]) -> Result<Vec<Record>, Error> {
        self.bytes.extend(part);
        if !self.has_begun {
            if self.bytes.len() < MAGIC.len() {
                return Ok(Vec::new());
            }
            self.bytes = self.bytes.strip_prefix(MAGIC).ok_or(Error::NotARecording)?.to_vec();
            self.has_begun = true;
        }
        let (mut records, mut rest) = (Vec::new(), self.bytes.as_slice());
        while let Some((content, behind)) = block(rest) {
            if !read_records(content, &mut records) {
                return Err(Error::Damaged);
            }
            rest = behind;
        }
        self.bytes = rest.to_vec();
        if is_damaged(&self.bytes) { Err(Error::Damaged) } else { Ok(records) }
    }
}

/// Tells whether no further bytes can make a block of these.
fn is_damaged(bytes: &[u8]) -> bool {
    let Some(length) = bytes.get(..4).and_then(|head| head.try_into().ok()).map(u32::from_le_bytes) else {
        return false;
    };
    let whole = (length as usize).saturating_add(HEAD_BYTES);
    length as usize > BLOCK_BYTES_MAX || bytes.len() >= whole
}

/// Splits the content of the first block off. `None`: there is no whole block.
fn block(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (head, rest) = bytes.split_at_checked(HEAD_BYTES)?;
    let (length, hash) = head.split_at_checked(4)?;
    let length = u32::from_le_bytes(length.try_into().ok()?) as usize;
    let (content, behind) = rest.split_at_checked(length).filter(|_| length <= BLOCK_BYTES_MAX)?;
    (blake3::hash(content).as_bytes().get(..8) == Some(hash)).then_some((content, behind))
}

/// Reads the records of a block. False: the content is none of this version's.
fn read_records(mut content: &[u8], records: &mut Vec<Record>) -> bool {
    while !content.is_empty() {
        let Ok((record, rest)) = postcard::take_from_bytes::<Record>(content) else { return false };
        records.push(record);
        content = rest;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::Layer;
    use crate::record::{Change, Object};
    use proptest::prelude::*;

    fn records(count: u64) -> Vec<Record> {
        let object = Object { id: 1, layer: Layer::Socket, name: "a".into(), pid: Some(7), details: Vec::new() };
        let sample = |n| Record::Sample { at_us: n, object: 1, changes: vec![Change::exact(0, n * 1000)] };
        std::iter::once(Record::Object(object)).chain((0..count).map(sample)).collect()
    }

    fn file(blocks: &[Vec<Record>]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        for records in blocks {
            let mut block = Block::default();
            records.iter().for_each(|record| block.add(record).unwrap());
            bytes.extend(block.take());
        }
        bytes
    }

    #[test]
    fn what_was_written_is_read() {
        let bytes = file(&[records(3), records(100)]);
        let read = read(&bytes).unwrap();
        assert_eq!((read.records, read.torn_bytes), ([records(3), records(100)].concat(), 0));
    }

    #[test]
    fn a_file_that_is_torn_anywhere_gives_all_whole_blocks() {
        let (first, both) = (file(&[records(3)]), file(&[records(3), records(20)]));
        for length in first.len()..both.len() {
            let read = read(&both[..length]).unwrap();
            assert_eq!((read.records, read.torn_bytes), (records(3), length - first.len()));
        }
    }

    #[test]
    fn a_file_that_comes_in_parts_is_read() {
        let mut whole = file(&[records(3), records(100)]);
        for length in [1, 7, 100, 1000] {
            let mut parts = Parts::default();
            let read: Vec<Record> = whole.chunks(length).flat_map(|part| parts.add(part).unwrap()).collect();
            assert_eq!(read, [records(3), records(100)].concat());
        }
        let last = whole.len() - 1;
        whole[last] ^= 1;
        assert_eq!(Parts::default().add(&whole), Err(Error::Damaged));
        assert_eq!(Parts::default().add(b"something else"), Err(Error::NotARecording));
        assert_eq!(Parts::default().add(&[MAGIC.as_slice(), &[255; 4]].concat()), Err(Error::Damaged));
    }

    #[test]
    fn a_damaged_block_ends_the_recording() {
        let (first, mut both) = (file(&[records(3)]), file(&[records(3), records(20)]));
        both[first.len() + HEAD_BYTES + 5] ^= 1;
        assert_eq!(read(&both).unwrap().records, records(3));
    }

    #[test]
    fn other_files_are_refused() {
        assert_eq!(read(b"hello"), Err(Error::NotARecording));
        assert_eq!(read(b""), Err(Error::NotARecording));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = read(&[MAGIC.as_slice(), &bytes].concat());
            // The same as content of a block that is sound.
            let mut block = Block::of(bytes);
            let _ = read(&[MAGIC.as_slice(), &block.take()].concat());
        }
    }
}
