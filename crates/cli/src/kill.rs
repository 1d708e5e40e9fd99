//! `tern kill`: a signal for many processes that are away.
//!
//! Each process that is away is a process of this machine, and the kernel takes a signal for it
//! with its own checks of rights. So ternd is asked once, for who is where, and not for the signal.

use std::collections::HashSet;
use std::str::FromStr;

use control_protocol::tool::{Answer, PsRow, Request};
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;

use crate::args::Kill;
use crate::{Dirs, Error, client, nodes, show};

/// Names of signal(7), in the order of their numbers from 1 on.
const NAMES: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM", "TERM",
    "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO",
    "PWR", "SYS",
];

/// A signal as a user names it: TERM, SIGTERM, or 15.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalName(Signal);

impl SignalName {
    /// Gives the signal.
    pub(crate) fn signal(self) -> Signal {
        self.0
    }

    /// Tells whether no program handles the signal, or puts it off.
    pub(crate) fn ends_at_once(self) -> bool {
        self.0 == Signal::KILL
    }
}

impl FromStr for SignalName {
    type Err = String;

    fn from_str(text: &str) -> Result<SignalName, String> {
        let upper = text.to_ascii_uppercase();
        let name = upper.strip_prefix("SIG").unwrap_or(&upper);
        let by_name = || (1..).zip(NAMES).find(|(_, known)| *known == name).map(|(number, _)| number);
        let number: Option<i32> = text.parse().ok().or_else(by_name);
        let signal = number.and_then(Signal::from_named_raw);
        signal.map(SignalName).ok_or_else(|| format!("no signal is called {text:?}; `kill -l` lists them"))
    }
}

/// The result of `tern kill`.
#[derive(Serialize)]
struct Killed {
    signalled: Vec<i32>,
    failed: Vec<FailedKill>,
}

#[derive(Serialize)]
struct FailedKill {
    pid: i32,
    error: String,
}

/// Signals the processes that the arguments choose. Gives the exit status.
pub(crate) fn kill(dirs: &Dirs, args: &Kill) -> Result<u8, Error> {
    let Answer::Ps { rows, failures, .. } = client::ask(dirs, &Request::Ps)? else {
        return Err(client::unexpected());
    };
    failures.iter().for_each(|failure| eprintln!("tern: {failure}"));
    let (mut killed, chosen) = (Killed { signalled: Vec::new(), failed: Vec::new() }, chosen(dirs, args, &rows)?);
    for pid in chosen {
        match Pid::from_raw(pid).ok_or(rustix::io::Errno::SRCH).and_then(|to| kill_process(to, args.signal.0)) {
            Ok(()) => killed.signalled.push(pid),
            Err(e) => killed.failed.push(FailedKill { pid, error: e.to_string() }),
        }
    }
    let away: HashSet<i32> = rows.iter().map(|row| row.guest.pid).collect();
    let missing = args.pids.iter().filter(|pid| !away.contains(pid));
    killed.failed.extend(missing.map(|pid| FailedKill { pid: *pid, error: Error::NotAway { pid: *pid }.to_string() }));
    let is_complete = killed.failed.is_empty() && failures.is_empty() && !killed.signalled.is_empty();
    let status = show(args.output, &killed, || {
        killed.failed.iter().for_each(|failed| eprintln!("tern kill: {}: {}", failed.pid, failed.error));
        String::new()
    });
    Ok(if is_complete { status } else { 1 })
}

/// The processes that all given choices name.
fn chosen(dirs: &Dirs, args: &Kill, rows: &[PsRow]) -> Result<Vec<i32>, Error> {
    let on: Option<HashSet<String>> =
        args.on.as_ref().map(|on| nodes::chosen(dirs, on)).transpose()?.map(|names| names.into_iter().collect());
    let user = args.user.as_deref().map(number_of).transpose()?;
    let pids: HashSet<i32> = args.pids.iter().copied().collect();
    let is_chosen = |row: &&PsRow| {
        on.as_ref().is_none_or(|on| on.contains(&row.node))
            && user.is_none_or(|user| user == row.guest.uid)
            && (pids.is_empty() || pids.contains(&row.guest.pid))
    };
    Ok(rows.iter().filter(is_chosen).map(|row| row.guest.pid).collect())
}

/// The number of a user.
fn number_of(user: &str) -> Result<u32, Error> {
    let known = || show::users().into_iter().find(|(_, name)| name == user).map(|(number, _)| number);
    user.parse().ok().or_else(known).ok_or_else(|| Error::NoUser { user: user.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_names_and_numbers() {
        for text in ["TERM", "SIGTERM", "term", "15"] {
            assert_eq!(text.parse(), Ok(SignalName(Signal::TERM)), "{text}");
        }
        for (number, name) in (1..).zip(NAMES) {
            assert_eq!(name.parse::<SignalName>().unwrap().0.as_raw(), number, "{name}");
        }
        for text in ["", "SIG", "0", "-1", "NONE", "99999999999"] {
            assert!(text.parse::<SignalName>().is_err(), "{text}");
        }
    }
}
