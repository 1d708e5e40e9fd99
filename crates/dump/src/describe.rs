//! Description of a stopped process, as a dump holds it: memory by file or page, and the rest that
//! the kernel tells from outside.

use crate::capture::DumpWish;
use crate::descriptors;
use crate::error::{DumpFailed, refuse};
use crate::files;
use checkpoint::{Files, Gathered};
use image::dump::Identity;
use image::{Content, File, Image};
use os::areas::{self, Area};
use os::confinement::{self, Confinement};
use os::process;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Namespaces that a dumped process may have of its own: an undumped process may live in such ones,
/// and is dumped as any other.
const OWN_NAMESPACES: [&str; 6] = ["pid", "pid_for_children", "user", "mnt", "time", "time_for_children"];

/// A stopped process, without what only collecting tells.
#[derive(Debug)]
pub struct Described {
    /// The areas as the kernel lists them, without flags.
    pub areas: Vec<Area>,
    /// The image, as far as it is known.
    pub image: Image,
    /// One for each file of the image.
    pub identities: Vec<Identity>,
    /// Ranges of private memory whose files travel as pages.
    pub whole: Vec<(u64, u64)>,
    /// Parts of the process that the dump lacks, in words.
    pub left_out: Vec<String>,
    /// Whether there may be guard regions.
    pub guarded: bool,
}

/// Refuses processes that no dump can hold, before they are stopped.
pub fn refuse_early(pid: i32) -> Result<(), DumpFailed> {
    let status = process::status(pid)?;
    if status.state == 'Z' || status.state == 'X' {
        return refuse("it has ended");
    }
    let mut head = [0; 5];
    let exe = fs::File::open(format!("/proc/{pid}/exe"));
    let is_read = exe.is_ok_and(|mut exe| std::io::Read::read_exact(&mut exe, &mut head).is_ok());
    if is_read && head == *b"\x7fELF\x01" {
        return refuse(checkpoint::OTHER_CODE);
    }
    confinement::check_except(pid, &OWN_NAMESPACES).or_else(|confinement| match confinement {
        Confinement::Ended => refuse("it has ended"),
        Confinement::Namespace { namespace } => refuse(format!("it is in another {namespace} namespace")),
        other => refuse(other.to_string()),
    })?;
    checkpoint::check_threads(pid)?;
    Ok(checkpoint::check_others(pid, &others(pid)?)?)
}

/// Lists all other processes, but for those between the process and its dumper: the library has
/// made them for the dump (`tern_dump` of `tern.h`).
fn others(pid: i32) -> Result<Vec<i32>, DumpFailed> {
    let between = between(pid);
    Ok(process::all()?.into_iter().filter(|other| *other != pid && !between.contains(other)).collect())
}

fn between(pid: i32) -> Vec<i32> {
    let parent = |of: &i32| process::status(*of).ok().map(|status| status.ppid).filter(|parent| *parent > 1);
    let line: Vec<i32> = std::iter::successors(Some(std::process::id() as i32), parent).collect();
    line.iter().position(|of| *of == pid).map_or_else(Vec::new, |place| line[..place].to_vec())
}

/// Describes the stopped process `pid`.
pub fn describe(pid: i32, wish: DumpWish) -> Result<Described, DumpFailed> {
    let mut flagged = areas::read_with_flags(pid)?;
    let areas = areas::without_flags(&flagged);
    if areas.is_empty() {
        return refuse("it has no memory: it is a kernel thread, or has ended");
    }
    let whole = take_whole(pid, &mut flagged, wish);
    let (mut files, mut gathered) = (Files::default(), Gathered::default());
    let memory = checkpoint::memory(pid, &flagged, &mut files, &mut gathered, |area| named(pid, area))?;
    alone_with(pid, &gathered)?;
    let exe = if wish.whole { None } else { executable(pid, &mut files) };
    let found = descriptors::describe(pid, wish, &mut files, &mut gathered)?;
    let mut left_out = found.left_out;
    let is_child = |other: &i32| process::status(*other).is_ok_and(|status| status.ppid == pid);
    left_out.extend(
        others(pid)?.into_iter().filter(is_child).map(|child| format!("its child {child}: wait(2) will know of none")),
    );
    let mut image = Image {
        areas: memory.areas,
        files: files.list().to_vec(),
        descriptors: found.descriptors,
        objects: gathered.list().clone(),
        ..Image::default()
    };
    image.process.exe = exe;
    image.process.vdso = memory.vdso;
    image.process.cwd = working_directory(pid)?;
    image.process.umask = process::status(pid)?.umask;
    let identities = (0..).zip(&image.files).map(|(n, file)| identity(pid, &image, n, file));
    let identities = identities.collect::<Result<_, _>>()?;
    Ok(Described { areas, identities, image, whole, left_out, guarded: memory.guarded })
}

/// Makes memory without a file of private areas whose files have no name any more; of all private
/// areas, if that is wished.
fn take_whole(pid: i32, areas: &mut [Area], wish: DumpWish) -> Vec<(u64, u64)> {
    let is_files = |a: &Area| {
        let kind = [&b"/SYSV"[..], b"/[aio]", b"/secretmem"];
        a.name.starts_with(b"/")
            && checkpoint::memory_kind(&a.name).is_none()
            && !kind.iter().any(|k| a.name.starts_with(k))
    };
    let private = areas.iter_mut().filter(|a| !a.shared && is_files(a));
    let whole = private.filter(|a| wish.whole || named(pid, a).is_err());
    whole
        .map(|area| {
            area.name.clear();
            (area.inode, area.offset) = (0, 0);
            (area.start, area.end)
        })
        .collect()
}

/// Leads to a name as the process sees it, which may have another root.
pub fn through_root(pid: i32, path: &Path) -> String {
    format!("/proc/{pid}/root{}", path.display())
}

/// The file that an area shows, which must still have its name.
fn named(pid: i32, area: &Area) -> Result<File, String> {
    let path = Path::new(std::ffi::OsStr::from_bytes(&area.name));
    let metadata =
        fs::metadata(through_root(pid, path)).map_err(|e| format!("it has {} mapped: {e}", path.display()))?;
    if metadata.ino() != area.inode || !metadata.is_file() {
        return Err(format!("it has {} mapped, and another file has that name now", path.display()));
    }
    let writes = area.shared && (area.writable || area.has(b"mw"));
    let flags = if writes { libc::O_RDWR } else { libc::O_RDONLY };
    Ok(File { path: area.name.clone(), inode: area.inode, flags, removed: false })
}

fn executable(pid: i32, files: &mut Files) -> Option<u32> {
    let path = process::link(pid, "exe").ok()?;
    let inode = fs::metadata(format!("/proc/{pid}/exe")).ok()?.ino();
    let is_it = fs::metadata(through_root(pid, &path)).is_ok_and(|named| named.ino() == inode);
    let path = path.into_os_string().into_vec();
    is_it.then(|| files.shared(File { path, inode, flags: libc::O_RDONLY, removed: false }))
}

fn working_directory(pid: i32) -> Result<Vec<u8>, DumpFailed> {
    let cwd = process::link(pid, "cwd")?;
    let inode = |path: &str| fs::metadata(path).map(|m| m.ino()).ok();
    if inode(&format!("/proc/{pid}/cwd")) != inode(&through_root(pid, &cwd)) {
        return refuse(format!("its working directory has no name any more (it was {})", cwd.display()));
    }
    Ok(cwd.into_os_string().into_vec())
}

fn identity(pid: i32, image: &Image, number: u32, file: &File) -> Result<Identity, DumpFailed> {
    let shows = |a: &image::Area| matches!(a.content, Content::File { file, .. } if file == number);
    // The process changes a file that it has mapped shared and writable.
    let is_mapped = file.flags & libc::O_ACCMODE == libc::O_RDONLY && image.areas.iter().any(shows);
    let is_mapped = is_mapped || image.process.exe == Some(number);
    let path = Path::new(files::path(file));
    match files::identity(&through_root(pid, path), is_mapped) {
        Ok(identity) => Ok(identity),
        Err(e) if is_mapped => refuse(format!("it has {} mapped: {e}", path.display())),
        // A terminal has another name, or none.
        Err(_) => Ok(Identity::default()),
    }
}

/// Refuses memory that other processes share: each would see its own from then on.
fn alone_with(pid: i32, gathered: &Gathered) -> Result<(), DumpFailed> {
    if gathered.memories().is_empty() {
        return Ok(());
    }
    let sharers = checkpoint::mappers(others(pid)?, gathered.memories());
    if sharers.is_empty() {
        return Ok(());
    }
    let sharers: Vec<String> = sharers.iter().map(ToString::to_string).collect();
    refuse(format!("it shares memory with other processes ({})", sharers.join(", ")))
}
