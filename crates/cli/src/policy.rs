//! `tern policy`, `tern pin` and `tern replay`.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use ::policy::{Entry, Replayed, Settings};
use control_protocol::tool::{Answer, Hint, Pin, Request, SettingRow};
use identity::Identity;
use serde::Serialize;

use crate::args::{self, Output};
use crate::{Dirs, Error, client, evict, show};

/// The most bytes of a log that are read.
const LOG_BYTES: u64 = 256 << 20;
/// The file of the policy's settings in the state directory.
const NOTE: &str = "policy.json";

/// The result of a replay, as JSON.
#[derive(Serialize)]
struct Summary<'a> {
    decisions: usize,
    alike: usize,
    different: Vec<&'a Replayed>,
}

pub(crate) fn settings(dirs: &Dirs) -> Result<Vec<SettingRow>, Error> {
    match client::ask(dirs, &Request::Policy)? {
        Answer::Policy(rows) => Ok(rows),
        _ => Err(client::unexpected()),
    }
}

pub(crate) fn set(dirs: &Dirs, changes: &[(String, String)]) -> Result<(), Error> {
    done(client::ask(dirs, &Request::SetPolicy { changes: changes.to_vec() })?)?;
    let closes = |(name, value): &(String, String)| match name.as_str() {
        "guests" => matches!(value.as_str(), "off" | "no" | "false"),
        "accept" => value == "never",
        _ => false,
    };
    if changes.iter().any(closes) { evict::tell_of_guests(dirs) } else { Ok(()) }
}

pub(crate) fn pin(dirs: &Dirs, args: &args::Pin) -> Result<(), Error> {
    let hint = match args.hint {
        None => Hint::None,
        Some(args::Hint::Cpu) => Hint::Cpu,
        Some(args::Hint::Io) => Hint::Io,
    };
    let stay = !args.prefer_home && args.hint.is_none();
    let pin = (!args.off).then_some(Pin { stay, prefer_home: args.prefer_home, hint });
    done(client::ask(dirs, &Request::Pin { pid: args.pid, pin })?)
}

pub(crate) fn done(answer: Answer) -> Result<(), Error> {
    if answer == Answer::Done { Ok(()) } else { Err(client::unexpected()) }
}

/// Replays a log. Gives the exit status: 1 if a decision differs.
pub(crate) fn replay(file: &Path, output: Output) -> Result<u8, Error> {
    let local = |source| Error::Local { what: "read the decisions", source };
    let mut text = String::new();
    let input: Box<dyn Read> =
        if file.as_os_str() == "-" { Box::new(io::stdin()) } else { Box::new(File::open(file).map_err(local)?) };
    input.take(LOG_BYTES).read_to_string(&mut text).map_err(local)?;
    let again = ::policy::replay(&text).collect::<Result<Vec<_>, _>>();
    let again = again.map_err(|e| local(io::Error::new(io::ErrorKind::InvalidData, e)))?;
    let different: Vec<&Replayed> = again.iter().filter(|r| !r.same()).collect();
    let summary = Summary { decisions: again.len(), alike: again.len() - different.len(), different };
    let status = show(output, &summary, || {
        let mut text = format!("{} decisions, {} with the same result\n", summary.decisions, summary.alike);
        summary.different.iter().for_each(|r| text += &format!("line {}: {}\n", r.line, differs(r)));
        text
    });
    Ok(if summary.different.is_empty() { status } else { 1 })
}

fn differs(replayed: &Replayed) -> String {
    match (&replayed.logged, &replayed.again) {
        (Entry::Decision(was), Entry::Decision(is)) => format!("was {:?}, is {:?}", was.verdict, is.verdict),
        (Entry::Placement(was), Entry::Placement(is)) => format!("was {:?}, is {:?}", was.order, is.order),
        _ => "of another kind".into(),
    }
}

/// Stores the setting of a new node that takes no guests.
pub(crate) fn note_no_guests(identity: &Identity) -> Result<(), Error> {
    let settings = Settings { guests: false, ..Settings::default() };
    let local = |source| Error::Local { what: "note that this node hosts no guests", source };
    let bytes = serde_json::to_vec_pretty(&settings).map_err(|e| local(e.into()))?;
    Ok(identity.write_note(NOTE, &bytes)?)
}

/// Formats settings as they are set.
pub(crate) fn shown(rows: &[SettingRow]) -> String {
    let cells = rows.iter().map(|r| vec![format!("{}={}", r.name, r.value), r.allowed.clone(), r.text.clone()]);
    crate::show::table(&["SETTING", "ALLOWED", "MEANING"], &cells.collect::<Vec<_>>())
}
