//! What the tool is answered about the policy.

use ::policy::{SettingError, Settings};
use ctl::tool::{Answer, Hint, Pin, SettingRow};
use packet::Peer;

use crate::daemon::Daemon;
use crate::{Error, history, log, policy};

/// `scope=mine` is each user's own.
const MINE: &str = "mine";

pub(crate) fn show(daemon: &Daemon, peer: Peer) -> Answer {
    let settings = daemon.policy.settings();
    let rows = settings.rows().into_iter().map(|(name, value, allowed, text)| {
        let mine = name == "scope" && settings.users.contains(&peer.uid);
        let value = if mine { format!("{value} + {MINE}") } else { value };
        SettingRow { name: name.to_owned(), value, allowed, text: text.to_owned() }
    });
    Answer::Policy(rows.collect())
}

/// Root sets anything; users say whether all of their own processes are in scope.
pub(crate) fn set(daemon: &Daemon, peer: Peer, changes: &[(String, String)]) -> Result<Answer, Error> {
    let own_scope = |(name, value): &(String, String)| name == "scope" && (value == MINE || peer.uid != 0);
    if peer.uid != 0 && !changes.iter().all(own_scope) {
        return Err(Error::NotAllowed { what: "tern policy set (but for scope=mine and scope=tern)" });
    }
    let apply = |settings: &mut Settings| changes.iter().try_for_each(|change| apply(settings, peer, change));
    daemon.policy.change(&daemon.identity, apply)?;
    for (name, value) in changes {
        tracing::info!(uid = peer.uid, "policy: {name}={value}");
    }
    Ok(Answer::Done)
}

fn apply(settings: &mut Settings, peer: Peer, (name, value): &(String, String)) -> Result<(), SettingError> {
    match (name.as_str(), value.as_str()) {
        ("scope", MINE) => settings.opt(peer.uid, true),
        ("scope", "tern") if peer.uid != 0 => settings.opt(peer.uid, false),
        ("scope", _) if peer.uid != 0 => {
            let range = "mine or tern".into();
            Err(SettingError::Range { name: name.clone(), value: value.chars().take(60).collect(), range })
        }
        (name, value) => settings.set(name, value),
    }
}

pub(crate) fn decisions(daemon: &Daemon, lines: u32) -> Result<Answer, Error> {
    let lines = usize::try_from(lines).unwrap_or(usize::MAX);
    match log::tail_of(&daemon.options.run_dir, policy::log_file(), lines) {
        Ok(lines) => Ok(Answer::Log { lines }),
        // Nothing was decided yet.
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Answer::Log { lines: Vec::new() }),
        Err(e) => Err(Error::socket("read the decisions", e)),
    }
}

pub(crate) fn pin(daemon: &Daemon, pid: i32, pin: Option<Pin>) -> Result<Answer, Error> {
    let path = || format!("/proc/{pid}");
    let unsigned =
        u32::try_from(pid).map_err(|_| Error::file("pin process", path(), std::io::ErrorKind::NotFound.into()))?;
    daemon.pins.set(unsigned, pin).map_err(|e| Error::file("pin process", path(), e))?;
    Ok(Answer::Done)
}

/// The policy's view of a process of this user.
pub(crate) fn why(daemon: &Daemon, pid: i32, uid: u32) -> Vec<String> {
    let settings = daemon.policy.settings();
    let mut lines = Vec::new();
    if let Some(pin) = u32::try_from(pid).ok().and_then(|pid| daemon.pins.get(pid)) {
        let said = [
            (pin.stay, "it stays where it is (tern pin)"),
            (pin.prefer_home, "it goes home whenever home can run it (tern pin --prefer-home)"),
            (pin.hint == Hint::Cpu, "it computes (tern pin --hint cpu)"),
            (pin.hint == Hint::Io, "it is busy with files and terminals (tern pin --hint io)"),
        ];
        lines.extend(said.iter().filter(|(is, _)| *is).map(|(_, text)| format!("policy: its user says: {text}")));
    }
    if !settings.in_scope(uid, daemon.balance.placed.has(pid)) {
        let (why, more) = match history::start_of(daemon, pid) {
            Some(_) => ("since `tern run --on` named its node", "`tern run --on NODE --movable` lets it be moved on"),
            None => {
                ("since tern did not start it", "`tern policy set scope=mine` puts all processes of a user in scope")
            }
        };
        lines.push(format!("policy: not in scope, {why}; {more}"));
    }
    for (is, text) in
        [(settings.stay, "stay=on: nothing leaves this node"), (settings.quiet, "quiet=on: nothing is decided here")]
    {
        if is {
            lines.push(format!("policy: {text}"));
        }
    }
    lines
}
