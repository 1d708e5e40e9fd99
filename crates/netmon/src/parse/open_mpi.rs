//! Queues in the memory of a rank of Open MPI, on a 64-bit machine.
//!
//! Open MPI's objects say themselves of which class they are: their first word points at the class,
//! which names itself and its size (opal/class/opal_object.h). So no offset inside a communicator
//! or a queue needs to be known of a build. Netmon knows the order of queues (`ompi/mca/pml/
//! ob1/pml_ob1_comm.h`), the place of a list's length (opal/class/opal_list.h), and for bytes the
//! layout of fragments, which is believed for one size of theirs alone.
//!
//! The memory is another user's, and changes meanwhile: every count is bounded.

use std::collections::HashMap;

use super::bytes::u64_at;

/// Reads the memory of a rank.
pub trait Memory {
    /// Reads the bytes at an address; `None`: there are none.
    fn read(&self, address: u64, bytes: &mut [u8]) -> Option<()>;
}

/// Messages that wait in a rank, in all its communicators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queues {
    /// Messages that came and that no receive wants, as MPI_T counts them
    /// (`pml_ob1_unexpected_msgq_length`).
    pub unexpected: u64,
    /// Bytes of these messages; `None`: the build or the number of messages does not allow it.
    pub unexpected_bytes: Option<u64>,
    /// Receives for which no message came, those of any source included.
    pub posted: u64,
}

/// Why a rank is not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uncounted {
    /// MPI has not begun, or the rank changed while it was read.
    NotNow,
    /// The rank has communicators, and none of them has queues of the PML ob1.
    OtherPml,
}

/// Words of `ompi_mpi_communicators`, an `opal_pointer_array_t`.
const ARRAY_WORDS: usize = 15;
/// Its `max_size`, which tells that the words are meant.
const ARRAY_MAX: u64 = 0x7fff_ffff;
const COMMUNICATORS_MAX: usize = 4096;
const RANKS_MAX: usize = 65_536;
/// The largest object that is read.
const OBJECT_BYTES_MAX: u64 = 4096;
/// Of longer queues, bytes are not summed up.
const SUMMED_MAX: u64 = 2_000;
/// The longest queue that is believed.
const LENGTH_MAX: u64 = 1 << 32;
/// So many classes are remembered.
const CLASSES_MAX: usize = 1000;

/// Offsets in a class: its name, and the size of its objects.
const CLASS_NAME: usize = 0;
const CLASS_SIZE: usize = 56;
/// Offsets in a list: the sentinel, its links, and the number of items.
const SENTINEL: u64 = 16;
const LIST_NEXT: usize = 32;
const LIST_LENGTH: usize = 56;
const LIST_BYTES: usize = 64;
/// Offsets in an item of a list.
const ITEM_NEXT: usize = 16;
const ITEM_PREVIOUS: usize = 24;
/// The layout of fragments of this size is known (Open MPI 4.0 and 4.1).
const FRAGMENT_SIZE: u64 = 656;
/// Offsets in a fragment: the message's header, and the bytes that came with it, header included.
const FRAGMENT_HEADER: usize = 56;
const FRAGMENT_CAME: usize = 144;
/// Of a header: the kind, the length of the whole message if that is larger, the header's length.
const HEADER_MATCH: u8 = 65;
const HEADER_LARGE: [u8; 2] = [66, 67];
const HEADER_MESSAGE: usize = 16;
const HEADER_BYTES: u64 = 14;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Communicator,
    PmlCommunicator,
    Peer,
    List,
    Fragment,
    Other,
}

#[derive(Clone, Copy, Debug)]
struct Class {
    kind: Kind,
    size: u64,
}

/// An object with its bytes.
struct Object {
    class: Class,
    bytes: Vec<u8>,
}

/// Counts the queues of one rank, and remembers the classes that it has met there.
#[derive(Debug, Default)]
pub struct Counter {
    classes: HashMap<u64, Class>,
}

impl Counter {
    /// Counts the queues. `communicators` is the address of `ompi_mpi_communicators`.
    ///
    /// # Errors
    /// See [`Uncounted`].
    pub fn count(&mut self, communicators: u64, memory: &impl Memory) -> Result<Queues, Uncounted> {
        let list = self.communicators(communicators, memory).ok_or(Uncounted::NotNow)?;
        let (mut queues, mut is_ob1) = (Queues { unexpected_bytes: Some(0), ..Queues::default() }, false);
        for address in list {
            let communicator = self.object(address, Kind::Communicator, memory).ok_or(Uncounted::NotNow)?;
            // MPI_COMM_NULL has none.
            let Some(pml) = self.first_pointer(&communicator.bytes, Kind::PmlCommunicator, memory) else { continue };
            is_ob1 = true;
            self.add_communicator(pml, &mut queues, memory).ok_or(Uncounted::NotNow)?;
        }
        if is_ob1 { Ok(queues) } else { Err(Uncounted::OtherPml) }
    }

    /// Lists the addresses of all communicators.
    fn communicators(&mut self, array: u64, memory: &impl Memory) -> Option<Vec<u64>> {
        let words: Vec<u64> = words(&read::<{ ARRAY_WORDS * 8 }>(array, memory)?).collect();
        for at in (3..ARRAY_WORDS).rev() {
            let numbers = words.get(at - 3..at)?;
            // number_free and size, lowest_free behind them: `size` and `max_size` share a word.
            let (size, max) = (numbers[0] & 0xffff_ffff, numbers[0] >> 32);
            if max != ARRAY_MAX || size == 0 || size > COMMUNICATORS_MAX as u64 {
                continue;
            }
            let mut bytes = vec![0; size as usize * 8];
            memory.read(words[at], &mut bytes)?;
            let found: Vec<u64> = self::words(&bytes).filter(|address| *address != 0).collect();
            if self.kind(*found.first()?, memory) == Some(Kind::Communicator) {
                return Some(found);
            }
        }
        None
    }

    /// Adds the queues of a communicator: those of each peer, and the receives from any source.
    fn add_communicator(&mut self, pml: u64, queues: &mut Queues, memory: &impl Memory) -> Option<()> {
        let object = self.object(pml, Kind::PmlCommunicator, memory)?;
        let any_source = *self.lists(pml, &object.bytes, memory).first()?;
        queues.posted += any_source.length;
        for peer in self.peers(&object.bytes, memory)? {
            let peer_object = self.object(peer, Kind::Peer, memory)?;
            let lists = self.lists(peer, &peer_object.bytes, memory);
            // Builds of Open MPI before 4.0 have a list before these.
            let [.., posted, unexpected] = lists.as_slice() else { return None };
            queues.posted += posted.length;
            queues.unexpected += unexpected.length;
            let bytes = self.bytes_of(*unexpected, memory);
            queues.unexpected_bytes = queues.unexpected_bytes.zip(bytes).map(|(sum, bytes)| sum + bytes);
        }
        Some(())
    }

    /// Lists the peers that have sent something or were asked for something. The array of all is a
    /// pointer, and behind it is its length.
    fn peers(&mut self, pml: &[u8], memory: &impl Memory) -> Option<Vec<u64>> {
        let words: Vec<u64> = words(pml).collect();
        for pair in words.windows(2) {
            let (array, count) = (pair[0], pair[1]);
            if !array.is_multiple_of(8) || array == 0 || count == 0 || count > RANKS_MAX as u64 {
                continue;
            }
            let mut bytes = vec![0; count as usize * 8];
            if memory.read(array, &mut bytes).is_none() {
                continue;
            }
            let found: Vec<u64> = self::words(&bytes).filter(|address| *address != 0).collect();
            if found.first().is_some_and(|peer| self.kind(*peer, memory) == Some(Kind::Peer)) {
                return Some(found);
            }
        }
        Some(Vec::new())
    }

    /// Finds the lists in an object, which is at this address.
    fn lists(&mut self, address: u64, bytes: &[u8], memory: &impl Memory) -> Vec<List> {
        let mut found = Vec::new();
        let mut at = 0;
        while let Some(class) = u64_at(bytes, at) {
            let list = (at > 0 && self.class(class, memory).is_some_and(|class| class.kind == Kind::List))
                .then(|| List::read(address + at as u64, bytes.get(at..)?))
                .flatten();
            found.extend(list);
            at += if list.is_some() { LIST_BYTES } else { 8 };
        }
        found
    }

    /// Sums up the messages of a list; `None`: the layout is not known, or the list is too long, or
    /// changes.
    fn bytes_of(&mut self, list: List, memory: &impl Memory) -> Option<u64> {
        if list.length > SUMMED_MAX {
            return None;
        }
        let (mut bytes, mut before, mut address) = (0, list.sentinel, list.first);
        for _ in 0..list.length {
            let fragment = self.object(address, Kind::Fragment, memory)?;
            let is_sound = fragment.class.size == FRAGMENT_SIZE && u64_at(&fragment.bytes, ITEM_PREVIOUS)? == before;
            if !is_sound {
                return None;
            }
            bytes += message_bytes(&fragment.bytes)?;
            (before, address) = (address, u64_at(&fragment.bytes, ITEM_NEXT)?);
        }
        (address == list.sentinel).then_some(bytes)
    }

    /// Gives the first word of an object that points at an object of this kind.
    fn first_pointer(&mut self, bytes: &[u8], kind: Kind, memory: &impl Memory) -> Option<u64> {
        words(bytes)
            .filter(|address| *address != 0 && address.is_multiple_of(8))
            .find(|a| self.kind(*a, memory) == Some(kind))
    }

    /// Reads an object of this kind.
    fn object(&mut self, address: u64, kind: Kind, memory: &impl Memory) -> Option<Object> {
        let class = self.class(u64::from_ne_bytes(read(address, memory)?), memory)?;
        if class.kind != kind || class.size > OBJECT_BYTES_MAX {
            return None;
        }
        let mut bytes = vec![0; class.size as usize];
        memory.read(address, &mut bytes)?;
        Some(Object { class, bytes })
    }

    fn kind(&mut self, address: u64, memory: &impl Memory) -> Option<Kind> {
        let class = u64::from_ne_bytes(read(address, memory)?);
        self.class(class, memory).map(|class| class.kind)
    }

    /// Reads a class, if there is one at this address. Only those that are looked for are
    /// remembered: anything else may become one of them.
    fn class(&mut self, address: u64, memory: &impl Memory) -> Option<Class> {
        if address == 0 || !address.is_multiple_of(8) {
            return None;
        }
        if let Some(class) = self.classes.get(&address) {
            return Some(*class);
        }
        let head = read::<64>(address, memory)?;
        let name = read::<32>(u64_at(&head, CLASS_NAME)?, memory)?;
        let kind = match name.split(|byte| *byte == 0).next()? {
            b"ompi_communicator_t" => Kind::Communicator,
            b"mca_pml_ob1_comm_t" => Kind::PmlCommunicator,
            b"mca_pml_ob1_comm_proc_t" => Kind::Peer,
            b"opal_list_t" => Kind::List,
            b"mca_pml_ob1_recv_frag_t" => Kind::Fragment,
            _ => Kind::Other,
        };
        let class = Class { kind, size: u64_at(&head, CLASS_SIZE)? };
        if kind != Kind::Other && self.classes.len() < CLASSES_MAX {
            self.classes.insert(address, class);
        }
        Some(class)
    }
}

/// A list (`opal_list_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct List {
    /// Address of the item that stands for both ends.
    sentinel: u64,
    /// Address of the first item.
    first: u64,
    length: u64,
}

impl List {
    fn read(address: u64, bytes: &[u8]) -> Option<List> {
        let length = u64_at(bytes, LIST_LENGTH).filter(|length| *length <= LENGTH_MAX)?;
        Some(List { sentinel: address + SENTINEL, first: u64_at(bytes, LIST_NEXT)?, length })
    }
}

/// Gives the length of the message of which this is the first fragment.
fn message_bytes(fragment: &[u8]) -> Option<u64> {
    match *fragment.get(FRAGMENT_HEADER)? {
        HEADER_MATCH => u64_at(fragment, FRAGMENT_CAME)?.checked_sub(HEADER_BYTES),
        kind if HEADER_LARGE.contains(&kind) => u64_at(fragment, FRAGMENT_HEADER + HEADER_MESSAGE),
        _ => None,
    }
    .filter(|bytes| *bytes <= LENGTH_MAX)
}

fn read<const LENGTH: usize>(address: u64, memory: &impl Memory) -> Option<[u8; LENGTH]> {
    let mut bytes = [0; LENGTH];
    memory.read(address, &mut bytes)?;
    Some(bytes)
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks_exact(8).filter_map(|word| u64_at(word, 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BASE: u64 = 0x10000;

    /// Bytes from [`BASE`] on.
    struct Image(Vec<u8>);

    impl Memory for Image {
        fn read(&self, address: u64, bytes: &mut [u8]) -> Option<()> {
            let at = usize::try_from(address.checked_sub(BASE)?).ok()?;
            bytes.copy_from_slice(self.0.get(at..at.checked_add(bytes.len())?)?);
            Some(())
        }
    }

    impl Image {
        fn add(&mut self, bytes: &[u8]) -> u64 {
            let address = BASE + self.0.len() as u64;
            self.0.extend(bytes);
            self.0.resize(self.0.len().next_multiple_of(8), 0);
            address
        }

        fn set(&mut self, address: u64, word: u64) {
            let at = (address - BASE) as usize;
            self.0[at..at + 8].copy_from_slice(&word.to_ne_bytes());
        }

        fn class(&mut self, name: &str, size: u64) -> u64 {
            let name = self.add(&[name.as_bytes(), &[0; 32]].concat());
            let class = self.add(&[0; 64]);
            self.set(class, name);
            self.set(class + 56, size);
            class
        }

        fn object(&mut self, class: u64, size: usize) -> u64 {
            let object = self.add(&vec![0; size]);
            self.set(object, class);
            object
        }

        /// Makes an empty list of an object.
        fn list(&mut self, at: u64, class: u64) {
            self.set(at, class);
            self.set(at + 32, at + SENTINEL);
            self.set(at + 40, at + SENTINEL);
        }

        /// Adds messages of these sizes to an empty list.
        fn fill(&mut self, list: u64, class: u64, sizes: &[u64]) {
            let (mut before, mut link) = (list + SENTINEL, list + 32);
            for size in sizes {
                let fragment = self.object(class, FRAGMENT_SIZE as usize);
                self.set(fragment + 56, if *size > 4000 { 67 } else { 65 });
                self.set(fragment + 72, *size);
                self.set(fragment + 144, size + 14);
                self.set(fragment + 24, before);
                self.set(link, fragment);
                (before, link) = (fragment, fragment + 16);
            }
            self.set(link, list + SENTINEL);
            self.set(list + 56, sizes.len() as u64);
        }
    }

    /// A rank with two receives from any source, one from rank 1, and messages of these sizes.
    fn rank(sizes: &[u64]) -> (Image, u64) {
        let mut image = Image(Vec::new());
        let lists = image.class("opal_list_t", 64);
        let fragments = image.class("mca_pml_ob1_recv_frag_t", FRAGMENT_SIZE);
        let peers = image.class("mca_pml_ob1_comm_proc_t", 168);
        let peer = image.object(peers, 168);
        image.list(peer + 40, lists);
        image.set(peer + 96, 1);
        image.list(peer + 104, lists);
        image.fill(peer + 104, fragments, sizes);
        let array = image.add(&[0; 16]);
        image.set(array + 8, peer);
        let pmls = image.class("mca_pml_ob1_comm_t", 240);
        let pml = image.object(pmls, 240);
        image.list(pml + 88, lists);
        image.set(pml + 144, 2);
        image.set(pml + 216, array);
        image.set(pml + 224, 2);
        let communicators = image.class("ompi_communicator_t", 352);
        let world = image.object(communicators, 352);
        image.set(world + 328, pml);
        let null = image.object(communicators, 352);
        let pointers = image.add(&[0; 32]);
        image.set(pointers, world);
        image.set(pointers + 16, null);
        let table = image.add(&[0; 120]);
        image.set(table + 88, ARRAY_MAX << 32 | 4);
        image.set(table + 112, pointers);
        (image, table)
    }

    #[test]
    fn messages_and_receives_are_counted() {
        let (image, table) = rank(&[1000, 1, 300_000]);
        let expected = Queues { unexpected: 3, unexpected_bytes: Some(301_001), posted: 3 };
        assert_eq!(Counter::default().count(table, &image), Ok(expected));
        let (image, table) = rank(&[]);
        assert_eq!(Counter::default().count(table, &image).map(|queues| queues.unexpected), Ok(0));
    }

    #[test]
    fn other_queues_than_those_of_ob1_are_told() {
        let (mut image, table) = rank(&[]);
        let name = image.0.windows(18).position(|bytes| bytes == b"mca_pml_ob1_comm_t").unwrap();
        image.0[name] = b'x';
        assert_eq!(Counter::default().count(table, &image), Err(Uncounted::OtherPml));
        assert_eq!(Counter::default().count(BASE, &Image(vec![0; 200])), Err(Uncounted::NotNow));
    }

    proptest! {
        #[test]
        fn any_memory_is_read_without_harm(at in 0usize..4000, word in any::<u64>()) {
            let (mut image, table) = rank(&[1, 2, 3]);
            let at = BASE + (at as u64 * 8) % (image.0.len() as u64 - 8);
            image.set(at, word);
            let _ = Counter::default().count(table, &image);
            image.set(at, BASE + word % 0x1000 / 8 * 8);
            let _ = Counter::default().count(table, &image);
        }
    }
}
