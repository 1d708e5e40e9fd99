//! The tasks of a job with their threads.

use std::collections::BTreeMap;

use cosched::{Process, ProcessKey};

use crate::levers::Thread;

/// Threads by their numbers.
pub type Threads = BTreeMap<i32, Thread>;

/// Reads all processes that this one sees. One that ends meanwhile is left out, and so are the
/// agent and its guardian: a command that started the agent may be a descendant of a job.
pub fn processes() -> Vec<Process> {
    let own = std::process::id() as i32;
    let pids = os::process::all().unwrap_or_default();
    let all = pids.into_iter().filter_map(process);
    all.filter(|process| process.key.pid != own && process.parent != own).collect()
}

/// Reads one process.
pub fn process(pid: i32) -> Option<Process> {
    let line = os::process::line(pid).ok()?;
    // A zombie is done.
    (line.state != 'Z').then_some(Process {
        key: ProcessKey { pid, began: line.began },
        parent: line.parent,
        name: line.name,
    })
}

/// Reads the threads of a task, with how each was scheduled when it was seen first.
pub fn threads(task: ProcessKey, known: Option<&Threads>) -> Threads {
    let tids = os::process::threads(task.pid).unwrap_or_default();
    let known_thread = |tid: i32| known.and_then(|known| known.get(&tid)).copied();
    let is_same = |thread: &Thread| crate::levers::began(thread.key.pid) == Some(thread.key.began);
    let thread = |tid| known_thread(tid).filter(is_same).or_else(|| Thread::look(tid));
    tids.into_iter().filter_map(|tid| Some((tid, thread(tid)?))).collect()
}
