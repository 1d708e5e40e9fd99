//! The memory that was sent ahead, and the rest when the process is frozen. A thread of its own
//! finds the rest while the state of the process is still being collected.

use crate::ahead::{Ahead, Course, Rest, divide, divide_behind_files, is_much};
use crate::error::BodyError;
use image::{Area, Image};
use migration_plan::Ranges;
use os::inject::Memory;
use os::processor::Elsewhere;
use os::warm::Standby;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// The most bytes of the rest that the thread reads as well.
const READ_BYTES_MAX: u64 = 1 << 20;

/// The state of the memory that was sent ahead, if any was.
#[derive(Debug, Default)]
pub struct Headstart {
    ahead: Option<Arc<Ahead>>,
    looking: Option<Looking>,
}

/// What is to be sent when the process is frozen.
#[derive(Debug)]
pub struct Left {
    /// Pages to send.
    pub rest: Rest,
    /// The bytes of these pages, if they are few and have been read already.
    pub bytes: Option<Vec<u8>>,
    /// Ranges that follow by post-copy.
    pub later: Ranges,
}

/// A thread that looks for the rest when it is asked to.
#[derive(Debug)]
struct Looking {
    tid: Option<i32>,
    begin: Option<Sender<Vec<Area>>>,
    found: Receiver<Result<Found, BodyError>>,
    /// Keeps the thread off the processor on which the state of the process is collected.
    elsewhere: RefCell<Option<Elsewhere>>,
}

type Found = (Rest, Option<Vec<u8>>);

impl Headstart {
    /// Creates the state of the running process `pid` after the pre-copy `ahead`.
    pub fn of(pid: i32, ahead: Option<Ahead>) -> Headstart {
        let ahead = ahead.map(Arc::new);
        // Without a thread the search takes longer. Little has to be searched if only pages of
        // files were sent, and their place is known from the threads' registers.
        let all = ahead.as_ref().filter(|ahead| !ahead.is_of_files());
        let looking = all.and_then(|ahead| Looking::start(pid, ahead.clone()).ok());
        Headstart { ahead, looking }
    }

    /// Begins the search: the process is frozen from now on and has these areas.
    pub fn begin(&self, areas: &[Area]) {
        if let Some(looking) = &self.looking {
            *looking.elsewhere.borrow_mut() = looking.tid.and_then(Elsewhere::keep);
            // An ended thread is noticed when its answer is wanted.
            let _ = looking.begin.as_ref().map(|begin| begin.send(areas.to_vec()));
        }
    }

    /// Tells whether nothing was sent ahead: the destination has no pages yet.
    pub fn is_none(&self) -> bool {
        self.ahead.is_none()
    }

    /// Tells whether the areas of what was sent are those of the image. The rest can then be put in
    /// place before the image is there.
    pub fn fits(&self, image: &Image) -> bool {
        image.objects.memories.is_empty() && self.ahead.as_ref().is_some_and(|ahead| ahead.areas() == image.areas)
    }

    /// Gives the summary of the pre-copy.
    pub fn course(&self) -> Option<Course> {
        self.ahead.as_ref().and_then(|ahead| ahead.course())
    }

    /// Finds the rest of process `pid`. If it is at least `follow_bytes`, it stays here and follows
    /// by post-copy.
    pub fn left(&mut self, pid: i32, image: &Image, follow_bytes: u64) -> Result<Left, BodyError> {
        if let Some(ahead) = self.ahead.as_ref().filter(|ahead| ahead.is_of_files())
            && is_much(pid, follow_bytes)?
        {
            let (rest, later) = divide_behind_files(pid, image, ahead)?;
            return Ok(Left { rest, bytes: None, later });
        }
        // With protection keys the areas may differ from those that the thread was told of.
        let looking = self.looking.take().filter(|_| image.process.keys == 0);
        let found = match (&self.ahead, looking) {
            (Some(_), Some(looking)) => looking.found()?,
            (Some(ahead), None) => (ahead.rest(&image.areas)?, None),
            (None, _) => (Rest::default(), None),
        };
        let (rest, bytes) = found;
        let ahead = self.ahead.as_deref().map(|ahead| (ahead, rest));
        let (rest, later) = divide(pid, image, ahead, follow_bytes)?;
        Ok(Left { rest, bytes: bytes.filter(|_| later.is_empty()), later })
    }
}

impl Looking {
    fn start(pid: i32, ahead: Arc<Ahead>) -> std::io::Result<Looking> {
        let (begin, begins) = channel::<Vec<Area>>();
        let (tell, found) = channel();
        let thread = Standby::start()?;
        let tid = thread.tid();
        thread.run(c"look", move || {
            let seen = begins.recv().ok().map(|areas| look(pid, &ahead, &areas));
            // End the write tracking before the answer, or its absence, is known: another attempt
            // would find the memory tracked.
            drop(ahead);
            // A receiver that has gone has given up.
            let _ = seen.map(|seen| tell.send(seen));
        });
        Ok(Looking { tid, begin: Some(begin), found, elsewhere: RefCell::default() })
    }

    fn found(self) -> Result<Found, BodyError> {
        self.found
            .recv()
            .map_err(|_| BodyError::NotMigratable("the thread that searches its memory has ended".into()))?
    }
}

impl Drop for Looking {
    /// Waits until the thread has ended its search.
    fn drop(&mut self) {
        self.begin = None;
        let _ = self.found.recv();
    }
}

fn look(pid: i32, ahead: &Ahead, areas: &[Area]) -> Result<Found, BodyError> {
    let rest = ahead.rest(areas)?;
    let bytes = rest.runs.iter().map(|run| run.1).sum::<u64>();
    if bytes > READ_BYTES_MAX {
        return Ok((rest, None));
    }
    let mut read = vec![0; bytes as usize];
    Memory::of(pid)?.read_runs(&rest.runs, &mut read)?;
    Ok((rest, Some(read)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copied::Copied;
    use crate::pages::PAGE;

    #[test]
    fn written_pages_are_found_and_read() {
        let pid = std::process::id() as i32;
        let mut memory = vec![7u8; 16 * PAGE];
        let start = (memory.as_ptr() as u64).next_multiple_of(PAGE as u64);
        let areas = vec![Area::anonymous(start, start + 8 * PAGE as u64, 3)];
        let ahead = Ahead::copied(Copied::of(pid, &areas).unwrap(), areas.clone(), u64::MAX);
        let mut headstart = Headstart::of(pid, Some(ahead));
        let image = Image { areas: areas.clone(), ..Image::default() };
        assert!(headstart.fits(&image) && !headstart.is_none());
        let from = (start - memory.as_ptr() as u64) as usize;
        memory[from + PAGE] = 8;
        headstart.begin(&areas);
        let left = headstart.left(pid, &image, u64::MAX).unwrap();
        assert_eq!(left.rest.runs, [(start + PAGE as u64, PAGE as u64)]);
        assert_eq!(left.bytes.as_deref(), Some(&memory[from + PAGE..from + 2 * PAGE]));
        // A second request searches anew; now the ranges that may follow do.
        assert_eq!(headstart.left(pid, &image, u64::MAX).unwrap().rest.runs, left.rest.runs);
        let left = headstart.left(pid, &image, 100).unwrap();
        assert_eq!((left.rest.runs, left.later.iter().count()), (vec![], 1));
    }

    #[test]
    fn behind_copies_of_files_all_else_follows() {
        let (pid, page) = (std::process::id() as i32, PAGE as u64);
        let mut memory = vec![7u8; 16 * PAGE];
        let start = (memory.as_ptr() as u64).next_multiple_of(page);
        let (file, end) = (start + 4 * page, start + 12 * page);
        let content = image::Content::File { file: 0, offset: 0 };
        let areas = vec![Area { content, ..Area::anonymous(start, file, 3) }, Area::anonymous(file, end, 3)];
        let copied = Copied::of_files(pid, &areas).unwrap();
        assert_eq!(copied.ranges(), [(start, file)]);
        let mut headstart = Headstart::of(pid, Some(Ahead::of_files(copied, areas.clone())));
        assert!(!headstart.is_none() && headstart.course().is_none());
        let from = (start - memory.as_ptr() as u64) as usize;
        (memory[from + PAGE], memory[from + 5 * PAGE]) = (8, 8);
        let image = Image { areas, ..Image::default() };
        let left = headstart.left(pid, &image, 0).unwrap();
        assert_eq!((left.rest.runs, left.rest.gone), (vec![(start + page, page)], vec![]));
        assert_eq!(left.later.iter().collect::<Vec<_>>(), [(file, end)]);
    }

    #[test]
    fn without_a_headstart_all_is_left() {
        let memory = vec![7u8; 16 * PAGE];
        let start = (memory.as_ptr() as u64).next_multiple_of(PAGE as u64);
        let areas = vec![Area::anonymous(start, start + 8 * PAGE as u64, 3)];
        let mut none = Headstart::default();
        none.begin(&areas);
        let left = none.left(std::process::id() as i32, &Image { areas, ..Image::default() }, u64::MAX).unwrap();
        assert!(none.is_none() && left.bytes.is_none() && !left.rest.runs.is_empty());
        assert_eq!(memory[0], 7);
    }
}
