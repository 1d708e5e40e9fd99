//! What is known of the stand-ins of regular files: their offsets, their ends, and the requests
//! that home answers.

use crate::state::answers::Answers;
use crate::state::files::standins::nodes::{attributes, node, standin};
use homefs::proto::{self, AttrOut, GetxattrOut, Kstatfs, LseekOut, WriteOut};
use os::ptrace::HostTid;
use room_protocol::message::{Descriptor, StandinId};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};

/// What is known of them.
#[derive(Default)]
pub struct Files {
    pub state: Mutex<FileTable>,
}

#[derive(Default)]
pub struct FileTable {
    /// Requests that home answers, by their numbers: what its answers are for, one after the other.
    pub asked: HashMap<u64, (StandinId, VecDeque<Step>)>,
    pub offsets: HashMap<StandinId, Offset>,
    /// Bytes of files when they were placed, if they are appended to.
    pub ends: HashMap<StandinId, u64>,
}

/// The kernel's offset here that means home's.
#[derive(Clone, Copy, Debug, Default)]
pub struct Offset {
    pub here: u64,
    /// What it was, and still is until this thread goes on: home has made its call, and it was told
    /// so.
    pub before: Option<(u64, HostTid)>,
    /// How often it was set: who has looked at the kernel's meanwhile looks again.
    pub times_set: u64,
}

/// So often the kernel's offset is looked at until it does not change meanwhile.
pub const LOOKS_MAX: usize = 100;

/// The meaning of the kernel's offset, as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It is home's.
    Same,
    /// A seek was made here alone.
    Sought,
    /// Who has moved it at home has not gone on yet, and holds it: nobody can have made a seek
    /// since.
    Late(HostTid),
    /// It was set meanwhile: this says nothing.
    Changed,
}

/// The purpose of one answer of home's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Something had to be done first.
    First,
    /// Bytes that were read; from the kernel's own offset, by this thread, if that is said.
    Read(Option<(u64, HostTid)>),
    /// Bytes that were written, likewise.
    Written(Option<(u64, HostTid)>),
    /// The answer is a `struct stat`.
    Attributes,
    /// An offset, which this thread's kernel will take.
    Sought(Option<HostTid>),
    /// An extended attribute, or their names; or the number of their bytes.
    Extended { counts: bool },
    /// The answer is a `struct statfs`.
    FileSystem,
    /// Nothing comes back.
    Done,
}

/// One of home's answers to a request: the stand-in that it is about, and what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpectedAnswer {
    /// The stand-in of the request.
    pub standin: StandinId,
    /// The use of the answer.
    pub step: Step,
}

/// `struct stat` and `struct statfs` (stat(2), statfs(2)).
pub const STAT_BYTES: usize = 144;

pub const STATFS_BYTES: usize = 120;

impl FileTable {
    pub fn set(&mut self, standin: StandinId, here: u64, before: Option<(u64, HostTid)>) {
        let times_set = self.offsets.get(&standin).map_or(1, |known| known.times_set + 1);
        self.offsets.insert(standin, Offset { here, before, times_set });
    }

    /// Takes what this answer of home's is for.
    pub fn next_step(&mut self, unique: u64, result: i64) -> Option<ExpectedAnswer> {
        let (standin, steps) = self.asked.get_mut(&unique)?;
        let (standin, step) = (*standin, steps.pop_front()?);
        if result < 0 || steps.is_empty() {
            self.asked.remove(&unique);
        }
        Some(ExpectedAnswer { standin, step })
    }

    /// The kernel's offset will be where this takes it.
    pub fn moved(&mut self, standin: StandinId, step: Step, result: u64) {
        match step {
            Step::Read(Some((from, by))) | Step::Written(Some((from, by))) => {
                self.set(standin, from.wrapping_add(result), Some((from, by)));
            }
            Step::Sought(by) => {
                let before = self.offsets.get(&standin).map_or(0, |known| known.here);
                self.set(standin, result, by.map(|by| (before, by)));
            }
            _ => {}
        }
    }

    /// The last thread that moved it.
    pub fn has_gone_on(&mut self, standin: StandinId, times_set: u64) {
        if let Some(known) = self.offsets.get_mut(&standin).filter(|known| known.times_set == times_set) {
            known.before = None;
        }
    }
}

impl Files {
    pub fn with<T>(&self, work: impl FnOnce(&mut FileTable) -> T) -> T {
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The kernel's offset of a stand-in is this now, and means the same as home's.
    pub fn begins(&self, standin: StandinId, offset: u64) {
        if standin.is_file() {
            self.with(|state| state.set(standin, offset, None));
        }
    }

    /// Stand-ins that a body begins with. Where several of its numbers are one open file, others at
    /// home may have moved its offset while home looked at one number after the other: what is said
    /// of the first holds, to which the kernel's is set, too (`porter/body.rs`).
    pub fn begin_all(&self, descriptors: &[Descriptor]) {
        let mut begun = HashSet::new();
        let firsts = descriptors.iter().filter(|descriptor| begun.insert(descriptor.standin));
        for Descriptor { standin, offset, end, .. } in firsts {
            self.begins(*standin, *offset);
            end.map(|end| self.with(|state| state.ends.insert(*standin, end)));
        }
    }

    /// The kernel will come to this offset by a seek of this thread's that home has made; it does
    /// as soon as the thread is told to go on.
    pub fn will_be_at(&self, standin: StandinId, offset: u64, by: HostTid, go_on: impl FnOnce()) {
        self.with(|state| {
            let before = state.offsets.get(&standin).map(|offset| (offset.here, by));
            state.set(standin, offset, before);
            go_on();
        });
    }

    /// The kernel's offset, as `look` reads it, and whether a seek was made here alone: then home's
    /// is to be set to it.
    pub fn look(&self, standin: StandinId, look: impl Fn() -> Option<u64>) -> Option<(u64, bool)> {
        let mut offset = look()?;
        for _ in 0..LOOKS_MAX {
            let times_set = self.with(|state| state.offsets.get(&standin).map_or(0, |known| known.times_set));
            offset = look()?;
            match self.judge(standin, offset, times_set) {
                Seen::Sought => return Some((offset, true)),
                Seen::Same => break,
                Seen::Late(by) if !os::waiting::has_gone_on(by.0) => break,
                Seen::Late(_) => self.with(|state| state.has_gone_on(standin, times_set)),
                Seen::Changed => {}
            }
        }
        Some((offset, false))
    }

    /// Of an offset that was looked at when it had been set so often.
    pub fn judge(&self, standin: StandinId, offset: u64, times_set: u64) -> Seen {
        self.with(|state| {
            let known = state.offsets.get(&standin).copied().unwrap_or_default();
            match known.before {
                _ if known.times_set != times_set => Seen::Changed,
                _ if known.here == offset => Seen::Same,
                Some((before, by)) if before == offset => Seen::Late(by),
                _ => {
                    state.set(standin, offset, None);
                    Seen::Sought
                }
            }
        })
    }

    /// The kernel's offset is this, as its request says: home's is to be set to it if that is
    /// returned, for a seek was made here alone.
    pub fn sought_here(&self, standin: StandinId, offset: u64) -> Option<u64> {
        self.with(|state| {
            let known = state.offsets.get(&standin).copied().unwrap_or_default();
            state.set(standin, offset, None);
            (standin.is_file() && known.here != offset).then_some(offset)
        })
    }

    /// It is open no more.
    pub fn forget(&self, standin: StandinId) {
        self.with(|state| (state.offsets.remove(&standin), state.ends.remove(&standin)));
    }

    /// The attributes that the kernel here is told while nobody can ask home: where a file ends to
    /// which it appends.
    pub fn shown(&self, node: u64, attr: proto::Attr) -> proto::Attr {
        let end = standin(node).and_then(|standin| self.with(|state| state.ends.get(&standin).copied()));
        proto::Attr { size: end.unwrap_or(attr.size), ..attr }
    }

    /// Home does what this request wants.
    pub fn is_asked(&self, unique: u64) -> bool {
        self.with(|state| state.asked.contains_key(&unique))
    }
}

/// Answers a request when home has made a call for it. That the kernel's offset will move is noted
/// before anybody can see it move, and nobody looks before it may.
pub fn answered(files: &Files, device: &Answers, unique: u64, result: i64, out: &[u8]) {
    files.with(|state| {
        let Some(expected) = state.next_step(unique, result) else { return };
        match usize::try_from(result) {
            Ok(n) => {
                state.moved(expected.standin, expected.step, n as u64);
                reply(device, unique, expected, n, out);
            }
            Err(_) => device.error(unique, -result as i32),
        }
    });
}

/// Answers a request with home's result `n`, or not yet if home has more to do for it.
fn reply(device: &Answers, unique: u64, expected: ExpectedAnswer, n: usize, out: &[u8]) {
    match expected.step {
        Step::First => {}
        Step::Done => device.error(unique, 0),
        Step::Read(_) => device.bytes(unique, &out[..out.len().min(n)]),
        Step::Written(_) => device.value(unique, &WriteOut { size: n as u32, padding: 0 }),
        Step::Sought(_) => device.value(unique, &LseekOut { offset: n as u64 }),
        Step::Extended { counts: true } => {
            device.value(unique, &GetxattrOut { size: n as u32, padding: 0 });
        }
        Step::Extended { counts: false } => device.bytes(unique, &out[..out.len().min(n)]),
        Step::Attributes => match attributes_at_home(node(expected.standin), out) {
            Some(attr) => device.value(unique, &AttrOut { attr, ..AttrOut::default() }),
            None => device.error(unique, libc::EIO),
        },
        Step::FileSystem => match file_system(out) {
            Some(found) => device.value(unique, &found),
            None => device.error(unique, libc::EIO),
        },
    }
}

pub fn words<const N: usize>(bytes: &[u8]) -> Option<[u64; N]> {
    let mut words = [0; N];
    for (n, word) in words.iter_mut().enumerate() {
        *word = u64::from_le_bytes(bytes.get(8 * n..8 * n + 8)?.try_into().ok()?);
    }
    Some(words)
}

/// Attributes of `struct stat`, but for the number, by which a stand-in is known.
pub fn attributes_at_home(node: u64, stat: &[u8]) -> Option<proto::Attr> {
    // dev ino nlink mode,uid gid,- rdev size blksize blocks atime ansec mtime mnsec ctime cnsec
    let [_, _, nlink, mode_uid, gid, _, size, blksize, blocks, atime, ansec, mtime, mnsec, ctime, cnsec] = words(stat)?;
    let own = attributes(node);
    Some(proto::Attr {
        size,
        blocks,
        atime,
        mtime,
        ctime,
        atimensec: ansec as u32,
        mtimensec: mnsec as u32,
        ctimensec: cnsec as u32,
        mode: libc::S_IFREG | mode_uid as u32 & 0o7777,
        nlink: nlink as u32,
        uid: (mode_uid >> 32) as u32,
        gid: gid as u32,
        blksize: blksize as u32,
        ..own
    })
}

pub fn file_system(statfs: &[u8]) -> Option<Kstatfs> {
    let [_, bsize, blocks, bfree, bavail, files, ffree, _, namelen, frsize] = words(statfs)?;
    let (bsize, namelen, frsize) = (bsize as u32, namelen as u32, frsize as u32);
    Some(Kstatfs { blocks, bfree, bavail, files, ffree, bsize, namelen, frsize, ..Kstatfs::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_home_says_of_a_file() {
        let stat: Vec<u8> = [9u64, 77, 2, 1000 << 32 | 0o100_640, 50, 0, 4097, 4096, 16, 1, 2, 3, 4, 5, 6]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        let found = attributes_at_home(12, &stat).unwrap();
        assert_eq!((found.ino, found.size, found.mode, found.uid, found.gid), (12, 4097, 0o100_640, 1000, 50));
        assert_eq!((found.nlink, found.mtime, found.ctimensec), (2, 3, 6));
        assert_eq!(attributes_at_home(12, &stat[..100]), None);
    }

    /// Failed before: a program with its output and its errors in one file, to which a child at
    /// home wrote meanwhile, had home's offset set back, and what the child wrote was written over.
    #[test]
    fn one_file_under_two_numbers_begins_at_one_offset() {
        let (files, standin) = (Files::default(), StandinId(3).of_file());
        let (at_home, flags, terminal, timed, end) = (1, libc::O_WRONLY, false, false, None);
        let descriptor = |fd, offset| Descriptor { fd, at_home, standin, flags, terminal, timed, offset, end };
        files.begin_all(&[descriptor(1, 444), descriptor(2, 516)]);
        assert_eq!(files.sought_here(standin, 444), None);
    }

    #[test]
    fn seeks_here_are_noticed() {
        let (files, file) = (Files::default(), StandinId(3).of_file());
        files.begins(file, 10);
        assert_eq!((files.sought_here(file, 10), files.sought_here(file, 4)), (None, Some(4)));
        assert_eq!((files.sought_here(file, 4), files.sought_here(StandinId(3), 7)), (None, None));
        assert_eq!((files.look(file, || Some(4)), files.look(file, || Some(5))), (Some((4, false)), Some((5, true))));
    }

    /// Failed before: who looked between home's answer and the kernel's own step took the old
    /// offset for a seek, and home's went back.
    #[test]
    fn what_was_just_written_is_not_taken_for_a_seek() {
        let (files, file, by) = (Files::default(), StandinId(3).of_file(), HostTid(7));
        files.begins(file, 10);
        files.with(|state| state.moved(file, Step::Written(Some((10, by))), 5));
        let judge = |offset, times_set| files.judge(file, offset, times_set);
        assert_eq!((judge(10, 2), judge(15, 2), judge(10, 1)), (Seen::Late(by), Seen::Same, Seen::Changed));
        // It has gone on: that was a seek.
        files.with(|state| state.has_gone_on(file, 2));
        assert_eq!((judge(10, 2), judge(10, 3)), (Seen::Sought, Seen::Same));
        // As is any other offset, whoever is on his way.
        files.will_be_at(file, 50, by, || {});
        assert_eq!((judge(10, 4), judge(11, 4)), (Seen::Late(by), Seen::Sought));
    }
}
