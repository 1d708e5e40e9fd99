//! What a test program says on its standard output: verdicts, names, and the summary.

/// Tests that have been run.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Count {
    pub passed: u64,
    pub failed: u64,
    pub left_out: u64,
}

impl Count {
    /// Counts these tests, too.
    pub fn add(&mut self, more: Count) {
        self.passed += more.passed;
        self.failed += more.failed;
        self.left_out += more.left_out;
    }
}

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:>4} passed, {} failed", self.passed, self.failed)?;
        if self.left_out > 0 { write!(f, ", {} left out", self.left_out) } else { Ok(()) }
    }
}

/// What a test program has said so far.
#[derive(Default)]
pub struct Said {
    /// Its own summary.
    count: Option<Count>,
    /// Names of the tests that are right.
    pub passed: Vec<String>,
    /// Names of the tests that failed.
    pub failed: Vec<String>,
    /// Names of the tests that run for long.
    pub slow: Vec<String>,
    /// How the program died, if a second one ran what it left.
    pub died: Option<String>,
    /// The lines that are to be shown when the program has ended.
    pub shown: String,
}

impl Said {
    /// Keeps a line to be shown.
    pub fn show(&mut self, line: &str) {
        self.shown.push_str(line);
        self.shown.push('\n');
    }

    /// Counts what a line says; keeps what is not good.
    pub fn hear(&mut self, line: &str) {
        match (verdict(line), name(line)) {
            (Some(passed), Some(name)) => {
                self.slow.retain(|slow| *slow != name);
                if passed { &mut self.passed } else { &mut self.failed }.push(name);
            }
            _ => self.slow.extend(slow(line)),
        }
        if let Some(found) = result(line) {
            self.count = Some(found);
        } else if !(line.is_empty()
            || verdict(line) == Some(true)
            || line.contains("... ignored")
            || line.starts_with("running"))
        {
            self.show(&format!("    {line}"));
        }
    }

    /// The summary, or what the verdicts come to.
    pub fn total(&self) -> Count {
        let single = Count { passed: self.passed.len() as u64, failed: self.failed.len() as u64, left_out: 0 };
        self.count.unwrap_or(single)
    }
}

/// Whether a line says that one test is right or wrong: programs with a runner of their own have no
/// summary.
fn verdict(line: &str) -> Option<bool> {
    let (_, after) = line.strip_prefix("test ")?.split_once(" ... ")?;
    match after.split(' ').next()? {
        "ok" => Some(true),
        "FAILED" => Some(false),
        _ => None,
    }
}

/// Of which test a line gives the verdict.
fn name(line: &str) -> Option<String> {
    let name = line.strip_prefix("test ")?.split_once(" ... ")?.0;
    Some(name.trim_end_matches(" - should panic").to_owned())
}

/// Which test a line says to run for long.
fn slow(line: &str) -> Option<String> {
    Some(line.strip_prefix("test ")?.split_once(" has been running for over ")?.0.to_owned())
}

/// Numbers in `test result: ok. 7 passed; 0 failed; 1 ignored; ...`.
fn result(line: &str) -> Option<Count> {
    let numbers = line.strip_prefix("test result: ")?;
    let number = |what: &str| {
        let before = numbers.split(&format!(" {what}")).next()?;
        before.rsplit(' ').next()?.parse().ok()
    };
    Some(Count { passed: number("passed")?, failed: number("failed")?, left_out: number("ignored")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_counted() {
        let count = result("test result: FAILED. 7 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out").unwrap();
        assert_eq!((count.passed, count.failed, count.left_out), (7, 2, 1));
        assert_eq!(name("test a::b ... FAILED").as_deref(), Some("a::b"));
        assert!(result("test x ... ok").is_none());
        assert!(result("test result: odd").is_none());
    }

    #[test]
    fn tests_that_hang_are_known() {
        let mut said = Said::default();
        for test in ["a", "b"] {
            said.hear(&format!("test {test} has been running for over 60 seconds"));
        }
        said.hear("test a ... ok");
        assert_eq!((said.slow, said.passed), (vec!["b".to_owned()], vec!["a".to_owned()]));
    }
}
