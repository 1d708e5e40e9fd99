//! What the tool is answered about the policy.

use ::policy::Settings;
use control_protocol::tool::{Answer, Hint, Pin, SettingRow};
use packet::Peer;

use crate::daemon::Daemon;
use crate::scope::{self, Wanted};
use crate::{Error, history, log, policy};

pub(crate) fn show(daemon: &Daemon, peer: Peer) -> Answer {
    let settings = daemon.policy.settings();
    let rows = settings.rows().into_iter().map(|(name, value, allowed, text)| {
        let value = if name == "scope" { scope::shown(daemon, &settings, peer, value) } else { value };
        SettingRow { name: name.to_owned(), value, allowed, text: text.to_owned() }
    });
    Answer::Policy(rows.collect())
}

/// Root sets anything; users say which of their own processes are in scope.
pub(crate) fn set(daemon: &Daemon, peer: Peer, changes: &[(String, String)]) -> Result<Answer, Error> {
    let (of_scope, others): (Vec<_>, Vec<_>) = changes.iter().partition(|(name, _)| name == "scope");
    if peer.uid != 0 && !others.is_empty() {
        return Err(Error::NotAllowed { what: "tern policy set (but for scope)" });
    }
    let scopes: Vec<Wanted> =
        of_scope.iter().map(|(_, value)| scope::understood(peer, value)).collect::<Result<_, _>>()?;
    let apply = |settings: &mut Settings| {
        others.iter().try_for_each(|(name, value)| settings.set(name, value))?;
        scopes.iter().try_for_each(|scope| scope.apply(settings, peer))
    };
    daemon.policy.change(&daemon.identity, apply)?;
    scopes.iter().for_each(|scope| scope.apply_to_trees(daemon));
    for (name, value) in changes {
        tracing::info!(uid = peer.uid, "policy: {name}={value}");
    }
    Ok(Answer::Done)
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
    let balance = &daemon.balance;
    if !settings.in_scope(uid, balance.placed.has(pid) || balance.trees.has(pid)) {
        let tree = format!("`tern policy set scope=tree:{pid}` puts it and what it starts in scope");
        let (why, more) = match (history::start_of(daemon, pid), uid) {
            (Some(_), _) => {
                ("since `tern run --on` named its node", "`tern run --on NODE --movable` lets it be moved on".into())
            }
            (None, 0) => ("since tern did not start it", tree),
            (None, _) => (
                "since tern did not start it",
                format!("{tree}, `tern policy set scope=mine` all processes of its user"),
            ),
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
