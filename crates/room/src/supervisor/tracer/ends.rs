//! Ends of children that home's processes have killed. Home tells the parent at once; the body here
//! dies a moment later, when the tracer hears of it. A parent that has heard of an end relies on
//! what the kernel does before it tells: the child's files are closed, its locks are free, its
//! number is nobody's. So what tells of the end waits here until the body has ended.

use crate::state::orders::News;
use crate::supervisor::tracer::Tracer;

impl Tracer {
    /// Tells a parent of an end, when the body has ended that home says is dead.
    pub fn tell_end(&mut self, child: i32, news: News) {
        if self.lives_here(child) {
            self.kill(child);
            self.ends.waiting.push((child, news));
        } else {
            self.tell_parent(news);
        }
    }

    /// Tells of those that have ended meanwhile.
    pub fn tell_ends(&mut self) {
        if self.ends.waiting.is_empty() {
            return;
        }
        let waiting = std::mem::take(&mut self.ends.waiting);
        let (waiting, over) = waiting.into_iter().partition(|(child, _)| self.lives_here(*child));
        self.ends.waiting = waiting;
        over.into_iter().for_each(|(_, news)| self.tell_parent(news));
    }

    fn lives_here(&self, pid: i32) -> bool {
        let guests = self.room.guests();
        guests.get(pid).is_some() && guests.host(pid).is_some()
    }

    fn tell_parent(&mut self, news: News) {
        match news {
            News::Wait { id, result, out } => (self.wait_answered)(id, result, out),
            News::Signal { pid, tid, info } => self.signal_from_home(pid, tid, info),
        }
    }
}
