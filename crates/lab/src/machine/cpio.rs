//! The archive that a kernel unpacks as its first files
//! (Documentation/driver-api/early-userspace/buffer-format.rst: `newc`). It is not compressed,
//! because an emulated CPU copies faster than it decompresses.

/// The modes of a directory, a program and a device.
const DIRECTORY: u32 = libc::S_IFDIR | 0o755;
const PROGRAM: u32 = libc::S_IFREG | 0o755;
const DEVICE: u32 = libc::S_IFCHR | 0o600;

/// The number of a device.
#[derive(Clone, Copy)]
struct Device {
    major: u32,
    minor: u32,
}

const NO_DEVICE: Device = Device { major: 0, minor: 0 };

/// An archive under construction.
#[derive(Default)]
pub struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    /// Adds a directory.
    pub fn directory(&mut self, path: &str) {
        self.entry(path, DIRECTORY, NO_DEVICE, &[]);
    }

    /// Adds a file that all users may read and execute.
    pub fn file(&mut self, path: &str, content: &[u8]) {
        self.entry(path, PROGRAM, NO_DEVICE, content);
    }

    /// Adds a character device.
    pub fn device(&mut self, path: &str, major: u32, minor: u32) {
        self.entry(path, DEVICE, Device { major, minor }, &[]);
    }

    /// Ends the archive, and gives its bytes.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, NO_DEVICE, &[]);
        self.bytes
    }

    fn entry(&mut self, path: &str, mode: u32, device: Device, content: &[u8]) {
        self.entries += 1;
        let name_bytes = path.len() as u32 + 1;
        // The fields are inode, mode, uid, gid, links, mtime, size, device's major and minor,
        // rdev's major and minor, name's size, check sum.
        let fields =
            [self.entries, mode, 0, 0, 1, 0, content.len() as u32, 0, 0, device.major, device.minor, name_bytes, 0];
        self.bytes.extend(b"070701");
        fields.iter().for_each(|field| self.bytes.extend(format!("{field:08X}").as_bytes()));
        self.bytes.extend(path.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_aligned_and_end_with_the_trailer() {
        let mut archive = Archive::default();
        archive.directory("bin");
        archive.file("bin/a", b"hello");
        let bytes = archive.finish();
        assert_eq!(bytes.len() % 4, 0);
        assert_eq!(&bytes[..6], b"070701");
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(text.matches("070701").count(), 3);
        assert_eq!(text.find("hello").unwrap() % 4, 0);
        assert!(text.contains("TRAILER!!!\0"));
    }
}
