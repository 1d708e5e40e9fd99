//! Memory areas as an image has them, and the reasons why some cannot move.

use crate::error::{BodyError, stays};
use crate::files::Files;
use crate::memories;
use crate::objects::Gathered;
use crate::rings;
use image::{Area, Content, File, MemoryKind, Vdso};
use os::areas::{self, Shown};

/// The memory of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// The areas that move.
    pub areas: Vec<Area>,
    /// The pages that the kernel maps.
    pub vdso: Option<Vdso>,
    /// Whether there may be guard regions ([`guards`]).
    pub guarded: bool,
}

/// Translates `areas` (with flags) of process `pid`. `name` tells how the file of an area is opened
/// elsewhere, or why it cannot be; a file that is mapped shared and writable must be opened for
/// writing.
pub fn memory(
    pid: i32,
    areas: &[areas::Area],
    files: &mut Files,
    gathered: &mut Gathered,
    name: impl Fn(&areas::Area) -> Result<File, String>,
) -> Result<Memory, BodyError> {
    let guarded = areas.iter().any(|area| area.has(b"gu"));
    let mut memory = Memory { guarded, ..Memory::default() };
    let removed: Vec<Shown> =
        areas.iter().filter(|a| named(a).is_ok() && memories::removed_file(pid, a)).map(areas::Area::shown).collect();
    gathered.note_removed(&removed);
    for area in areas {
        match area.name.as_slice() {
            b"[vsyscall]" => {}
            b"[vvar]" | b"[vvar_vclock]" | b"[vdso]" => kernels(&mut memory.vdso, area),
            _ => memory.areas.push(carried(pid, area, files, gathered, &Naming { removed: &removed, name: &name })?),
        }
    }
    // Valgrind unmaps only the code.
    if let Some(vdso) = memory.vdso.as_mut().filter(|_| !areas.iter().any(|a| a.name == b"[vdso]")) {
        vdso.code = vdso.end;
    }
    Ok(memory)
}

/// Finds the guard regions of process `pid`, which has these areas.
pub fn guards(pid: i32, areas: &[Area]) -> Result<Vec<(u64, u64)>, BodyError> {
    let all: Vec<(u64, u64)> = areas.iter().map(|area| (area.start, area.end)).collect();
    Ok(os::pages::guards(pid, &all)?)
}

/// Checks that this kernel supports guard regions, if the image has some.
pub fn check_guards(image: &image::Image) -> Result<(), BodyError> {
    match image.process.guards.is_empty() || os::pages::can_guard() {
        true => Ok(()),
        false => {
            stays("it has guard regions (MADV_GUARD_INSTALL), which this kernel does not support (before Linux 6.13)")
        }
    }
}

fn kernels(vdso: &mut Option<Vdso>, area: &areas::Area) {
    let found = vdso.get_or_insert(Vdso { start: area.start, end: area.end, code: area.start });
    found.start = found.start.min(area.start);
    found.end = found.end.max(area.end);
    if area.name == b"[vdso]" {
        found.code = area.start;
    }
}

/// Words of `VmFlags` that cannot move, with the reason.
const NOT_CARRIED: [(&[u8; 2], &str); 8] = [
    (b"io", "memory of a device"),
    (b"pf", "memory of a device"),
    (b"ht", "memory of huge pages (hugetlbfs)"),
    (b"um", "memory watched by a userfaultfd"),
    (b"uw", "memory watched by a userfaultfd"),
    (b"ui", "memory watched by a userfaultfd"),
    (b"ss", "a shadow stack"),
    (b"sl", "sealed memory (mseal)"),
];

/// Words of `VmFlags` that move or make no difference (Documentation/filesystems/proc.rst): access
/// rights, stacks, accounting, locks, hints.
const KNOWN: [&[u8; 2]; 32] = [
    b"rd", b"wr", b"ex", b"sh", b"mr", b"mw", b"me", b"ms", b"gd", b"dw", b"lo", b"lf", b"sr", b"rr", b"dc", b"de",
    b"ac", b"nr", b"sf", b"nl", b"ar", b"wf", b"dd", b"sd", b"mm", b"hg", b"nh", b"mg", b"dp", b"pf", b"io", b"gu",
];

/// Words of `VmFlags` that madvise(2) sets, with its numbers.
const ADVICE: [(&[u8; 2], i32); 8] = [
    (b"hg", libc::MADV_HUGEPAGE),
    (b"nh", libc::MADV_NOHUGEPAGE),
    (b"dc", libc::MADV_DONTFORK),
    (b"wf", libc::MADV_WIPEONFORK),
    (b"dd", libc::MADV_DONTDUMP),
    (b"mg", libc::MADV_MERGEABLE),
    (b"rr", libc::MADV_RANDOM),
    (b"sr", libc::MADV_SEQUENTIAL),
];

/// The means of naming the file of an area.
struct Naming<'a, N> {
    /// Removed files that move as memories.
    removed: &'a [Shown],
    /// Tells how a file is opened elsewhere, or why it cannot be.
    name: &'a N,
}

fn carried<N: Fn(&areas::Area) -> Result<File, String>>(
    pid: i32,
    area: &areas::Area,
    files: &mut Files,
    gathered: &mut Gathered,
    naming: &Naming<'_, N>,
) -> Result<Area, BodyError> {
    let Naming { removed, name } = naming;
    let at = || format!("{:#x}-{:#x}", area.start, area.end);
    if let Some((_, what)) = NOT_CARRIED.iter().find(|(flag, _)| area.has(flag)) {
        return stays(format!("it has {what} at {}", at()));
    }
    if let Some(flag) = area.flags.iter().find(|flag| !KNOWN.contains(flag)) {
        let flag = String::from_utf8_lossy(flag);
        return stays(format!("it has memory of an unknown kind (VmFlags {flag}) at {}", at()));
    }
    let content = if area.inode == 0 && !area.name.starts_with(b"/") {
        if area.shared || !(area.name.is_empty() || known_anonymous(&area.name)) {
            return stays(format!("it has {} at {}", String::from_utf8_lossy(&area.name), at()));
        }
        Content::Anonymous
    } else if rings::is_ring(area) {
        rings::check(area)?;
        Content::Ring
    } else if let Some(kind) = kind_of_memory(area, removed) {
        let link = format!("map_files/{:x}-{:x}", area.start, area.end);
        Content::Memory { memory: gathered.memory(pid, &link, area.shown(), kind)?, offset: area.offset }
    } else {
        named(area)?;
        let file = name(area);
        let may_write = file.as_ref().is_ok_and(|file| file.flags & libc::O_ACCMODE == libc::O_RDWR);
        if area.shared && (area.writable || area.has(b"mw")) && !may_write {
            let name = String::from_utf8_lossy(&area.name);
            return stays(format!("it has {name} mapped shared and writable at {}", at()));
        }
        let file = file.map_err(BodyError::NotMigratable)?;
        Content::File { file: files.shared(file), offset: area.offset }
    };
    let mut advice = [0; 4];
    let wanted = ADVICE.iter().filter(|(flag, _)| area.has(flag)).map(|(_, number)| *number as u8);
    advice.iter_mut().zip(wanted).for_each(|(place, number)| *place = number);
    let protection =
        [(area.readable, libc::PROT_READ), (area.writable, libc::PROT_WRITE), (area.executable, libc::PROT_EXEC)];
    Ok(Area {
        start: area.start,
        end: area.end,
        protection: protection.iter().filter(|(on, _)| *on).map(|(_, bit)| *bit as u8).sum(),
        content,
        shared: area.shared,
        grows_down: area.has(b"gd"),
        no_reserve: area.has(b"nr"),
        accounted: area.has(b"ac"),
        locked: area.has(b"lo"),
        droppable: area.has(b"dp"),
        advice,
        key: area.key,
    })
}

fn kind_of_memory(area: &areas::Area, removed: &[Shown]) -> Option<MemoryKind> {
    let is_removed = removed.contains(&area.shown());
    memories::kind(&area.name).or_else(|| is_removed.then(|| memories::kind_of_removed(&area.name)))
}

fn known_anonymous(name: &[u8]) -> bool {
    name == b"[heap]" || name == b"[stack]" || name.starts_with(b"[anon:")
}

/// Refuses files that have no name or are not regular.
fn named(area: &areas::Area) -> Result<(), BodyError> {
    let name = String::from_utf8_lossy(&area.name);
    if area.name.starts_with(b"/SYSV") {
        return stays(format!("it has System V shared memory ({name})"));
    }
    if rings::is_ring(area) {
        return stays("it has asynchronous I/O (io_setup)");
    }
    if area.name.starts_with(b"/secretmem") {
        return stays("it has secret memory (memfd_secret)");
    }
    if !area.name.starts_with(b"/") {
        return stays(format!("it has a file mapped that has no name ({name})"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(name: &[u8], flags: &[&[u8; 2]]) -> areas::Area {
        let inode = u64::from(name.starts_with(b"/"));
        let flags = flags.iter().map(|f| **f).collect();
        areas::Area {
            start: 0x1000,
            end: 0x2000,
            readable: true,
            inode,
            name: name.to_vec(),
            flags,
            ..Default::default()
        }
    }

    fn named_so(area: &areas::Area) -> Result<File, String> {
        Ok(File { path: area.name.clone(), inode: area.inode, flags: libc::O_RDONLY, removed: false })
    }

    fn reason(area: areas::Area) -> String {
        memory(1, &[area], &mut Files::default(), &mut Gathered::default(), named_so).unwrap_err().to_string()
    }

    #[test]
    fn unknown_sections_are_refused_by_name() {
        assert!(reason(area(b"", &[b"ht"])).contains("huge"));
        assert!(reason(area(b"[invented]", &[])).contains("[invented]"));
        assert!(reason(area(b"", &[b"rd", b"zz"])).contains("VmFlags zz"));
        assert!(reason(area(b"/secretmem (deleted)", &[])).contains("memfd_secret"));
        assert!(reason(area(b"/SYSV00000000 (deleted)", &[])).contains("SYSV"));
        assert!(reason(areas::Area { shared: true, writable: true, ..area(b"/f", &[]) }).contains("shared"));
        assert!(reason(areas::Area { shared: true, ..area(b"/f", &[b"mw"]) }).contains("shared"));
    }

    #[test]
    fn ordinary_memory() {
        let mut files = Files::default();
        let list = [area(b"[stack]", &[b"gd"]), area(b"/lib/x", &[b"nh"]), area(b"[vdso]", &[]), area(b"[vvar]", &[])];
        let found = memory(1, &list, &mut files, &mut Gathered::default(), named_so).unwrap();
        assert!(found.areas[0].grows_down);
        assert_eq!(found.areas[1].advice, [libc::MADV_NOHUGEPAGE as u8, 0, 0, 0]);
        assert_eq!((files.list().len(), found.vdso.map(|v| v.code)), (1, Some(0x1000)));
        let found = memory(1, &[area(b"[vvar]", &[])], &mut files, &mut Gathered::default(), named_so).unwrap();
        assert_eq!(found.vdso, Some(Vdso { start: 0x1000, end: 0x2000, code: 0x2000 }));
    }
}
