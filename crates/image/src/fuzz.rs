//! Images as a hostile node may send them, for fuzz targets and tests.

use crate::dump::{DumpWriter, Identity, Origin};
use crate::objects::{Made, Memory, MemoryKind, Object, Pipe, Watched};
use crate::state::{Area, Content, Descriptor, File, Image, Opened, Ring, Thread, Timer};

/// The first address that no process has.
pub const TOP: u64 = crate::check::TOP;

/// Builds an image with an item of each kind.
pub fn example() -> Image {
    let mut image = Image::default();
    image.process.pid = 77;
    image.process.actions = vec![[0; 4]; 64];
    image.process.cwd = b"/".to_vec();
    image.process.timers.push(Timer { id: 3, clock: 1, signal: 14, value: 0, notify: 0, tid: 0, setting: [0; 4] });
    image.threads.push(Thread { tid: 77, extended: vec![0; 576], ..Thread::default() });
    image.files.push(File { path: b"/bin/true".to_vec(), inode: 5, flags: 0, removed: true });
    let content = Content::File { file: 0, offset: 4096 };
    image.areas.push(Area { content, accounted: false, ..Area::anonymous(0x1000, 0x3000, 1) });
    image.descriptors.push(Descriptor { fd: 3, close_on_exec: true, opened: Opened::File { file: 0, offset: 9 } });
    image.descriptors.push(Descriptor { fd: 4, close_on_exec: false, opened: Opened::Made(1) });
    let watched = Watched { fd: 3, events: 1, data: 7, told: true };
    for object in [Object::Watch(vec![watched]), Object::PipeEnd { pipe: 0, writes: true }] {
        image.objects.made.push(Made { object, flags: 0 });
    }
    image.objects.made.push(Made { object: Object::Memory { memory: 0, offset: 3 }, flags: 2 });
    let kind = MemoryKind::File { name: b"m".to_vec(), mode: 0o600, seals: 1 };
    image.objects.memories.push(Memory { kind, bytes: 5000 });
    let content = Content::Memory { memory: 0, offset: 4096 };
    image.areas.push(Area { start: 0x3000, end: 0x4000, shared: true, content, ..image.areas[0] });
    image.areas.push(Area { start: 0x4000, end: 0x5000, shared: true, content: Content::Ring, ..image.areas[0] });
    image.process.rings.push(Ring { start: 0x4000, events: vec![[1; 4]] });
    image.objects.pipes.push(Pipe { capacity: 4096, content: b"abc".to_vec() });
    image
}

/// Builds bytes that may be an image. The first byte of `input` chooses: the rest as it is, the
/// example with changes to single bytes, or the example with sections that the rest gives.
pub fn bytes(input: &[u8]) -> Vec<u8> {
    let Some((mode, rest)) = input.split_first() else { return Vec::new() };
    let whole = example().encode().unwrap_or_default();
    match mode % 3 {
        0 => rest.to_vec(),
        1 => changed(whole, rest),
        _ => with_sections(&whole, rest),
    }
}

/// Builds a dump with a frame of each kind.
pub fn dump() -> Vec<u8> {
    let mut out = Vec::new();
    let written = DumpWriter::begin(&mut out, &Origin::default(), &[Identity::default()], &example(), b"code");
    let written = written.and_then(|mut writer| {
        writer.pages(&[(0x1000, 4096)], &[7; 4096])?;
        writer.zeros(&[(0x2000, 4096)])?;
        writer.end()
    });
    if written.is_ok() { out } else { Vec::new() }
}

/// Builds bytes that may be a dump: `input` as it is behind the magic, or the example with changes
/// to single bytes.
pub fn dump_bytes(input: &[u8]) -> Vec<u8> {
    let Some((mode, rest)) = input.split_first() else { return Vec::new() };
    let whole = dump();
    match mode % 2 {
        0 => [&whole[..whole.len().min(8)], rest].concat(),
        _ => changed(whole, rest),
    }
}

/// Changes single bytes. Each four bytes of `changes` give the place, the operation, and its
/// operand.
fn changed(mut bytes: Vec<u8>, changes: &[u8]) -> Vec<u8> {
    for change in changes.chunks_exact(4) {
        if bytes.is_empty() {
            break;
        }
        let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % bytes.len();
        match change[2] % 4 {
            0 => bytes[at] = change[3],
            1 => bytes[at] ^= 1 << (change[3] % 8),
            2 => bytes.insert(at, change[3]),
            _ => drop(bytes.remove(at)),
        }
    }
    bytes
}

/// Replaces sections. The bits of the first byte tell which; each replacement begins with its
/// length (two bytes).
fn with_sections(whole: &[u8], input: &[u8]) -> Vec<u8> {
    let Some((replaced, mut given)) = input.split_first() else { return whole.to_vec() };
    let (magic, mut rest) = whole.split_at(8);
    let mut out = magic.to_vec();
    for n in 0.. {
        let Some((head, tail)) = rest.split_at_checked(8) else { break };
        let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let (mut body, tail) = tail.split_at(length.min(tail.len()));
        rest = tail;
        if replaced & 1 << n != 0 {
            let Some((wanted, behind)) = given.split_first_chunk() else { break };
            (body, given) = behind.split_at(usize::from(u16::from_le_bytes(*wanted)).min(behind.len()));
        }
        out.extend(&head[..4]);
        out.extend((body.len() as u32).to_le_bytes());
        out.extend(body);
    }
    out
}
