//! The line that the kernel keeps of each thread (proc_pid_stat(5)).

use super::{odd, slurp};
use crate::Result;

/// One reading of /proc/TID/stat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The kernel's name of the program, 15 bytes at most.
    pub name: String,
    /// The letter of the state.
    pub state: char,
    /// PID of the parent.
    pub parent: i32,
    /// Moment at which the thread began, ticks since the machine did.
    pub began: u64,
    /// The processor on which the thread ran last.
    pub processor: usize,
}

/// Lists the processes that can be seen and have not ended, with their lines.
pub fn living() -> Vec<(i32, Line)> {
    let pids = super::all().unwrap_or_default();
    let lines = pids.into_iter().filter_map(|pid| Some((pid, line(pid).ok()?)));
    // A zombie is done.
    lines.filter(|(_, line)| line.state != 'Z').collect()
}

/// Reads the line of a thread.
///
/// # Errors
/// There is no such thread.
pub fn line(tid: i32) -> Result<Line> {
    let text = slurp(tid, "stat")?;
    parse(&String::from_utf8_lossy(&text)).ok_or_else(|| odd(tid, "stat"))
}

fn parse(text: &str) -> Option<Line> {
    const PARENT_AT: usize = 1;
    const BEGAN_AT: usize = 19;
    const PROCESSOR_AT: usize = 36;
    // The name may hold anything; fields are counted from the last ')'.
    let (front, back) = text.rsplit_once(')')?;
    let name = front.split_once('(')?.1.to_owned();
    let fields: Vec<&str> = back.split_whitespace().collect();
    Some(Line {
        name,
        state: fields.first()?.chars().next()?,
        parent: fields.get(PARENT_AT)?.parse().ok()?,
        began: fields.get(BEGAN_AT)?.parse().ok()?,
        processor: fields.get(PROCESSOR_AT)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_line_is_understood() {
        let own = line(std::process::id() as i32).unwrap();
        assert_eq!(own.parent, std::os::unix::process::parent_id() as i32);
        assert_eq!(own.began, super::super::began(std::process::id() as i32).unwrap());
        assert!(line(i32::MAX).is_err());
    }

    #[test]
    fn names_may_hold_anything() {
        let numbers: Vec<String> = (4..=52).map(|n| n.to_string()).collect();
        let text = format!("7 (a) S ) (b) R {}", numbers.join(" "));
        let line = parse(&text).unwrap();
        assert_eq!((line.name.as_str(), line.state, line.parent), ("a) S ) (b", 'R', 4));
        assert_eq!((line.began, line.processor), (22, 39));
        assert_eq!(parse("7 (a"), None);
        assert_eq!(parse("7 (a) R 1 2"), None);
    }
}
