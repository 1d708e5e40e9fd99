//! Parsing of requests. Requests come from another machine, so every length is checked.

use super::{DIR_BIT, FsyncIn, GetattrIn, IN_HEADER_BYTES, InHeader, LkIn, NAME_MAX, Opcode, ReadIn, SetattrIn};
use std::ffi::CStr;
use zerocopy::{FromBytes, Immutable, KnownLayout};

/// Why bytes are no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The bytes are fewer than the header and arguments need.
    #[error("FUSE request is cut short: {have} bytes, {need} needed")]
    Short {
        /// Number of bytes present.
        have: usize,
        /// Number of bytes needed.
        need: usize,
    },
    /// The length in the header differs from the number of bytes received.
    #[error("FUSE request says it has {says} bytes but has {have}")]
    Length {
        /// Length in the header.
        says: usize,
        /// Number of bytes present.
        have: usize,
    },
    /// The name is no file name: empty, `.`, `..`, with a slash, or without a NUL.
    #[error("FUSE request holds no proper file name")]
    Name,
    /// The file name is longer than [`NAME_MAX`].
    #[error("file name has {0} bytes, more than {NAME_MAX}")]
    NameTooLong(usize),
}

/// A request: its header, and the rest.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Header of the request.
    pub header: InHeader,
    /// The operation; `None` if it is not known.
    pub opcode: Option<Opcode>,
    /// Arguments, names and data.
    pub body: &'a [u8],
}

/// Gives the requesting thread, by its id in the room; 0 if the kernel asks by itself, or does not
/// tell.
pub fn asker(bytes: &[u8]) -> u32 {
    Request::parse(bytes).map_or(0, |request| request.header.pid)
}

/// Gives the handle of a request, if it is that of a directory which the room has opened without
/// home.
pub fn directory_handle(request: &Request<'_>) -> Option<u64> {
    let mut args = request.args();
    let fh = match request.opcode? {
        Opcode::Readdir | Opcode::Readdirplus => args.take::<ReadIn>().ok()?.fh,
        Opcode::Fsyncdir => args.take::<FsyncIn>().ok()?.fh,
        Opcode::Getlk | Opcode::Setlk | Opcode::Setlkw => args.take::<LkIn>().ok()?.fh,
        Opcode::Getattr => args.take::<GetattrIn>().ok()?.fh,
        Opcode::Setattr => args.take::<SetattrIn>().ok()?.fh,
        _ => return None,
    };
    (fh & DIR_BIT != 0).then_some(fh)
}

impl<'a> Request<'a> {
    /// Splits off the header.
    ///
    /// # Errors
    /// The bytes are fewer than the header tells, or not as many.
    pub fn parse(bytes: &'a [u8]) -> Result<Request<'a>, Malformed> {
        let (header, body) = InHeader::read_from_prefix(bytes)
            .map_err(|_| Malformed::Short { have: bytes.len(), need: IN_HEADER_BYTES })?;
        if header.len as usize != bytes.len() {
            return Err(Malformed::Length { says: header.len as usize, have: bytes.len() });
        }
        // Extensions follow the arguments. None was asked for, so they are ignored.
        let extension_bytes = usize::from(header.total_extlen) * 8;
        let body = body
            .get(..body.len().wrapping_sub(extension_bytes))
            .ok_or(Malformed::Short { have: bytes.len(), need: IN_HEADER_BYTES + extension_bytes })?;
        Ok(Request { header, opcode: Opcode::from_number(header.opcode), body })
    }

    /// Gives a reader of the arguments.
    pub fn args(&self) -> Args<'a> {
        Args { rest: self.body }
    }

    /// Gives the nodes of the request: its own, and the second one of RENAME, LINK and
    /// COPY_FILE_RANGE (else 0).
    pub fn nodes(&self) -> [u64; 2] {
        let second = match self.opcode {
            Some(Opcode::Rename | Opcode::Rename2 | Opcode::Link) => self.word_at(0),
            Some(Opcode::CopyFileRange) => self.word_at(16),
            _ => 0,
        };
        [self.header.nodeid, second]
    }

    fn word_at(&self, at: usize) -> u64 {
        self.body.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
    }
}

/// A reader of the arguments, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a> {
    rest: &'a [u8],
}

impl<'a> Args<'a> {
    /// Reads the next fixed struct.
    pub fn take<T: FromBytes + KnownLayout + Immutable>(&mut self) -> Result<T, Malformed> {
        let (value, rest) = T::read_from_prefix(self.rest)
            .map_err(|_| Malformed::Short { have: self.rest.len(), need: size_of::<T>() })?;
        self.rest = rest;
        Ok(value)
    }

    /// Reads the next NUL-terminated string, with any characters.
    pub fn string(&mut self) -> Result<&'a CStr, Malformed> {
        let string = CStr::from_bytes_until_nul(self.rest).map_err(|_| Malformed::Name)?;
        self.rest = &self.rest[string.count_bytes() + 1..];
        Ok(string)
    }

    /// Reads the next string, which must be one component of a path.
    pub fn name(&mut self) -> Result<&'a CStr, Malformed> {
        let name = self.string()?;
        let bytes = name.to_bytes();
        if bytes.len() > NAME_MAX {
            return Err(Malformed::NameTooLong(bytes.len()));
        }
        let proper = !bytes.is_empty() && bytes != b"." && bytes != b".." && !bytes.contains(&b'/');
        if proper { Ok(name) } else { Err(Malformed::Name) }
    }

    /// Reads the next `len` bytes.
    pub fn bytes(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let have = self.rest.len();
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(Malformed::Short { have, need: len })?;
        self.rest = rest;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::IntoBytes;

    fn request(body: &[u8]) -> Vec<u8> {
        let header =
            InHeader { len: (IN_HEADER_BYTES + body.len()) as u32, opcode: 1, nodeid: 7, ..Default::default() };
        [header.as_bytes(), body].concat()
    }

    #[test]
    fn names_are_single_components() {
        for (bytes, good) in [
            (&b"a\0"[..], true),
            (b"...\0", true),
            (b"\0", false),
            (b".\0", false),
            (b"..\0", false),
            (b"a/b\0", false),
            (b"a", false),
            (&[&[b'x'; 255][..], b"\0"].concat(), true),
            (&[&[b'x'; 256][..], b"\0"].concat(), false),
        ] {
            let raw = request(bytes);
            let parsed = Request::parse(&raw).unwrap();
            assert_eq!(parsed.args().name().is_ok(), good, "{bytes:?}");
        }
    }

    #[test]
    fn lengths_are_checked() {
        let mut raw = request(b"name\0");
        assert!(Request::parse(&raw).is_ok());
        assert!(matches!(Request::parse(&raw[..raw.len() - 1]), Err(Malformed::Length { .. })));
        assert!(matches!(Request::parse(&raw[..10]), Err(Malformed::Short { .. })));
        raw[36] = 200; // an extension longer than the request
        assert!(matches!(Request::parse(&raw), Err(Malformed::Short { .. })));
        assert!(Request::parse(&request(b"abc")).unwrap().args().take::<u64>().is_err());
    }
}
