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
    let all = os::process::living().into_iter().map(|(pid, line)| described(pid, line));
    all.filter(|process| process.key.pid != own && process.parent != own).collect()
}

/// Reads one process.
pub fn process(pid: i32) -> Option<Process> {
    let line = os::process::line(pid).ok()?;
    // A zombie is done.
    (line.state != 'Z').then(|| described(pid, line))
}

fn described(pid: i32, line: os::process::Line) -> Process {
    Process { key: ProcessKey { pid, began: line.began }, parent: line.parent, name: line.name }
}

/// Reads the threads of a task, with how each was scheduled when it was seen first.
pub fn threads(task: ProcessKey, known: Option<&Threads>) -> Threads {
    let tids = os::process::threads(task.pid).unwrap_or_default();
    let known_thread = |tid: i32| known.and_then(|known| known.get(&tid)).copied();
    let is_same = |thread: &Thread| crate::levers::began(thread.key.pid) == Some(thread.key.began);
    let thread = |tid| known_thread(tid).filter(is_same).or_else(|| Thread::look(tid));
    tids.into_iter().filter_map(|tid| Some((tid, thread(tid)?))).collect()
}

/// Finds the processes of tern itself that serve those that are away: ternd, stewards and wardens.
/// Only root's count, and only of this very program: others may bear its name.
pub fn helpers(processes: &[Process]) -> Vec<ProcessKey> {
    use std::os::unix::fs::MetadataExt as _;
    let file = |pid: &str| std::fs::metadata(format!("/proc/{pid}/exe")).ok().map(|file| (file.dev(), file.ino()));
    let own = file("self");
    let is_tern = |process: &&Process| {
        let is_role = |word: &[u8]| word == b"__steward" || word == b"__warden";
        let line = std::fs::read(format!("/proc/{}/cmdline", process.key.pid)).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0);
        let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let is_one = first.ends_with(b"ternd") || (first == b"tern" && is_role(second));
        is_one
            && os::process::status(process.key.pid).is_ok_and(|status| os::process::owner(&status.uid) == 0)
            && file(&process.key.pid.to_string()) == own
    };
    let named =
        processes.iter().filter(|process| ["exe", "tern", "ternd", "tern-lab"].contains(&process.name.as_str()));
    named.filter(is_tern).map(|process| process.key).collect()
}
