//! Consistency checks of an image, which comes from another machine.

use crate::objects::{Memory, MemoryKind, Object, Objects};
use crate::state::{BARRIERS, Content, File, Image, Opened, PERMITTED_FEATURES, Ring, SETTINGS};
use thiserror::Error;

/// The part of an image that is inconsistent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the words say it")]
pub enum Inconsistent {
    #[error("its threads")]
    Threads,
    #[error("its memory areas")]
    Areas,
    #[error("its files")]
    Files,
    #[error("its descriptors")]
    Descriptors,
    #[error("its pipes, timers or counters")]
    Objects,
    #[error("its signals")]
    Signals,
    #[error("its settings")]
    Settings,
    #[error("its kernel's pages")]
    Vdso,
}

const PAGE: u64 = 4096;
/// The greatest value of PR_SET_DUMPABLE: SUID_DUMP_ROOT (linux/sched/coredump.h).
const DUMPABLE_MAX: u8 = 2;
/// The first address that no program has (TASK_SIZE_MAX of x86-64 with four levels of page tables;
/// more is not supported yet).
pub(crate) const TOP: u64 = 0x7fff_ffff_f000;
const THREADS_MAX: usize = 32 << 10;
const SIGNALS: usize = 64;
const SIGINFO_BYTES: usize = 128;
const EXTENDED_BYTES_MAX: usize = 64 << 10;
const PATH_MAX: usize = 4096;
const FD_MAX: i32 = 1 << 20;
const COMM_MAX: usize = 15;
/// The most words of a processor mask: 1024 processors.
const PROCESSOR_WORDS_MAX: usize = 16;
/// The largest ring of asynchronous I/O that moves, bytes,
pub const RING_BYTES_MAX: u64 = 1 << 20;
/// and the bytes of each completion and of what is in front of them (linux/aio_abi.h).
const RING_EVENT_BYTES: u64 = 32;
const MEMORIES_MAX: usize = 1 << 15;
/// The most bytes of a memory. The upper bits of an address tell which memory is meant, these bits
/// the place in it.
const MEMORY_BYTES_MAX: u64 = 1 << 46;
/// The longest name of a memfd, bytes (memfd_create(2)).
const MEMORY_NAME_MAX: usize = 249;
/// Nanoseconds per second.
const NS: u64 = 1_000_000_000;
/// The largest pipe that ordinary users can make (the default of fs.pipe-max-size), bytes.
const PIPE_BYTES_MAX: u32 = 1 << 20;

/// Checks that guard regions are whole pages, ascending, in areas of the image.
fn guards(image: &Image) -> bool {
    let mut from = 0;
    image.process.guards.iter().all(|(start, end)| {
        let is_one = from <= *start && start < end && *end <= TOP && start % PAGE == 0 && end % PAGE == 0;
        from = *end;
        is_one
    })
}

/// Checks everything on which the restoring side relies.
pub fn check(image: &Image) -> Result<(), Inconsistent> {
    threads(image)?;
    areas(image)?;
    if !guards(image) {
        return Err(Inconsistent::Areas);
    }
    if !image.files.iter().all(file) {
        return Err(Inconsistent::Files);
    }
    descriptors(image)?;
    if !objects(&image.objects) {
        return Err(Inconsistent::Objects);
    }
    let process = &image.process;
    let known = |file: u32| (file as usize) < image.files.len();
    if process.actions.len() != SIGNALS || !process.pending.iter().all(|i| i.len() == SIGINFO_BYTES) {
        return Err(Inconsistent::Signals);
    }
    if process.timers.iter().any(|t| t.setting[1] >= NS || t.setting[3] >= NS || t.id < 0) {
        return Err(Inconsistent::Objects);
    }
    if !process.settings.iter().all(|(set, _)| SETTINGS.iter().any(|(_, known)| known == set)) {
        return Err(Inconsistent::Settings);
    }
    let odd = process.barriers & !BARRIERS != 0 || process.permitted & !PERMITTED_FEATURES != 0;
    if odd || process.dumpable > DUMPABLE_MAX {
        return Err(Inconsistent::Settings);
    }
    if !process.exe.is_none_or(known) || !absolute(&process.cwd) {
        return Err(Inconsistent::Files);
    }
    match process.vdso {
        Some(v) if !(range(v.start, v.end) && (v.start..=v.end).contains(&v.code)) => Err(Inconsistent::Vdso),
        _ => Ok(()),
    }
}

fn threads(image: &Image) -> Result<(), Inconsistent> {
    let threads = &image.threads;
    let mut tids: Vec<i32> = threads.iter().map(|t| t.tid).collect();
    tids.sort_unstable();
    let distinct = tids.windows(2).all(|w| w[0] < w[1]) && tids.first().is_some_and(|tid| *tid > 0);
    let sizes = threads.iter().all(|t| {
        t.extended.len() <= EXTENDED_BYTES_MAX
            && t.comm.len() <= COMM_MAX
            && t.processors.as_ref().is_none_or(|words| words.len() <= PROCESSOR_WORDS_MAX)
            && t.pending.iter().all(|i| i.len() == SIGINFO_BYTES)
    });
    let first = threads.first().is_some_and(|t| t.tid == image.process.pid);
    if distinct && sizes && first && threads.len() <= THREADS_MAX { Ok(()) } else { Err(Inconsistent::Threads) }
}

fn areas(image: &Image) -> Result<(), Inconsistent> {
    let apart = image.areas.windows(2).all(|w| w[0].end <= w[1].start);
    let known = |memory: u32| (memory as usize) < image.objects.memories.len();
    let each = image.areas.iter().all(|a| {
        let content = match a.content {
            Content::Anonymous => !a.shared,
            Content::Ring => a.shared && a.end.saturating_sub(a.start) <= RING_BYTES_MAX,
            Content::Memory { memory, offset } => known(memory) && is_offset(offset),
            Content::File { file, offset } => (file as usize) < image.files.len() && is_offset(offset),
        };
        let key = a.key == 0 || (a.key < 16 && image.process.keys & 1 << a.key != 0);
        range(a.start, a.end) && content && key && a.protection < 8
    });
    if apart && each && image.process.rings.iter().all(|r| ring(image, r)) { Ok(()) } else { Err(Inconsistent::Areas) }
}

/// Checks that a ring lies in an area of its own, and that its completions fit there: one place
/// stays free.
fn ring(image: &Image, ring: &Ring) -> bool {
    let area = image.areas.iter().find(|a| a.start == ring.start && a.content == Content::Ring);
    area.is_some_and(|a| ((ring.events.len() as u64 + 1) + 1) * RING_EVENT_BYTES <= a.end - a.start)
}

/// Checks that the end of an area's content fits a 64-bit number.
fn is_offset(offset: u64) -> bool {
    offset.is_multiple_of(PAGE) && offset <= i64::MAX as u64
}

fn range(start: u64, end: u64) -> bool {
    start.is_multiple_of(PAGE) && end.is_multiple_of(PAGE) && start < end && end <= TOP
}

fn file(file: &File) -> bool {
    absolute(&file.path)
}

fn absolute(path: &[u8]) -> bool {
    path.first() == Some(&b'/') && path.len() < PATH_MAX && !path.contains(&0)
}

fn descriptors(image: &Image) -> Result<(), Inconsistent> {
    let ascending = image.descriptors.windows(2).all(|w| w[0].fd < w[1].fd);
    let number = |fd: i32| (0..FD_MAX).contains(&fd);
    let each = image.descriptors.iter().all(|d| {
        number(d.fd)
            && match d.opened {
                Opened::File { file, .. } => (file as usize) < image.files.len(),
                Opened::Home(fd) => number(fd),
                Opened::Made(object) => (object as usize) < image.objects.made.len(),
            }
    });
    if ascending && each { Ok(()) } else { Err(Inconsistent::Descriptors) }
}

fn memory(memory: &Memory) -> bool {
    let named = match &memory.kind {
        MemoryKind::Anonymous => memory.bytes > 0,
        MemoryKind::File { name, .. } => name.len() <= MEMORY_NAME_MAX && !name.contains(&0),
    };
    named && memory.bytes <= MEMORY_BYTES_MAX
}

fn objects(objects: &Objects) -> bool {
    let end = |pipe: u32, writes| Object::PipeEnd { pipe, writes };
    let ends = |object: &Object| objects.made.iter().filter(|m| m.object == *object).count();
    let pipes = (0..).zip(&objects.pipes).all(|(n, pipe)| {
        pipe.content.len() <= pipe.capacity as usize
            && pipe.capacity <= PIPE_BYTES_MAX
            && ends(&end(n, false)) <= 1
            && ends(&end(n, true)) <= 1
    });
    let memories = objects.memories.len() <= MEMORIES_MAX && objects.memories.iter().all(memory);
    let each = objects.made.iter().all(|made| match &made.object {
        Object::PipeEnd { pipe, .. } => (*pipe as usize) < objects.pipes.len(),
        Object::Watch(watched) => watched.iter().all(|w| (0..FD_MAX).contains(&w.fd)),
        Object::Timer { setting, .. } => setting[1] < NS && setting[3] < NS,
        Object::Memory { memory, .. } => {
            let one = |m: &&crate::Made| matches!(m.object, Object::Memory { memory: m, .. } if m == *memory);
            let is_file = |m: &crate::Memory| matches!(m.kind, crate::MemoryKind::File { .. });
            objects.memories.get(*memory as usize).is_some_and(is_file) && objects.made.iter().filter(one).count() == 1
        }
        Object::Counter { .. } | Object::Signals { .. } | Object::Oneself => true,
    });
    objects.made.len() <= FD_MAX as usize && pipes && each && memories
}
