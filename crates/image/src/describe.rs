//! A readable description of an image, one line for each item.

use crate::objects::{MemoryKind, Object};
use crate::state::{Area, Content, Descriptor, File, Image, Opened, Process, Thread, ThreadSettings};
use std::fmt::Write as _;

const RIGHTS: [(u8, char); 3] = [(1, 'r'), (2, 'w'), (4, 'x')];

/// Describes the whole image, section by section.
pub fn shown(image: &Image) -> String {
    let mut out = String::new();
    process(&mut out, &image.process);
    section(&mut out, "threads", image.threads.iter().map(thread));
    section(&mut out, "areas", image.areas.iter().map(area));
    section(&mut out, "files", (0..).zip(&image.files).map(|(n, f)| file(n, f)));
    section(&mut out, "descriptors", image.descriptors.iter().map(descriptor));
    let objects = &image.objects;
    section(&mut out, "objects", (0..).zip(&objects.made).map(|(n, m)| object(n, &m.object, m.flags)));
    let pipes = (0..).zip(&objects.pipes);
    section(
        &mut out,
        "pipes",
        pipes.map(|(n, p): (u32, _)| format!("{n} {} of {} bytes", p.content.len(), p.capacity)),
    );
    section(&mut out, "memories", (0..).zip(&objects.memories).map(|(n, m)| memory(n, &m.kind, m.bytes)));
    out
}

fn section(out: &mut String, name: &str, lines: impl Iterator<Item = String>) {
    let lines: Vec<String> = lines.collect();
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{name} ({})", lines.len());
    for line in &lines {
        let _ = writeln!(out, "  {line}");
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).escape_debug().to_string()
}

fn process(out: &mut String, p: &Process) {
    let l = &p.layout;
    let unread: usize = p.rings.iter().map(|ring| ring.events.len()).sum();
    let handled = p.actions.iter().filter(|action| action[0] > 1).count();
    let exe = p.exe.map_or("unknown".to_owned(), |file| format!("file {file}"));
    let vdso = p.vdso.map_or("none".to_owned(), |v| format!("{:x}-{:x}, code at {:x}", v.start, v.end, v.code));
    let lines = [
        format!("pid {}, umask {:03o}, program {exe}", p.pid, p.umask),
        format!("directory {} (inode {})", text(&p.cwd), p.cwd_inode),
        format!("handlers {handled}, signals waiting {}", p.pending.len()),
        format!("interval timers {:?}, POSIX timers {}", p.itimers, p.timers.len()),
        format!("code {:x}-{:x}, data {:x}-{:x}", l.start_code, l.end_code, l.start_data, l.end_data),
        format!("heap {:x}-{:x}, stack {:x}", l.start_brk, l.brk, l.start_stack),
        format!("arguments {:x}-{:x}, environment {:x}-{:x}", l.arg_start, l.arg_end, l.env_start, l.env_end),
        format!("CPU time {} ms, {} ms of it away", p.used.total_ns() / 1_000_000, p.used_away.total_ns() / 1_000_000),
        format!("settings (prctl) {:?}", p.settings),
        format!("barriers {:x}, dumpable {}, features asked for {:x}", p.barriers, p.dumpable, p.permitted),
        format!("rings of asynchronous I/O {}, {unread} completions not read", p.rings.len()),
        format!("auxiliary vector {} bytes, vDSO {vdso}", p.auxv.len()),
    ];
    section(out, "process", lines.into_iter());
}

fn thread(t: &Thread) -> String {
    const RIP: usize = 16;
    const RSP: usize = 19;
    let (rip, rsp) = (t.registers[RIP], t.registers[RSP]);
    let enters = if t.enters_call { ", makes its call again" } else { "" };
    format!(
        "{} {}, at {rip:x}, stack {rsp:x}, extended state {} bytes, blocks {:016x}, nice {}, signals waiting {}, personality {:x}, {}{enters}",
        t.tid,
        text(&t.comm),
        t.extended.len(),
        t.mask,
        t.nice,
        t.pending.len(),
        t.personality,
        settings(&t.settings)
    )
}

fn settings(s: &ThreadSettings) -> String {
    format!("counter {}, broken memory {:?}, speculation {:?}", s.counter, s.broken_memory, s.speculation)
}

fn area(a: &Area) -> String {
    let rights: String = RIGHTS.iter().map(|(bit, c)| if a.protection & bit != 0 { *c } else { '-' }).collect();
    let content = match a.content {
        Content::Anonymous => "anonymous".to_owned(),
        Content::File { file, offset } => format!("file {file} from {offset:x}"),
        Content::Memory { memory, offset } => format!("memory {memory} from {offset:x}"),
        Content::Ring => "ring of asynchronous I/O".to_owned(),
    };
    let words = [
        (a.grows_down, "grows down"),
        (a.no_reserve, "not reserved"),
        (a.accounted, "accounted"),
        (a.locked, "locked"),
    ];
    let words: String = words.iter().filter(|(on, _)| *on).map(|(_, word)| format!(", {word}")).collect();
    let advice: Vec<u8> = a.advice.iter().copied().filter(|advice| *advice != 0).collect();
    let advice = if advice.is_empty() { String::new() } else { format!(", advice {advice:?}") };
    let key = if a.key == 0 { String::new() } else { format!(", key {}", a.key) };
    format!("{:x}-{:x} {rights}{} {content}{words}{advice}{key}", a.start, a.end, if a.shared { 's' } else { 'p' })
}

fn file(n: u32, f: &File) -> String {
    let removed = if f.removed { " (removed)" } else { "" };
    format!("{n} {}{removed}, inode {}, flags {:o}", text(&f.path), f.inode, f.flags)
}

fn descriptor(d: &Descriptor) -> String {
    let opened = match d.opened {
        Opened::File { file, offset } => format!("file {file} at {offset}"),
        Opened::Home(fd) => format!("stays at home as {fd}"),
        Opened::Made(object) => format!("object {object}"),
    };
    format!("{} {opened}{}", d.fd, if d.close_on_exec { ", closes on exec" } else { "" })
}

fn object(n: u32, object: &Object, flags: i32) -> String {
    let what = match object {
        Object::Counter { count, semaphore } => {
            format!("counter {count}{}", if *semaphore { ", a semaphore" } else { "" })
        }
        Object::Timer { clock, setting, ticks } => format!("timer of clock {clock}, {setting:?}, {ticks} ticks"),
        Object::Signals { mask } => format!("reads signals {mask:016x}"),
        Object::Watch(watched) => format!("watches {:?}", watched.iter().map(|w| w.fd).collect::<Vec<_>>()),
        Object::PipeEnd { pipe, writes } => format!("pipe {pipe}, {}", if *writes { "writes" } else { "reads" }),
        Object::Oneself => "holds the process itself".to_owned(),
        Object::Memory { memory, offset } => format!("memory {memory} at {offset}"),
    };
    format!("{n} {what}, flags {flags:o}")
}

fn memory(n: u32, kind: &MemoryKind, bytes: u64) -> String {
    match kind {
        MemoryKind::Anonymous => format!("{n} without a name, {bytes} bytes"),
        MemoryKind::File { name, mode, seals } => {
            format!("{n} file {}, {bytes} bytes, mode {mode:o}, seals {seals:x}", text(name))
        }
    }
}
