//! The options of a lab.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// The most nodes that a lab may have.
pub const MAX_NODES: u32 = 1000;
/// The most virtual machines that a lab may have.
const MAX_MACHINES: u32 = 8;
/// The fastest pace of a policy.
const PACE_MAX: u32 = 100;

/// All options of `up`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// Name of the lab; several labs may be up at once.
    pub name: LabName,
    /// Number of nodes, including n1 (the home).
    pub nodes: u32,
    /// CPU limit of each node in cores (0.5 = half a core).
    pub cpus: Option<f64>,
    /// CPU limits of single nodes, which take precedence.
    pub cpus_of: Vec<Share>,
    /// Factor by which the policies of the daemons run faster.
    pub pace: u32,
    /// Memory limit of each node, bytes.
    pub memory_bytes: Option<u64>,
    /// Bandwidth of each node's link in either direction, bits per second.
    pub rate_bits: Option<u64>,
    /// If set, even nodes are on a bridge of their own. This is the bandwidth of the link to the
    /// bridge of the odd nodes, in either direction, bits per second.
    pub trunk_bits: Option<u64>,
    /// One-way delay between any two nodes, microseconds.
    pub delay_us: Option<u64>,
    /// Nodes that carry made-up user and library files.
    pub foreign: Vec<String>,
    /// Whether all nodes show this machine's programs, as n1 does.
    #[serde(default)]
    pub whole: bool,
    /// Whether each node gets a share of real time, as machines have, where version 1 of control
    /// groups gives none.
    #[serde(default)]
    pub real_time: bool,
    /// Whether to found a cluster and start a daemon on every node.
    pub daemons: bool,
    /// Number of additional nodes, after the others, that are virtual machines.
    pub machines: u32,
    /// CPU model of the virtual machines, as QEMU names it.
    pub machine_cpu: String,
    /// Nodes that every node trusts with root's processes, in the syntax of `tern policy set
    /// root-on=`.
    pub root_on: String,
}

impl Options {
    /// Creates the options of a plain lab: no limits, daemons running.
    pub fn new(name: LabName, nodes: u32) -> Self {
        Self {
            name,
            nodes,
            cpus: None,
            cpus_of: Vec::new(),
            pace: 1,
            memory_bytes: None,
            rate_bits: None,
            trunk_bits: None,
            delay_us: None,
            foreign: Vec::new(),
            whole: false,
            real_time: false,
            daemons: true,
            machines: 0,
            machine_cpu: crate::machine::CPU.into(),
            // All nodes are one machine with one root.
            root_on: "all".into(),
        }
    }

    /// Gives the CPU limit of the node of this number.
    pub fn cpus_of(&self, index: u32) -> Option<f64> {
        let own = self.cpus_of.iter().rev().find(|share| (share.first..=share.last).contains(&index));
        own.map(|share| share.cpus).or(self.cpus)
    }

    /// Gives the number of all nodes, machines included.
    pub fn all_nodes(&self) -> u32 {
        self.nodes + self.machines
    }

    /// Tells whether the node of this number shows this machine's tree.
    pub fn shows_machine(&self, index: u32) -> bool {
        index == 1 || (self.whole && !self.is_machine(index))
    }

    /// Tells whether the node of this number is a virtual machine.
    pub fn is_machine(&self, index: u32) -> bool {
        index > self.nodes
    }

    /// Checks that the lab can be built.
    ///
    /// # Errors
    /// The first option that is not possible.
    pub fn check(&self) -> Result<(), Error> {
        let bad = |what, value: String, reason: &str| Err(Error::Invalid { what, value, reason: reason.into() });
        if !(1..=MAX_NODES).contains(&self.nodes) {
            return bad("--nodes", self.nodes.to_string(), "between 1 and 1000 nodes can be made");
        }
        if self.machines > MAX_MACHINES {
            return bad("--vm", self.machines.to_string(), "at most 8 virtual machines can be made");
        }
        if self.machines > 0 && self.delay_us.is_some() {
            return bad(
                "--vm",
                self.machines.to_string(),
                "links of virtual machines have no delay: leave out --delay",
            );
        }
        if self.machines > 0 && self.pace > 1 {
            return bad(
                "--vm",
                self.machines.to_string(),
                "daemons of virtual machines have no pace: leave out --pace",
            );
        }
        if self.machines > 0 && self.memory_bytes.is_some_and(|b| b < 512 << 20) {
            return bad("--mem", format!("{:?}", self.memory_bytes), "a virtual machine needs at least 512M");
        }
        if !(1..=PACE_MAX).contains(&self.pace) {
            return bad("--pace", self.pace.to_string(), "a pace is from 1 to 100");
        }
        let shares = self.cpus.iter().chain(self.cpus_of.iter().map(|share| &share.cpus));
        if let Some(cpus) = shares.copied().find(|c| !(0.01..=1024.0).contains(c)) {
            return bad("--cpus", cpus.to_string(), "a share is between 0.01 and 1024 cores");
        }
        if let Some(bytes) = self.memory_bytes.filter(|b| *b < 8 << 20) {
            return bad("--mem", bytes.to_string(), "a node needs at least 8M");
        }
        if let Some(rate) = self.rate_bits.filter(|r| *r < 8_000) {
            return bad("--rate", rate.to_string(), "a link needs at least 8k bits per second");
        }
        if let Some(rate) = self.trunk_bits.filter(|r| *r < 8_000) {
            return bad("--trunk", rate.to_string(), "a link needs at least 8k bits per second");
        }
        if self.trunk_bits.is_some() && self.machines > 0 {
            return bad("--trunk", self.machines.to_string(), "virtual machines are on one bridge: leave out --vm");
        }
        if self.whole && !self.foreign.is_empty() {
            return bad("--foreign", self.foreign.join(","), "all nodes show this machine: leave out --whole");
        }
        let foreign = self.foreign.iter().find(|n| node_index(n).is_none_or(|i| i < 2 || i > self.nodes));
        match foreign {
            Some(node) => {
                bad("--foreign", node.clone(), "must be a node of this lab, and not n1, which is this machine")
            }
            None => Ok(()),
        }
    }
}

/// Gives the number in a node's name: 7 for `n7`.
pub fn node_index(node: &str) -> Option<u32> {
    let digits = node.strip_prefix('n')?;
    (digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0')).then(|| digits.parse().ok())?
}

/// The CPU limit of some nodes: `n3=0.05`, `n10-n17=0.05`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// Number of the first node.
    pub first: u32,
    /// Number of the last node.
    pub last: u32,
    /// Cores of each node.
    pub cpus: f64,
}

impl FromStr for Share {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let parsed = text.split_once('=').and_then(|(nodes, cpus)| {
            let (first, last) = nodes.split_once('-').unwrap_or((nodes, nodes));
            Some(Share { first: node_index(first)?, last: node_index(last)?, cpus: cpus.parse().ok()? })
        });
        parsed.ok_or_else(|| Error::Invalid {
            what: "--cpus-of",
            value: text.into(),
            reason: "a share is written n3=0.05 or n10-n17=0.05".into(),
        })
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}-n{}={}", self.first, self.last, self.cpus)
    }
}

/// Name of a lab: 1 to 32 characters of `a-z`, `0-9` and `-`. It becomes part of file and cgroup
/// names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LabName(String);

impl LabName {
    /// Gives the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for LabName {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let fits = (1..=32).contains(&name.len())
            && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            && !name.starts_with('-');
        match fits {
            true => Ok(Self(name.into())),
            false => Err(Error::Invalid {
                what: "lab name",
                value: name.into(),
                reason: "1 to 32 characters of a-z, 0-9 and -, not beginning with -".into(),
            }),
        }
    }
}

impl TryFrom<String> for LabName {
    type Error = Error;

    fn try_from(name: String) -> Result<Self, Error> {
        name.parse()
    }
}

impl From<LabName> for String {
    fn from(name: LabName) -> String {
        name.0
    }
}

impl fmt::Display for LabName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Parses a number with a suffix: `base` is 1024 for sizes (`512M`) and 1000 for rates (`100M`).
fn scaled(text: &str, base: u64) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let power = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        other => return Err(format!("unknown suffix {other:?}; k, m and g are known")),
    };
    let number: u64 = digits.parse().map_err(|_| format!("{text:?} is not a number with an optional k, m or g"))?;
    number.checked_mul(base.pow(power)).ok_or_else(|| format!("{text} is too large"))
}

/// Parses a size such as `512M`. Gives bytes.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    scaled(text, 1024)
}

/// Parses a rate such as `100M`. Gives bits per second.
pub fn parse_bits(text: &str) -> Result<u64, String> {
    scaled(text, 1000)
}

/// Parses milliseconds such as `0.5`. Gives microseconds.
pub fn parse_delay(text: &str) -> Result<u64, String> {
    match text.parse::<f64>() {
        Ok(ms) if (0.0..=60_000.0).contains(&ms) => Ok((ms * 1000.0).round() as u64),
        _ => Err(format!("{text:?} is not a number of milliseconds between 0 and 60000")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_suffixes() {
        assert_eq!(parse_bytes("512M"), Ok(512 << 20));
        assert_eq!(parse_bits("100M"), Ok(100_000_000));
        assert_eq!(parse_bits("9"), Ok(9));
        assert_eq!(parse_delay("0.5"), Ok(500));
        for bad in ["", "M", "1T", "-1", "99999999999g"] {
            assert!(parse_bytes(bad).is_err(), "{bad}");
        }
        assert!(parse_delay("-1").is_err());
    }

    #[test]
    fn names() {
        assert!("a-1".parse::<LabName>().is_ok());
        for bad in ["", "-a", "A", "a/b", "..", &"x".repeat(33)] {
            assert!(bad.parse::<LabName>().is_err(), "{bad}");
        }
        assert_eq!(node_index("n12"), Some(12));
        for bad in ["n", "n0", "n01", "12", "n+1", "n99999999999"] {
            assert_eq!(node_index(bad), None, "{bad}");
        }
    }

    #[test]
    fn impossible_labs_are_refused() {
        let name: LabName = "x".parse().unwrap();
        assert!(Options::new(name.clone(), 3).check().is_ok());
        assert!(Options::new(name.clone(), 0).check().is_err());
        assert!(Options { foreign: vec!["n1".into()], ..Options::new(name.clone(), 3) }.check().is_err());
        assert!(Options { foreign: vec!["n4".into()], ..Options::new(name.clone(), 3) }.check().is_err());
        assert!(Options { machines: 1, ..Options::new(name.clone(), 1) }.check().is_ok());
        assert!(Options { machines: 9, ..Options::new(name.clone(), 1) }.check().is_err());
        assert!(Options { machines: 1, delay_us: Some(1), ..Options::new(name.clone(), 1) }.check().is_err());
        assert!(Options { pace: 0, ..Options::new(name.clone(), 1) }.check().is_err());
        let shares =
            Options { cpus: Some(0.1), cpus_of: vec!["n2-n3=0.03".parse().unwrap()], ..Options::new(name.clone(), 4) };
        assert_eq!([1, 2, 3, 4].map(|n| shares.cpus_of(n)), [0.1, 0.03, 0.03, 0.1].map(Some));
        assert!(["n2", "n2=x", "2=0.1", "n0=0.1"].iter().all(|bad| bad.parse::<Share>().is_err()));
        assert!(Options { cpus: Some(f64::NAN), ..Options::new(name, 3) }.check().is_err());
    }
}
