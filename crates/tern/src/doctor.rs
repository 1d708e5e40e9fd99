//! `tern doctor`: what this machine's kernel offers, in the tool's words.

use control_protocol::facts::{Finding, Grade};
use os::leases::KernelLease;
use os::probe::{Need, Outcome, probe};
use std::time::Duration;

/// A lease that somebody waits for is given up by then (`homefs::server::GIVE_UP_AFTER`).
const GIVEN_UP_WITHIN: Duration = Duration::from_millis(1500);

/// Checks the leases by which rooms may keep what they have read of this machine's files.
fn leases() -> Finding {
    let held = stewards_leases();
    let is_breaking = |lease: &&KernelLease| lease.breaking;
    let breaking: Vec<&KernelLease> = held.iter().filter(is_breaking).collect();
    if breaking.is_empty() {
        return Finding::new("file leases", Grade::Good, format!("{} held, none breaking", held.len()));
    }
    std::thread::sleep(GIVEN_UP_WITHIN);
    let later = stewards_leases();
    match breaking.iter().find(|lease| later.contains(**lease)) {
        None => Finding::new(
            "file leases",
            Grade::Good,
            format!("{} held, {} given up just now", held.len(), breaking.len()),
        ),
        Some(lease) => Finding::new(
            "file leases",
            Grade::Bad,
            format!(
                "{} held; file {} has been breaking for over {} ms: steward {} does not give it up (is it stopped?), and writers of the file wait",
                held.len(),
                lease.file,
                GIVEN_UP_WITHIN.as_millis(),
                lease.pid
            ),
        ),
    }
}

/// Those that tern's own processes hold.
fn stewards_leases() -> Vec<KernelLease> {
    let is_steward = |lease: &KernelLease| {
        let arguments = std::fs::read(format!("/proc/{}/cmdline", lease.pid)).unwrap_or_default();
        arguments.split(|byte| *byte == 0).nth(1) == Some(b"__steward")
    };
    os::leases::all().unwrap_or_default().into_iter().filter(is_steward).collect()
}

/// Tells by which devices `accept=idle` sees that somebody is at this machine.
fn input() -> Finding {
    let found = os::input::Input::open().found();
    let grade = if found.iter().any(|kind| kind.state.is_ok()) { Grade::Good } else { Grade::Costs };
    let words: Vec<String> =
        found.iter().map(|kind| format!("{}: {}", kind.name, kind.state.as_ref().unwrap_or_else(|why| why))).collect();
    Finding::new("input (accept=idle)", grade, words.join("; "))
}

/// Tells what this machine offers, and what its stewards hold leases of.
pub fn findings() -> Vec<Finding> {
    let features = probe();
    let mut findings: Vec<Finding> = features
        .findings()
        .map(|f| {
            let grade = match (f.outcome, f.need) {
                (Outcome::Missing(_), _) if f.is_forbidden() => Grade::Costs,
                (Outcome::Found(_), _) => Grade::Good,
                (Outcome::Missing(_), Need::Cost) => Grade::Costs,
                (Outcome::Missing(_), Need::Required | Need::Hosting) => Grade::Bad,
            };
            Finding::new(f.name, grade, f.text)
        })
        .collect();
    findings.push(leases());
    findings.push(input());
    findings.push(match features.cannot_host() {
        None => Finding::new("verdict", Grade::Good, "this machine can be a home and host guests"),
        Some(f) if f.is_forbidden() => Finding::new(
            "verdict",
            Grade::Costs,
            format!("not known: this user may not try {}; root may, and ternd is root (`tern doctor` as root)", f.name),
        ),
        Some(f) => {
            Finding::new("verdict", Grade::Bad, format!("this machine cannot host guests: {}: {}", f.name, f.text))
        }
    });
    findings
}
