//! What is where below a room's /proc: which entries the room has of its own, and which are the
//! home's.

use crate::sandbox::porter::HIDDEN_PROC as HIDDEN;

/// What a path below /proc is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The directory /proc itself.
    Root,
    /// Where the room's own is mounted.
    Hidden,
    /// The process that asks.
    Myself,
    /// The thread that asks.
    MyThread,
    /// A link with this text.
    Link(String),
    /// A process of the room.
    Process(i32),
    /// Something of a process of the room that both kernels know a part of.
    Merged(i32, Merged),
    /// exe, cwd or root of a process of the room: where it leads is a path to who asks, and the
    /// very file to who follows it.
    Leads(i32, String),
    /// The directory of its descriptors.
    Descriptors(i32),
    /// One of them.
    Descriptor(i32, i32),
    /// Its maps, with home's numbers of devices if it has seen these.
    Maps(i32, &'static str),
    /// The directory of what is to be known of its descriptors.
    Infos(i32),
    /// What is to be known of a descriptor that stays at home, where it has this number (the last).
    Info(i32, i32, i32),
    /// What is to be known of a descriptor of a file of home's, on which the process may have
    /// locks.
    Lockable(i32, i32),
    /// Another entry of such a process: in the room's own.
    Inside(i32, String),
    /// The number is of home.
    Home,
}

/// Files that are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merged {
    /// The file /proc/PID/stat.
    Stat,
    /// The file /proc/PID/status.
    Status,
    /// The file /proc/PID/limits.
    Limits,
}

/// Files of a process that name file systems by their numbers.
const MAPS: [&str; 2] = ["maps", "smaps"];

/// What describes the machine that computes: memory, processors and their load, and what is
/// measured of them.
const OF_THE_MACHINE: [&str; 26] = [
    "buddyinfo",
    "cpuinfo",
    "interrupts",
    "iomem",
    "ioports",
    "irq",
    "kpagecgroup",
    "kpagecount",
    "kpageflags",
    "loadavg",
    "meminfo",
    "mtrr",
    "pagetypeinfo",
    "pressure",
    "sched_debug",
    "schedstat",
    "slabinfo",
    "softirqs",
    "stat",
    "swaps",
    "sysvipc",
    "timer_list",
    "uptime",
    "vmallocinfo",
    "vmstat",
    "zoneinfo",
];
/// As above, of a program's view of the kernel: as uname(2) says.
const VERSION: &str = "version";
/// Memory management, below `sys`.
const SYS_VM: &str = "sys/vm";

/// What of a process of the room is its deputy's: where it belongs, what its mounts and its network
/// are, and how soon it is to be killed for want of memory.
const OF_THE_DEPUTY: [&str; 13] = [
    "cgroup",
    "gid_map",
    "loginuid",
    "mountinfo",
    "mounts",
    "mountstats",
    "net",
    "oom_adj",
    "oom_score_adj",
    "projid_map",
    "sessionid",
    "setgroups",
    "uid_map",
];

/// Finds out. `is_own`: a process of this number lives in the room. `has_moved`: it has run
/// elsewhere.
pub fn of(path: &[u8], is_own: impl Fn(i32) -> bool, has_moved: impl Fn(i32) -> bool) -> Place {
    let Ok(path) = std::str::from_utf8(path) else { return Place::Home };
    if let Some(place) = at_the_top(path) {
        return place;
    }
    let (first, rest) = path.split_once('/').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let Some(pid) = number(first).filter(|pid| is_own(*pid)) else { return Place::Home };
    match rest {
        None => Place::Process(pid),
        Some("stat") => Place::Merged(pid, Merged::Stat),
        Some("status") => Place::Merged(pid, Merged::Status),
        Some("limits") => Place::Merged(pid, Merged::Limits),
        Some(name @ ("exe" | "cwd" | "root")) => Place::Leads(pid, name.into()),
        Some("fd") => Place::Descriptors(pid),
        Some("fdinfo") => Place::Infos(pid),
        Some(rest) => match MAPS.iter().find(|name| **name == rest) {
            Some(name) if has_moved(pid) => Place::Maps(pid, name),
            _ => below_process(pid, rest),
        },
    }
}

/// The process of which a program may set here how soon it is killed for want of memory.
pub fn is_killed_by(path: &[u8]) -> Option<i32> {
    let (first, rest) = std::str::from_utf8(path).ok()?.split_once('/')?;
    number(first).filter(|_| matches!(rest, "oom_adj" | "oom_score_adj"))
}

/// The descriptor of which this entry of a process tells.
pub fn described(rest: &str) -> Option<i32> {
    number(rest.strip_prefix("fdinfo/")?)
}

/// The name that a program knows of what is in /proc: the room's own has another.
pub fn known_as(path: &[u8]) -> Vec<u8> {
    match path.strip_prefix(b"/proc/").and_then(|rest| rest.strip_prefix(HIDDEN.as_bytes())) {
        Some(rest) if rest.starts_with(b"/") => [b"/proc", rest].concat(),
        _ => path.to_vec(),
    }
}

fn at_the_top(path: &str) -> Option<Place> {
    Some(match path {
        "" => Place::Root,
        HIDDEN => Place::Hidden,
        "self" => Place::Myself,
        "thread-self" => Place::MyThread,
        "mounts" | "net" => Place::Link(format!("self/{path}")),
        SYS_VM => Place::Link(format!("../{HIDDEN}/{path}")),
        own if own == VERSION || OF_THE_MACHINE.contains(&own) => Place::Link(format!("{HIDDEN}/{own}")),
        _ => return None,
    })
}

fn below_process(pid: i32, rest: &str) -> Place {
    let (first, deeper) = rest.split_once('/').unwrap_or((rest, ""));
    match number(deeper) {
        Some(fd) if first == "fd" => Place::Descriptor(pid, fd),
        _ if OF_THE_DEPUTY.contains(&first) => Place::Home,
        _ => Place::Inside(pid, rest.into()),
    }
}

/// A number as the kernel writes it.
fn number(text: &str) -> Option<i32> {
    let plain = text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(path: &str) -> Place {
        of(path.as_bytes(), |pid| [50, 52].contains(&pid), |pid| pid == 52)
    }

    #[test]
    fn entries_are_the_rooms_or_the_homes() {
        assert_eq!(place(""), Place::Root);
        assert_eq!(place("self"), Place::Myself);
        assert_eq!(place("50"), Place::Process(50));
        assert_eq!(place("51"), Place::Home);
        assert_eq!(place("51/status"), Place::Home);
        assert_eq!(place("50/status"), Place::Merged(50, Merged::Status));
        assert_eq!(place("50/fd/3"), Place::Descriptor(50, 3));
        assert_eq!(place("50/maps"), Place::Inside(50, "maps".into()));
        assert_eq!((place("50/fdinfo"), described("fdinfo/7")), (Place::Infos(50), Some(7)));
        assert_eq!(place("52/maps"), Place::Maps(52, "maps"));
        assert_eq!(place("50/mountinfo"), Place::Home);
        assert_eq!(place("50/limits"), Place::Merged(50, Merged::Limits));
        assert_eq!((place("50/oom_score_adj"), is_killed_by(b"50/oom_score_adj")), (Place::Home, Some(50)));
        assert_eq!((is_killed_by(b"50/oom_score"), is_killed_by(b"oom_adj")), (None, None));
        assert_eq!(place("50/net/tcp"), Place::Home);
        assert_eq!(place("meminfo"), Place::Link(".room/meminfo".into()));
        assert_eq!(place("sys/vm"), Place::Link("../.room/sys/vm".into()));
        assert_eq!(place("sys/net"), Place::Home);
    }

    #[test]
    fn numbers_are_written_in_one_way() {
        assert_eq!(place("050"), Place::Home);
        assert_eq!(place("+50"), Place::Home);
        assert_eq!(place("50/fd/03"), Place::Inside(50, "fd/03".into()));
        assert_eq!(of(b"\xff", |_| true, |_| true), Place::Home);
    }
}
