//! Messages in the memory of a PVM task: `struct pmsg` of PVM 3.4 (src/pmsg.h), on a 64-bit
//! machine.

use super::bytes::{u32_at, u64_at};

/// So many bytes of each are read.
pub const MESSAGE_BYTES: usize = 72;

/// A message, or the head of a list of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Address of the next one (`m_link`).
    pub next: u64,
    /// Address of the one before (`m_rlink`).
    pub previous: u64,
    /// Address of its content (`m_frag`); 0: this is the head of a list.
    pub content: u64,
    /// Bytes of its content (`m_len`).
    pub bytes: u32,
}

/// Reads a message.
pub fn read(bytes: &[u8]) -> Option<Message> {
    Some(Message {
        next: u64_at(bytes, 0)?,
        previous: u64_at(bytes, 8)?,
        content: u64_at(bytes, 24)?,
        bytes: u32_at(bytes, 48)?,
    })
}

/// So many bytes of each fragment are read.
pub const FRAGMENT_BYTES: usize = 40;
/// Entries of `txlist`, a ring of pointers to messages (src/lpvm.c).
pub const TO_SEND_ENTRIES: u32 = 100;

/// A fragment of a message (`struct frag`, src/pvmfrag.h), or the head of its fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Address of the next one (`fr_link`).
    pub next: u64,
    /// Bytes of its content (`fr_len`).
    pub bytes: u32,
}

/// Reads a fragment.
pub fn read_fragment(bytes: &[u8]) -> Option<Fragment> {
    Some(Fragment { next: u64_at(bytes, 0)?, bytes: u32_at(bytes, 36)? })
}

/// Sums up the fragments of a message. `at` reads the fragment at an address. A message that is
/// packed has no other length.
pub fn fragment_bytes(head: u64, at: impl Fn(u64) -> Option<Fragment>) -> Result<u64, Broken> {
    const FRAGMENTS_MAX: u32 = 1_000_000;
    let (mut address, mut bytes) = (at(head).ok_or(Broken::Changing)?.next, 0);
    for _ in 0..FRAGMENTS_MAX {
        if address == head {
            return Ok(bytes);
        }
        let fragment = at(address).ok_or(Broken::Changing)?;
        bytes += u64::from(fragment.bytes);
        address = fragment.next;
    }
    Err(Broken::TooLong)
}

/// Lists the entries of `txlist` that hold messages, by the places of its reader and writer.
pub fn to_send(reader: u32, writer: u32) -> impl Iterator<Item = u32> {
    let is_sound = reader < TO_SEND_ENTRIES && writer < TO_SEND_ENTRIES;
    let count = if is_sound { (writer + TO_SEND_ENTRIES - reader) % TO_SEND_ENTRIES } else { 0 };
    (0..count).map(move |n| (reader + n) % TO_SEND_ENTRIES)
}

/// Number and size of the messages of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Messages that wait.
    pub messages: u64,
    /// Bytes of their contents.
    pub bytes: u64,
}

/// Why a list cannot be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// A part of the memory cannot be read, or is no message: the list changes, or is none.
    Changing,
    /// There are more than [`MESSAGES_MAX`].
    TooLong,
}

/// The most messages of a list that are counted.
pub const MESSAGES_MAX: u64 = 100_000;

/// Counts the messages of the list with this head. `at` reads the message at an address. The task
/// runs meanwhile: links that do not lead back to the head, or that do not point at each other,
/// are not believed.
pub fn count(head: u64, mut at: impl FnMut(u64) -> Option<Message>) -> Result<Waiting, Broken> {
    let first = at(head).filter(|message| message.content == 0).ok_or(Broken::Changing)?;
    let (mut waiting, mut address, mut before) = (Waiting::default(), first.next, head);
    while address != head {
        let message = at(address).filter(|m| m.content != 0 && m.previous == before).ok_or(Broken::Changing)?;
        waiting.messages += 1;
        waiting.bytes += u64::from(message.bytes);
        if waiting.messages > MESSAGES_MAX {
            return Err(Broken::TooLong);
        }
        (before, address) = (address, message.next);
    }
    let last = at(head).ok_or(Broken::Changing)?;
    if last.previous == before && last.next == first.next { Ok(waiting) } else { Err(Broken::Changing) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: u64 = 0x1000;

    /// A list of so many messages of 100 bytes.
    fn list(count: u64) -> impl Fn(u64) -> Option<Message> {
        move |address| {
            let index = (address - HEAD) / 0x100;
            let place = |index: u64| HEAD + index % (count + 1) * 0x100;
            (index <= count).then(|| Message {
                next: place(index + 1),
                previous: place(index + count),
                content: index,
                bytes: 100,
            })
        }
    }

    #[test]
    fn messages_are_counted() {
        assert_eq!(count(HEAD, list(0)), Ok(Waiting { messages: 0, bytes: 0 }));
        assert_eq!(count(HEAD, list(22)), Ok(Waiting { messages: 22, bytes: 2200 }));
    }

    #[test]
    fn lists_that_change_are_not_believed() {
        let own = list(3);
        let turned = |address| {
            own(address).map(|m| Message { next: if address == HEAD + 0x200 { HEAD + 0x100 } else { m.next }, ..m })
        };
        assert_eq!(count(HEAD, turned), Err(Broken::Changing));
        assert_eq!(count(HEAD, |address| own(address).filter(|_| address != HEAD + 0x300)), Err(Broken::Changing));
    }

    #[test]
    fn lists_without_end_are_left() {
        let endless = |address: u64| {
            let next = address + 0x100;
            Some(Message { next, previous: address.wrapping_sub(0x100), content: address - HEAD, bytes: 1 })
        };
        assert_eq!(count(HEAD, endless), Err(Broken::TooLong));
    }

    #[test]
    fn fragments_are_summed_up() {
        let ring =
            |address: u64| Some(Fragment { next: (address + 1) % 4, bytes: if address == 0 { 999 } else { 10 } });
        assert_eq!(fragment_bytes(0, ring), Ok(30));
        assert_eq!(fragment_bytes(0, |address| ring(address).filter(|_| address != 2)), Err(Broken::Changing));
        assert_eq!(fragment_bytes(0, |_| Some(Fragment { next: 5, bytes: 1 })), Err(Broken::TooLong));
        let mut bytes = [0; FRAGMENT_BYTES];
        bytes[36..40].copy_from_slice(&7u32.to_ne_bytes());
        assert_eq!(read_fragment(&bytes), Some(Fragment { next: 0, bytes: 7 }));
    }

    #[test]
    fn the_ring_of_messages_to_send_wraps() {
        assert_eq!(to_send(98, 1).collect::<Vec<_>>(), [98, 99, 0]);
        assert_eq!((to_send(5, 5).count(), to_send(100, 3).count(), to_send(0, u32::MAX).count()), (0, 0, 0));
    }

    #[test]
    fn a_message_is_laid_out_as_pvm_does() {
        let mut bytes = [0; MESSAGE_BYTES];
        bytes[..8].copy_from_slice(&1u64.to_ne_bytes());
        bytes[8..16].copy_from_slice(&2u64.to_ne_bytes());
        bytes[24..32].copy_from_slice(&3u64.to_ne_bytes());
        bytes[48..52].copy_from_slice(&4u32.to_ne_bytes());
        assert_eq!(read(&bytes), Some(Message { next: 1, previous: 2, content: 3, bytes: 4 }));
        assert_eq!(read(&bytes[..40]), None);
    }
}
