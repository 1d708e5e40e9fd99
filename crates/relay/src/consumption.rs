//! The count of a pair's bytes that the program has read. Pure.
//!
//! For a Unix stream the kernel tells the writer the memory of the messages that the reader has not
//! finished (SIOCOUTQ), not their bytes. Messages are read in order and are freed whole. So it is
//! enough to note, with each write, by how much that number grew.

use std::collections::VecDeque;

/// One write: one message of the kernel's, if it has at most [`Consumption::BYTES_MAX`].
#[derive(Clone, Copy, Debug)]
struct Written {
    bytes: u64,
    memory: usize,
}

/// The writes that the reader has not finished.
#[derive(Clone, Debug, Default)]
pub struct Consumption {
    unread: VecDeque<Written>,
    memory: usize,
    written: u64,
    read: u64,
}

impl Consumption {
    /// The most bytes of a write that the kernel makes one message of: the linear part that it
    /// gives a message (`SKB_MAX_HEAD` and `UNIX_SKB_FRAGS_SZ` in net/unix/af_unix.c).
    pub const BYTES_MAX: usize = 32 << 10;

    /// Notes a write of `bytes`, after which the kernel counts `memory`. Ask [`Consumption::look`]
    /// right before the write.
    pub fn write(&mut self, bytes: usize, memory: usize) {
        let grown = memory.saturating_sub(self.memory);
        self.memory = memory;
        self.written += bytes as u64;
        self.unread.push_back(Written { bytes: bytes as u64, memory: grown });
    }

    /// Notes that the kernel counts `memory` now, and gives the bytes that the reader has read for
    /// certain.
    pub fn look(&mut self, memory: usize) -> u64 {
        let mut freed = self.memory.saturating_sub(memory);
        while let Some(first) = self.unread.front()
            && (first.memory <= freed || memory == 0)
        {
            freed = freed.saturating_sub(first.memory);
            self.memory = self.memory.saturating_sub(first.memory);
            self.read += first.bytes;
            self.unread.pop_front();
        }
        self.read
    }

    /// Gives the bytes that the reader had read when that was looked at last.
    pub fn read(&self) -> u64 {
        self.read
    }

    /// Gives the bytes that were written so far.
    pub fn written(&self) -> u64 {
        self.written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_in_order_and_whole() {
        let mut consumption = Consumption::default();
        assert_eq!(consumption.look(0), 0);
        consumption.write(10, 768);
        consumption.write(1000, 768 + 2304);
        consumption.write(5, 768 + 2304 + 768);
        assert_eq!(consumption.look(768 + 2304 + 768), 0);
        assert_eq!(consumption.look(2304 + 768), 10);
        assert_eq!(consumption.look(768), 1010);
        consumption.write(7, 768 + 768);
        assert_eq!(consumption.look(768), 1015);
        assert_eq!(consumption.look(0), 1022);
        assert_eq!(consumption.written(), 1022);
    }
}
