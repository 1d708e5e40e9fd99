//! Open files of an undumped process: opened by its maker, then put at their numbers.

use crate::error::{DumpFailed, refuse};
use crate::files;
use crate::rebuild::UndumpWish;
use checkpoint::{Batch, Given};
use image::dump::Identity;
use image::{Content, Image, Opened};
use os::process::MoreDescriptors;
use std::collections::HashSet;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// Below it lie descriptors of the maker.
const ABOVE_MAKERS: i32 = 64;

/// The files of an image, open under numbers that no descriptor of the image has.
#[derive(Debug, Default)]
pub struct OpenedFiles {
    /// The number of each file; -1 for one that is not there.
    pub numbers: Vec<i32>,
    /// The first number behind all of them.
    pub above: i32,
    /// Kept open until the process has them.
    held: Vec<OwnedFd>,
    /// The process inherits the limit, and gets its own at the end.
    _limit: Option<MoreDescriptors>,
}

/// Opens all files of an image. A file that only descriptors show may be missing if that is wished;
/// these descriptors are taken out of the image.
pub fn open(image: &mut Image, identities: &[Identity], wish: UndumpWish) -> Result<OpenedFiles, DumpFailed> {
    if image.descriptors.iter().any(|d| matches!(d.opened, Opened::Home(fd) if !(0..=2).contains(&fd))) {
        return refuse("the dump is broken: it names descriptors that no undumper has");
    }
    let needed = needed(image);
    let mut all: Vec<Option<File>> = Vec::new();
    for (number, (file, identity)) in (0..).zip(image.files.iter().zip(identities)) {
        match files::open(file, identity, wish.any_files) {
            Ok(opened) => all.push(Some(opened)),
            Err(_) if !needed.contains(&number) && wish.close_missing => all.push(None),
            // The kernel is not told which file the program was; that is all.
            Err(_) if image.process.exe == Some(number) && !needed.contains(&number) => all.push(None),
            Err(e) if needed.contains(&number) => return Err(e),
            Err(e) => return refuse(format!("{e} (--close-missing leaves its descriptor closed)")),
        }
    }
    let is_there = |file: u32| all.get(file as usize).is_some_and(Option::is_some);
    image.descriptors.retain(|d| !matches!(d.opened, Opened::File { file, .. } if !is_there(file)));
    put_out_of_the_way(image, all)
}

/// Lists the files that memory shows.
fn needed(image: &Image) -> HashSet<u32> {
    let shown = |content| match content {
        Content::File { file, .. } => Some(file),
        Content::Anonymous | Content::Memory { .. } | Content::Ring => None,
    };
    image.areas.iter().filter_map(|area| shown(area.content)).collect()
}

fn put_out_of_the_way(image: &Image, all: Vec<Option<File>>) -> Result<OpenedFiles, DumpFailed> {
    let taken = image.descriptors.iter().map(|d| d.fd);
    let from = checkpoint::free_numbers_from(ABOVE_MAKERS, taken, all.len() + 2 * image.objects.made.len());
    let mut opened = OpenedFiles {
        above: from + all.len() as i32,
        _limit: MoreDescriptors::give(std::process::id() as i32),
        ..OpenedFiles::default()
    };
    for (number, file) in (from..).zip(all) {
        let Some(file) = file else {
            opened.numbers.push(-1);
            continue;
        };
        let copy = os::fds::at_or_above(file.as_fd(), number)?;
        opened.numbers.push(copy.as_raw_fd());
        opened.held.push(copy);
    }
    opened.above = opened.numbers.iter().map(|number| number + 1).max().unwrap_or(0).max(opened.above);
    Ok(opened)
}

/// Adds the calls that put descriptors at their numbers, and close all others that are `there`.
pub fn set_descriptors(batch: &mut Batch, image: &Image, given: &Given, there: &[i32]) {
    // A descriptor above 2 may show the open file of one from 0 to 2.
    for descriptor in &image.descriptors {
        let (fd, is_closed) = (descriptor.fd as u64, descriptor.close_on_exec);
        let flags = if is_closed { libc::O_CLOEXEC as u64 } else { 0 };
        let from = match descriptor.opened {
            Opened::File { file, .. } => given.file(file),
            Opened::Made(object) => given.object(object),
            Opened::Home(standard) => standard,
        };
        if from == descriptor.fd {
            let flags = if is_closed { libc::FD_CLOEXEC as u64 } else { 0 };
            batch.may(libc::SYS_fcntl, [fd, libc::F_SETFD as u64, flags, 0, 0, 0]);
            continue;
        }
        match descriptor.opened {
            // The undumper may have none there.
            Opened::Home(_) => drop(batch.may(libc::SYS_dup3, [from as u64, fd, flags, 0, 0, 0])),
            _ => drop(batch.must("placing a descriptor", libc::SYS_dup3, [from as u64, fd, flags, 0, 0, 0])),
        }
        if let Opened::File { offset, .. } = descriptor.opened {
            // Directories and devices may have no offset to set.
            batch.may(libc::SYS_lseek, [fd, offset, libc::SEEK_SET as u64, 0, 0, 0]);
        }
    }
    let kept: HashSet<i32> = image.descriptors.iter().map(|d| d.fd).collect();
    for fd in there.iter().filter(|fd| !kept.contains(fd)) {
        batch.must("closing what was its maker's", libc::SYS_close, [*fd as u64, 0, 0, 0, 0, 0]);
    }
}
