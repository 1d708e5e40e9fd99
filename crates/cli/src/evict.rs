//! `tern guests`, `tern evict` and `tern leave`: the commands by which an owner clears a machine.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use control_protocol::evictions::Eviction;
use control_protocol::guests::{HostedGuest, Insist, Leaving, Remaining, Whom};
use control_protocol::history::ago;
use control_protocol::tool::{Answer, Request};
use serde::Serialize;

use crate::args::{self, Output};
use crate::error::START;
use crate::{Dirs, Error, Host, client, show};

/// The time between two requests for the state of guests that leave.
const ASKED_EVERY: Duration = Duration::from_millis(500);

/// The result for one guest that was to leave.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Outcome {
    pid: i32,
    home: String,
    home_pid: i32,
    command: String,
    /// Why the guest is still here.
    stays: Option<String>,
}

/// Lists the guests of other homes on this node.
pub(crate) fn guests(dirs: &Dirs) -> Result<Vec<HostedGuest>, Error> {
    taken(client::ask(dirs, &Request::Guests)?)
}

fn taken(answer: Answer) -> Result<Vec<HostedGuest>, Error> {
    match answer {
        Answer::Guests(guests) => Ok(guests),
        _ => Err(client::unexpected()),
    }
}

/// Sends guests home, and waits until they have gone or cannot go. Gives the exit status: 1 if a
/// guest stays.
pub(crate) fn evict(dirs: &Dirs, args: &args::Evict) -> Result<u8, Error> {
    let ask = |insist| taken(client::ask(dirs, &Request::Evict { whom: args.whom(), insist })?);
    let first = ask(Insist::Again)?;
    if first.is_empty() {
        return nobody(&args.whom());
    }
    say(&format!("{} on their way home", counted(first.len(), "guest")));
    let mut all: BTreeMap<i32, HostedGuest> = first.into_iter().map(|guest| (guest.pid, guest)).collect();
    let left = persist(args.kill, ask, |left| {
        all.extend(left.iter().map(|guest| (guest.pid, guest.clone())));
        left.iter().any(|guest| guest.leaving == Some(Leaving::Goes))
    })?;
    let outcomes: Vec<Outcome> = all.values().map(|guest| outcome(guest, &left)).collect();
    show(args.output, &outcomes, || outcomes.iter().map(line).collect());
    Ok(u8::from(!left.is_empty()))
}

/// Handles a request that means no guest: fine for `all`, else a mistake.
fn nobody(whom: &Whom) -> Result<u8, Error> {
    let reason = match whom {
        Whom::All => return Ok(0),
        Whom::Home(home) => format!("no guest here is of home {home}"),
        Whom::Pid(pid) => format!("process {pid} is no guest here"),
    };
    Err(Error::Refused { reason, hint: Some("`tern guests` lists the guests, with their PIDs on this machine".into()) })
}

/// Repeats the request until no process moves any more. Those that stay are tried once more, and
/// finally ended if the user wants that.
fn persist<T>(
    kill: bool,
    ask: impl Fn(Insist) -> Result<Vec<T>, Error>,
    mut any_goes: impl FnMut(&[T]) -> bool,
) -> Result<Vec<T>, Error> {
    let last = [Insist::Kill];
    let mut insisting = [Insist::Again].iter().chain(if kill { &last[..] } else { &[] });
    let mut insist = Insist::No;
    loop {
        std::thread::sleep(ASKED_EVERY);
        let left = ask(insist)?;
        insist = match left.is_empty() {
            true => return Ok(left),
            // Children that were forked meanwhile end like the others.
            false if any_goes(&left) => {
                if insist == Insist::Kill {
                    Insist::Kill
                } else {
                    Insist::No
                }
            }
            false => match insisting.next() {
                Some(more) => {
                    // A process that was just tried is not tried again at once.
                    std::thread::sleep(2 * ASKED_EVERY);
                    *more
                }
                None => return Ok(left),
            },
        };
    }
}

fn outcome(guest: &HostedGuest, left: &[HostedGuest]) -> Outcome {
    let stays = left.iter().find(|l| l.pid == guest.pid).map(|l| why(l.leaving.as_ref()));
    Outcome {
        pid: guest.pid,
        home: guest.home.clone(),
        home_pid: guest.home_pid,
        command: guest.command.clone(),
        stays,
    }
}

fn why(leaving: Option<&Leaving>) -> String {
    match leaving {
        Some(Leaving::Stays { why }) => why.clone(),
        _ => "it is still on its way".into(),
    }
}

fn line(outcome: &Outcome) -> String {
    let Outcome { pid, home, home_pid, command, stays } = outcome;
    let name = format!("{pid} ({home_pid} of {home}: {})", show::printable(command));
    match stays {
        None => format!("{name} has gone\n"),
        Some(why) => format!("{name} stays: {why}\n"),
    }
}

/// Shows the last entries of the log of evictions.
pub(crate) fn log(dirs: &Dirs, lines: u32, json: bool) -> Result<u8, Error> {
    let Answer::Log { lines } = client::ask(dirs, &Request::Evictions { lines })? else {
        return Err(client::unexpected());
    };
    if json {
        return Ok(crate::print_lines(&lines));
    }
    // An older tern wrote what cannot be read.
    let entries: Vec<Eviction> = lines.iter().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let now_ms = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX));
    let shown = entries.iter().flat_map(|entry| {
        let when = ago(now_ms.saturating_sub(entry.at_ms()));
        entry.words().into_iter().map(move |words| format!("{when}: {}", show::printable(&words)))
    });
    Ok(crate::print_lines(&shown.collect::<Vec<_>>()))
}

/// Leaves the cluster after the processes of this home have come back and guests have gone.
pub(crate) fn leave(dirs: &Dirs, force: bool, host: Host) -> Result<(), Error> {
    let mut said = false;
    let ask = |insist| match client::ask(dirs, &Request::Leave { insist })? {
        Answer::Done => Ok(Vec::new()),
        Answer::Remaining(remaining) => Ok(remaining),
        _ => Err(client::unexpected()),
    };
    match ask(Insist::Again) {
        Err(Error::NoDaemon { path, .. }) => return without_daemon(dirs, force, &path, host),
        Err(e) => return Err(e),
        Ok(first) if first.is_empty() => return Ok(()),
        Ok(_) => {}
    }
    let left = persist(force, ask, |left: &[Remaining]| {
        if !std::mem::replace(&mut said, true) {
            say(&format!("{} on their way home first", counted(left.len(), "process")));
        }
        left.iter().any(|r| r.leaving == Leaving::Goes)
    })?;
    if left.is_empty() {
        return Ok(());
    }
    for Remaining { home, node, pid, command, leaving } in &left {
        eprintln!(
            "tern: process {pid} of {home} stays on {node} ({}): {}",
            show::printable(command),
            why(Some(leaving))
        );
    }
    Err(Error::Refused {
        reason: format!("this node has not left its cluster: {} cannot go home", counted(left.len(), "process")),
        hint: Some("`tern leave --force` ends them and leaves all the same".into()),
    })
}

/// Leaves without telling the other nodes.
fn without_daemon(dirs: &Dirs, force: bool, socket: &Path, host: Host) -> Result<(), Error> {
    identity::Identity::load(&dirs.state)?;
    if !force {
        return Err(Error::Refused {
            reason: format!("no ternd serves at {}: nobody can tell the other nodes", socket.display()),
            hint: Some(format!(
                "{START} starts it; `tern leave --force` ends guests, forgets the identity, and the others see this node as down"
            )),
        });
    }
    (host.abandon)(dirs).map_err(|reason| Error::Refused { reason, hint: None })?;
    eprintln!("tern: the other nodes were not told: they see this node as down");
    Ok(())
}

/// Reports the guests after `tern policy set guests=off`. The daemon sends them away by itself.
pub(crate) fn tell_of_guests(dirs: &Dirs) -> Result<(), Error> {
    let guests = guests(dirs)?.len();
    if guests > 0 {
        say(&format!("{} on their way home; `tern guests` lists those that are left", counted(guests, "guest")));
    }
    Ok(())
}

fn counted(count: usize, what: &str) -> String {
    match (count, what) {
        (1, _) => format!("1 {what}"),
        (_, "process") => format!("{count} processes"),
        _ => format!("{count} {what}s"),
    }
}

/// Prints a line for a user at a terminal.
fn say(text: &str) {
    if std::io::stderr().is_terminal() {
        eprintln!("tern: {text}");
    }
}

/// Formats guests as `tern guests` does.
pub(crate) fn table(guests: &[HostedGuest]) -> String {
    let cells = guests.iter().map(|g| {
        let leaving = match &g.leaving {
            None => String::new(),
            Some(Leaving::Goes) => "goes home: ".into(),
            Some(Leaving::Stays { why }) => format!("cannot go home ({why}): "),
        };
        vec![
            g.pid.to_string(),
            g.home.clone(),
            g.home_pid.to_string(),
            g.uid.to_string(),
            show::cpu_time(g.cpu_us),
            show::mib(g.rss_bytes >> 20),
            show::age(g.here_s),
            format!("{}{leaving}{}", waits(g), show::printable(&g.command)),
        ]
    });
    show::table(&["PID", "HOME", "ITS PID", "USER", "TIME", "MEM", "HERE FOR", "COMMAND"], &cells.collect::<Vec<_>>())
}

/// Says for how long a guest's home has been suspended, if it is.
fn waits(guest: &HostedGuest) -> String {
    guest.home_suspended_ms.map_or_else(String::new, |ms| format!("home suspended for {}: ", show::age(ms / 1000)))
}

/// Prints guests in the chosen format.
pub(crate) fn print(output: Output, guests: &[HostedGuest]) -> u8 {
    crate::show(output, &guests, || table(guests))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    fn guest(leaving: Leaving) -> HostedGuest {
        HostedGuest {
            pid: 70,
            home: "n1".into(),
            home_pid: 4321,
            uid: 1000,
            state: 'S',
            cpu_us: 1_500_000,
            rss_bytes: 5 << 20,
            threads: 1,
            here_s: 75,
            command: "sleep 9".into(),
            leaving: Some(leaving),
            home_suspended_ms: None,
        }
    }

    #[test]
    fn guests_that_stay_are_tried_once_more_and_ended_on_request_only() {
        let stays = Leaving::Stays { why: "it is busy".into() };
        for (kill, wanted) in [
            (false, vec![Insist::No, Insist::No, Insist::Again]),
            (true, vec![Insist::No, Insist::No, Insist::Again, Insist::Kill]),
        ] {
            let asked = RefCell::new(Vec::new());
            let ask = |insist| {
                asked.borrow_mut().push(insist);
                let first = asked.borrow().len() == 1;
                Ok(match insist {
                    Insist::Kill => Vec::new(),
                    _ => vec![guest(if first { Leaving::Goes } else { stays.clone() })],
                })
            };
            let goes = |left: &[HostedGuest]| left.iter().any(|g| g.leaving == Some(Leaving::Goes));
            let left = persist(kill, ask, goes).unwrap();
            assert_eq!((asked.into_inner(), left.is_empty()), (wanted, kill));
        }
    }

    #[test]
    fn children_begun_while_their_parent_is_ended_end_too() {
        let stays = Leaving::Stays { why: "its home does not answer".into() };
        let kills = RefCell::new(0);
        let ask = |insist| {
            *kills.borrow_mut() += u32::from(insist == Insist::Kill);
            // The first request ends the parent, whose new child was not on the list.
            Ok(match *kills.borrow() {
                0 => vec![guest(stays.clone())],
                1 if insist == Insist::Kill => vec![guest(Leaving::Goes)],
                1 => vec![guest(stays.clone())],
                _ => Vec::new(),
            })
        };
        let goes = |left: &[HostedGuest]| left.iter().any(|g| g.leaving == Some(Leaving::Goes));
        assert!(persist(true, ask, goes).unwrap().is_empty());
    }

    #[test]
    fn lines_name_the_process_and_the_reason() {
        let stays = guest(Leaving::Stays { why: "it is busy".into() });
        assert_eq!(line(&outcome(&stays, &[])), "70 (4321 of n1: sleep 9) has gone\n");
        assert_eq!(
            line(&outcome(&stays, std::slice::from_ref(&stays))),
            "70 (4321 of n1: sleep 9) stays: it is busy\n"
        );
        let shown = table(&[stays]);
        assert!(shown.contains("n1    4321     1000  0:01.50  5M") && shown.contains("01:15"), "{shown}");
        assert_eq!((counted(1, "process"), counted(2, "process")), ("1 process".into(), "2 processes".into()));
    }
}
