//! `tern doctor`: what this machine's kernel offers, in the tool's words.

use ctl::facts::{Finding, Grade};
use os::probe::{Need, Outcome, probe};

pub fn findings() -> Vec<Finding> {
    let features = probe();
    let mut findings: Vec<Finding> = features
        .findings()
        .map(|f| {
            let grade = match (f.outcome, f.need) {
                (Outcome::Found(_), _) => Grade::Good,
                (Outcome::Missing(_), Need::Cost) => Grade::Costs,
                (Outcome::Missing(_), Need::Required | Need::Hosting) => Grade::Bad,
            };
            Finding::new(f.name, grade, f.text)
        })
        .collect();
    findings.push(match features.cannot_host() {
        None => Finding::new("verdict", Grade::Good, "this machine can be a home and host guests"),
        Some(f) => {
            Finding::new("verdict", Grade::Bad, format!("this machine cannot host guests: {} is missing", f.name))
        }
    });
    findings
}
