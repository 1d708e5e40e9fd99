//! The report of a soak.

use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The counts and failures of a soak.
#[derive(Debug, Default)]
pub struct Report {
    /// Duration, in seconds.
    pub seconds: f64,
    /// Moves made, by destination.
    moves: BTreeMap<String, u64>,
    /// Refused moves, by reason.
    refused: BTreeMap<String, u64>,
    /// Programs that ended, by name.
    programs: BTreeMap<&'static str, u64>,
    /// Programs that were late, and not moved from then on, by name.
    late: BTreeMap<&'static str, u64>,
    /// Descriptions of the failures.
    pub failures: Vec<String>,
}

impl Report {
    /// Counts a move, or a refused one. A move to where the process already runs does not count.
    pub fn moved(&mut self, program: &str, place: &str, result: Result<(), String>) {
        match result {
            Err(why) if why.ends_with(&format!("it runs on {place} already")) || is_home_already(place, &why) => {}
            Ok(()) => *self.moves.entry(place.to_owned()).or_default() += 1,
            Err(why) => *self.refused.entry(format!("{program}: {}", without_numbers(&why))).or_default() += 1,
        }
    }

    /// Counts a program that has ended. `history` tells what was done to it; it is reported with a
    /// complaint, or if the program was late.
    pub fn program_ended(&mut self, name: &'static str, late: bool, complaint: Option<String>, history: &[String]) {
        *self.programs.entry(name).or_default() += 1;
        if late {
            *self.late.entry(name).or_default() += 1;
        }
        let told = complaint.as_deref().or(late.then_some("it was late"));
        if let Some(told) = told {
            eprintln!("tern soak: {name}: {told}\n    {}", history.join("\n    "));
        }
        if let Some(complaint) = complaint {
            self.failures.push(format!("{name}: {complaint}"));
        }
    }

    /// Summarises moves, programs and failures.
    pub fn counts(&self) -> String {
        let (moves, refused): (u64, u64) = (self.moves.values().sum(), self.refused.values().sum());
        let (programs, failures): (u64, usize) = (self.programs.values().sum(), self.failures.len());
        format!("{moves} moves, {refused} not made, {programs} programs, {failures} failures")
    }

    /// Tells whether anything failed.
    pub fn has_failures(&self) -> bool {
        !self.failures.is_empty()
    }

    /// Formats the report as text.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let _ = writeln!(out, "{} in {:.0} s", self.counts(), self.seconds);
        let places: Vec<String> = self.moves.iter().map(|(place, n)| format!("{place} {n}")).collect();
        let _ = writeln!(out, "to: {}", places.join(", "));
        let counts = |of: &BTreeMap<&str, u64>| of.iter().map(|(name, n)| format!("{name} {n}")).collect::<Vec<_>>();
        let _ = writeln!(out, "programs: {}", counts(&self.programs).join(", "));
        if !self.late.is_empty() {
            let _ = writeln!(out, "late, and left alone: {}", counts(&self.late).join(", "));
        }
        for (why, n) in &self.refused {
            let _ = writeln!(out, "{n} times not moved: {why}");
        }
        for failure in &self.failures {
            let _ = writeln!(out, "FAILED {failure}");
        }
        out
    }

    /// Formats the report as JSON.
    pub fn json(&self, seed: u64) -> String {
        let all = json!({
            "seed": seed, "seconds": self.seconds, "moves": self.moves, "refused": self.refused,
            "programs": self.programs, "late": self.late, "failures": self.failures,
        });
        format!("{all}\n")
    }
}

/// Tells whether a move was refused because the process is at home already. Messages name home by
/// its node.
fn is_home_already(place: &str, why: &str) -> bool {
    place == "home" && why.contains(": it runs on ") && why.ends_with(" already")
}

/// Removes numbers and addresses, so that reasons that differ only in them are counted together.
fn without_numbers(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(c) = rest.chars().next() {
        rest = match (rest.strip_prefix("0x"), c) {
            (Some(digits), _) => digits.trim_start_matches(|c: char| c.is_ascii_hexdigit()),
            (None, '0'..='9') => rest.trim_start_matches(|c: char| c.is_ascii_digit()),
            (None, c) => {
                out.push(c);
                &rest[c.len_utf8()..]
            }
        };
        if c.is_ascii_digit() {
            out.push('#');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_numbers() {
        let text = "process 12 has /tmp/x_0/77 mapped at 0x7f96ab-0x80: é";
        assert_eq!(without_numbers(text), "process # has /tmp/x_#/# mapped at #-#: é");
    }

    #[test]
    fn a_move_to_where_it_is_was_no_try() {
        let mut report = Report::default();
        for (place, node) in [("n2", "n2"), ("home", "n1")] {
            report.moved("sort", place, Err(format!("tern: process 7 was not moved: it runs on {node} already")));
        }
        report.moved("sort", "n2", Err("tern: process 7 was not moved: it is being moved already".into()));
        assert!(report.counts().starts_with("0 moves, 1 not made"), "{}", report.counts());
    }

    #[test]
    fn reasons_are_gathered() {
        let mut report = Report::default();
        for pid in [17, 234] {
            report.moved("sort", "n2", Err(format!("process {pid} was not moved: why")));
        }
        report.moved("sort", "n2", Ok(()));
        report.program_ended("sort", true, None, &[]);
        let text = report.text();
        assert!(text.starts_with("1 moves, 2 not made, 1 programs, 0 failures"), "{text}");
        assert!(text.contains("2 times not moved: sort: process # was not moved: why"), "{text}");
        assert!(text.contains("late, and left alone: sort 1"), "{text}");
        assert!(!report.has_failures());
    }
}
