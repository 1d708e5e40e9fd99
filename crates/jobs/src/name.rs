//! Names of jobs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Bytes of the longest name.
const NAME_BYTES_MAX: usize = 64;

/// The name of a job: letters, digits, `.`, `_` and `-`, with a letter first, so that no name is
/// taken for a number or an option.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct JobName(String);

/// A text that is no name of a job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no name of a job: take up to {NAME_BYTES_MAX} letters, digits, `.`, `_` and `-`, with a letter first"
)]
pub struct InvalidJobName(String);

impl JobName {
    /// Makes a name from that of a program, as the kernel or a path gives it.
    pub fn of_program(program: &str) -> JobName {
        let last = program.rsplit('/').next().unwrap_or_default();
        let kept: String = last.chars().filter(|c| is_inner(*c)).take(NAME_BYTES_MAX - 1).collect();
        let begins = kept.starts_with(|c: char| c.is_ascii_alphabetic());
        JobName(if begins { kept } else { format!("j{kept}") })
    }

    /// Gives the text of the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Gives the name with a number behind it.
    pub(crate) fn numbered(&self, number: u64) -> JobName {
        let end = format!("-{number}");
        let kept: String = self.0.chars().take(NAME_BYTES_MAX - end.len()).collect();
        JobName(kept + &end)
    }
}

fn is_inner(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

impl FromStr for JobName {
    type Err = InvalidJobName;

    fn from_str(text: &str) -> Result<JobName, InvalidJobName> {
        let is_sound = text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.len() <= NAME_BYTES_MAX
            && text.chars().all(is_inner);
        if is_sound { Ok(JobName(text.to_owned())) } else { Err(InvalidJobName(text.to_owned())) }
    }
}

impl TryFrom<String> for JobName {
    type Error = InvalidJobName;

    fn try_from(text: String) -> Result<JobName, InvalidJobName> {
        text.parse()
    }
}

impl From<JobName> for String {
    fn from(name: JobName) -> String {
        name.0
    }
}

impl fmt::Display for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_neither_a_number_nor_an_option() {
        for text in ["ring", "Ring-2.a_b", &"x".repeat(NAME_BYTES_MAX)] {
            assert_eq!(text.parse::<JobName>().unwrap().as_str(), text);
        }
        for text in ["", "7", "-a", "a b", "a/b", "ä", &"x".repeat(NAME_BYTES_MAX + 1)] {
            assert!(text.parse::<JobName>().is_err(), "{text}");
        }
    }

    #[test]
    fn each_program_gives_a_name() {
        for (program, name) in [("/usr/bin/mpiexec.mpich", "mpiexec.mpich"), ("./7z", "j7z"), ("/", "j"), ("ä", "j")] {
            assert_eq!(JobName::of_program(program).as_str(), name);
            assert!(name.parse::<JobName>().is_ok());
        }
        let long = JobName::of_program(&"x".repeat(100)).numbered(u64::MAX);
        assert!(long.as_str().parse::<JobName>().is_ok());
    }
}
