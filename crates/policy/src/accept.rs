//! When a node takes guests, as its owner has set it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The most windows in one setting.
const WINDOWS_MAX: usize = 8;
/// Minutes of a day.
const DAY_MIN: u16 = 24 * 60;

/// A window of the day, minutes since midnight of the machine's local time. It begins at `from`
/// and ends before `to`, on the next day if `to` is not later than `from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The first minute.
    from: u16,
    /// The minute after the last one.
    to: u16,
}

impl Window {
    fn includes(self, minute: u16) -> bool {
        if self.from < self.to {
            (self.from..self.to).contains(&minute)
        } else {
            minute >= self.from || minute < self.to
        }
    }
}

/// When a node takes guests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Accept {
    /// At any time.
    #[default]
    Always,
    /// While nobody uses the machine ([`Presence`](crate::Presence)).
    Idle,
    /// At no time.
    Never,
    /// In these windows of the day.
    Hours(Vec<Window>),
}

impl Accept {
    /// The possible values, for help and errors.
    pub const ALLOWED: &'static str = "always, idle, never, or hours as 19:00-7:00,12-13";

    /// Tells whether the owner allows guests at this minute of the day, whoever is at the machine.
    pub fn allows(&self, minute: u16) -> bool {
        match self {
            Accept::Always | Accept::Idle => true,
            Accept::Never => false,
            Accept::Hours(windows) => windows.iter().any(|window| window.includes(minute)),
        }
    }
}

/// The error for a text that is no value of the setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} is expected", Accept::ALLOWED)]
pub struct AcceptError;

impl FromStr for Accept {
    type Err = AcceptError;

    fn from_str(text: &str) -> Result<Accept, AcceptError> {
        match text {
            "always" => Ok(Accept::Always),
            "idle" => Ok(Accept::Idle),
            "never" => Ok(Accept::Never),
            hours => {
                let windows: Vec<Window> = hours.split(',').map(window).collect::<Option<_>>().ok_or(AcceptError)?;
                if windows.len() > WINDOWS_MAX { Err(AcceptError) } else { Ok(Accept::Hours(windows)) }
            }
        }
    }
}

fn window(text: &str) -> Option<Window> {
    let (from, to) = text.split_once('-')?;
    let (from, to) = (minute(from)?, minute(to)?);
    (from != to && from < DAY_MIN).then_some(Window { from, to })
}

/// Parses `7`, `07:30` or `24:00`. Gives minutes since midnight.
fn minute(text: &str) -> Option<u16> {
    let (hour, minute) = text.split_once(':').unwrap_or((text, "0"));
    let number = |digits: &str| {
        let plain = (1..=2).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
        plain.then(|| digits.parse::<u16>().ok()).flatten()
    };
    let (hour, minute) = (number(hour)?, number(minute)?);
    (minute < 60).then_some(hour * 60 + minute).filter(|all| *all <= DAY_MIN)
}

impl TryFrom<String> for Accept {
    type Error = AcceptError;

    fn try_from(text: String) -> Result<Accept, AcceptError> {
        text.parse()
    }
}

impl From<Accept> for String {
    fn from(accept: Accept) -> String {
        accept.to_string()
    }
}

impl fmt::Display for Accept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Accept::Always => f.write_str("always"),
            Accept::Idle => f.write_str("idle"),
            Accept::Never => f.write_str("never"),
            Accept::Hours(windows) => {
                let clock = |minute: u16| format!("{}:{:02}", minute / 60, minute % 60);
                let words: Vec<String> = windows.iter().map(|w| format!("{}-{}", clock(w.from), clock(w.to))).collect();
                f.write_str(&words.join(","))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_shown() {
        for (text, shown) in [
            ("always", "always"),
            ("idle", "idle"),
            ("never", "never"),
            ("19:30-7", "19:30-7:00"),
            ("12-13,20:00-24:00", "12:00-13:00,20:00-24:00"),
        ] {
            let accept: Accept = text.parse().unwrap();
            assert_eq!(accept.to_string(), shown);
            assert_eq!(shown.parse(), Ok(accept.clone()));
            assert_eq!(Accept::try_from(String::from(accept.clone())), Ok(accept));
        }
        let many = ["1-2"; WINDOWS_MAX + 1].join(",");
        for bad in
            ["", "on", "Idle", "7", "7-7", "24-7", "7-25", "7:60-8", "-7", "7-", "7:0:0-8", "+7-8", many.as_str()]
        {
            assert_eq!(bad.parse::<Accept>(), Err(AcceptError), "{bad}");
        }
    }

    #[test]
    fn windows_may_pass_midnight() {
        let night: Accept = "19:30-7".parse().unwrap();
        let at = |hour: u16, minute: u16| night.allows(hour * 60 + minute);
        assert!(at(19, 30) && at(23, 59) && at(0, 0) && at(6, 59));
        assert!(!at(7, 0) && !at(12, 0) && !at(19, 29));
        let noon: Accept = "12-13".parse().unwrap();
        assert!(noon.allows(12 * 60) && !noon.allows(13 * 60) && !noon.allows(0));
        assert!(Accept::Always.allows(0) && Accept::Idle.allows(0) && !Accept::Never.allows(0));
    }
}
