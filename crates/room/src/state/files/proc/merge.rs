//! Puts together what two kernels say of one process: home's says who the process is, the room's
//! what it does and uses.

use crate::state::cpu_times::CpuTicks;

/// Fields of /proc/PID/stat, from 1, as in `proc_pid_stat(5)`.
mod field {
    pub const COMM: usize = 2;
    pub const STATE: usize = 3;
    /// flags, minflt, cminflt, majflt, cmajflt
    pub const FLAGS: usize = 9;
    pub const UTIME: usize = 14;
    pub const STIME: usize = 15;
    pub const CUTIME: usize = 16;
    pub const CSTIME: usize = 17;
    pub const STARTTIME: usize = 22;
    pub const EXIT_SIGNAL: usize = 38;
    pub const EXIT_CODE: usize = 52;
}

/// Addresses and the like, which only those see who may look into a process: startcode to kstkeip,
/// wchan, start_data to env_end.
const SECRET: [std::ops::RangeInclusive<usize>; 3] = [26..=30, 35..=35, 45..=51];

/// The rights of the process that asks, and the process that it asks about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asker {
    /// Root or the owner asks, who see addresses too.
    pub may_see_all: bool,
    /// It is the process' first thread, of which the state is told: it runs, and waits for nothing
    /// but the answer.
    pub is_itself: bool,
}

/// Puts /proc/PID/stat together. `away`: the processor time that neither kernel counted.
pub fn stat(home: &str, room: &str, asker: Asker, away: CpuTicks) -> Option<String> {
    let (of_home, of_room) = (fields(home)?, fields(room)?);
    let mut merged = Vec::with_capacity(of_home.len());
    for at in 1..=of_home.len().min(of_room.len()) {
        let (home, room) = (of_home[at - 1], of_room[at - 1]);
        merged.push(match at {
            _ if !asker.may_see_all && SECRET.iter().any(|range| range.contains(&at)) => "0".to_owned(),
            field::COMM => room.to_owned(),
            field::STATE => state(home, room, asker).to_owned(),
            field::UTIME => sum(&sum(home, room), &away.user.to_string()),
            field::STIME => sum(&sum(home, room), &away.system.to_string()),
            field::CUTIME..=field::CSTIME => sum(home, room),
            field::STARTTIME | field::EXIT_SIGNAL | field::EXIT_CODE => home.to_owned(),
            field::FLAGS.. => room.to_owned(),
            _ => home.to_owned(),
        });
    }
    Some(merged.join(" ") + "\n")
}

/// Splits a line of /proc/PID/stat. The second field is in parentheses, and may hold any
/// character.
fn fields(line: &str) -> Option<Vec<&str>> {
    let (open, close) = (line.find('(')?, line.rfind(')')?);
    if open > close {
        return None;
    }
    let pid = line.get(..open)?.trim();
    let rest = line.get(close + 1..)?.split_ascii_whitespace();
    Some([pid, line.get(open..=close)?].into_iter().chain(rest).collect())
}

fn sum(a: &str, b: &str) -> String {
    let number = |text: &str| text.parse::<u64>().unwrap_or_default();
    number(a).saturating_add(number(b)).to_string()
}

/// Chooses the state that is shown. Home's stops count; the short stops of the room's tracer are
/// hidden.
fn state<'a>(home: &'a str, room: &'a str, asker: Asker) -> &'a str {
    match (home.chars().next(), room.chars().next()) {
        // Its first thread has ended; others run on, and may ask.
        (_, Some('Z')) => room,
        _ if asker.is_itself => "R",
        (Some('T' | 'Z' | 'X'), _) => home,
        (_, Some('t' | 'T')) => "S",
        _ => room,
    }
}

/// Lines of /proc/PID/status that the room knows: by their names, or how those begin.
const OF_THE_ROOM: [&str; 17] = [
    "Name",
    "Umask",
    "FDSize",
    "Vm",
    "Rss",
    "HugetlbPages",
    "CoreDumping",
    "THP_enabled",
    "Threads",
    "SigPnd",
    "ShdPnd",
    "SigBlk",
    "SigIgn",
    "SigCgt",
    "Cpus_allowed",
    "Mems_allowed",
    "voluntary_ctxt",
];
const ALSO_OF_THE_ROOM: [&str; 3] = ["nonvoluntary_ctxt", "x86_Thread_features", "Speculation"];

/// /proc/PID/fdinfo/N. `flags`: those of the descriptor here; whether it closes at exec is the
/// body's affair, all else the open file's at home.
pub fn info(home: &str, flags: i32) -> String {
    let line = |line: &str| {
        let at_home = line.strip_prefix("flags:\t").and_then(|text| i32::from_str_radix(text.trim_end(), 8).ok());
        at_home.map_or_else(
            || line.to_owned(),
            |at_home| format!("flags:\t0{:o}\n", at_home & !libc::O_CLOEXEC | flags & libc::O_CLOEXEC),
        )
    };
    home.split_inclusive('\n').map(line).collect()
}

/// Lines of /proc/PID/limits that home keeps.
const LIMITS_OF_HOME: [&str; 2] = ["Max processes", "Max locked memory"];

/// Puts /proc/PID/limits together.
pub fn limits(home: &str, room: &str) -> String {
    let line = |line| {
        let name = LIMITS_OF_HOME.iter().find(|name| str::starts_with(line, **name));
        name.and_then(|name| home.split_inclusive('\n').find(|line| line.starts_with(*name))).unwrap_or(line)
    };
    room.split_inclusive('\n').map(line).collect()
}

/// Merges both views of /proc/PID/status.
pub fn status(home: &str, room: &str, asker: Asker) -> String {
    let value = |name: &str| room.lines().find(|line| line.split(':').next() == Some(name));
    let mut merged = String::with_capacity(home.len());
    for line in home.lines() {
        let name = line.split(':').next().unwrap_or_default();
        let from_room = OF_THE_ROOM.iter().chain(&ALSO_OF_THE_ROOM).any(|begin| name.starts_with(begin));
        match name {
            "State" => merged.push_str(&status_state(line, value(name).unwrap_or(line), asker)),
            _ if from_room => merged.push_str(value(name).unwrap_or(line)),
            _ => merged.push_str(line),
        }
        merged.push('\n');
    }
    merged
}

fn status_state(home: &str, room: &str, asker: Asker) -> String {
    let letter = |line: &str| line.split_ascii_whitespace().nth(1).unwrap_or("S").to_owned();
    match state(&letter(home), &letter(room), asker) {
        "R" => "State:\tR (running)".into(),
        "S" => "State:\tS (sleeping)".into(),
        chosen if chosen == letter(home) => home.into(),
        _ => room.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Asker = Asker { may_see_all: true, is_itself: false };
    const HOME: &str = "50 (tern) S 7 50 6 34816 60 4194304 1 2 3 4 5 6 7 8 20 0 1 0 1234 4096 10 18446744073709551615 1 2 3 4 5 0 0 0 0 1 0 0 17 0 0 0 0 0 0 1 2 3 4 5 6 7 0\n";
    const ROOM: &str = "9050 (a ) b) R 0 0 0 0 -1 4194560 11 0 0 0 100 50 0 0 25 5 3 0 99 8192 20 18446744073709551615 11 12 13 14 15 0 0 0 0 1 0 0 0 1 0 0 0 0 0 11 12 13 14 15 16 17 0\n";

    #[test]
    fn who_is_homes_and_what_is_the_rooms() {
        let merged = stat(HOME, ROOM, ALL, CpuTicks { user: 1, system: 2 }).unwrap();
        let fields = fields(&merged).unwrap();
        assert_eq!(&fields[..8], ["50", "(a ) b)", "R", "7", "50", "6", "34816", "60"]);
        assert_eq!(&fields[13..22], ["106", "58", "7", "8", "25", "5", "3", "0", "1234"]);
        assert_eq!((fields[25], fields[37], fields[38]), ("11", "17", "1"));
    }

    #[test]
    fn descriptors_close_here() {
        let home = "pos:\t0\nflags:\t02004002\nmnt_id:\t15\nino:\t6\ninotify wd:1 ino:2 sdev:3 mask:100\n";
        assert_eq!(info(home, 0), home.replace("02004002", "04002"));
        assert_eq!(info(home, libc::O_CLOEXEC | libc::O_RDWR), home);
        assert_eq!(info("odd", 0), "odd");
    }

    #[test]
    fn home_keeps_two_limits() {
        let room = "Limit  Soft\nMax cpu time 1\nMax processes 2\nMax locked memory 3\nMax nice priority 4\n";
        let home = "Limit  Soft\nMax cpu time 5\nMax processes 6\nMax locked memory 7\nMax nice priority 8\n";
        let merged = "Limit  Soft\nMax cpu time 1\nMax processes 6\nMax locked memory 7\nMax nice priority 4\n";
        assert_eq!((limits(home, room), limits("", room)), (merged.into(), room.into()));
    }

    #[test]
    fn addresses_are_for_few() {
        let closed = stat(HOME, ROOM, Asker::default(), CpuTicks::default()).unwrap();
        assert_eq!(&fields(&closed).unwrap()[24..31], ["18446744073709551615", "0", "0", "0", "0", "0", "0"]);
    }

    #[test]
    fn stops_are_homes() {
        assert_eq!(state("T", "S", ALL), "T");
        assert_eq!(state("S", "t", ALL), "S");
        assert_eq!(state("S", "R", ALL), "R");
        assert_eq!(state("S", "S", Asker { is_itself: true, ..ALL }), "R");
        assert_eq!(state("S", "Z", Asker { is_itself: true, ..ALL }), "Z");
    }

    #[test]
    fn status_lines() {
        let home = "Name:\ttern\nState:\tS (sleeping)\nPid:\t50\nPPid:\t7\nUid:\t0\t0\t0\t0\nVmRSS:\t 4 kB\nSeccomp:\t0\nThreads:\t1\n";
        let room = "Name:\tcat\nState:\tR (running)\nPid:\t9050\nPPid:\t0\nUid:\t9\t9\t9\t9\nVmRSS:\t 400 kB\nSeccomp:\t2\nThreads:\t3\n";
        let merged = status(home, room, ALL);
        assert_eq!(
            merged,
            "Name:\tcat\nState:\tR (running)\nPid:\t50\nPPid:\t7\nUid:\t0\t0\t0\t0\nVmRSS:\t 400 kB\nSeccomp:\t0\nThreads:\t3\n"
        );
    }

    #[test]
    fn odd_lines_are_no_trouble() {
        assert_eq!(stat("", ROOM, ALL, CpuTicks::default()), None);
        assert_eq!(stat("1 )(", ROOM, ALL, CpuTicks::default()), None);
        assert_eq!(status("", "", ALL), "");
    }
}
