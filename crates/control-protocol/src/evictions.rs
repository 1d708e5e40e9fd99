//! Entries of a node's log of evictions: guests that it sent away, and hosts that this home lost.

use serde::{Deserialize, Serialize};

use crate::guests::LeaveReason;

/// One entry of the log, a JSON object on a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Eviction {
    /// This node sent guests away.
    Sent {
        /// When that began, milliseconds since 1970.
        at_ms: u64,
        /// Why they had to leave.
        reason: LeaveReason,
        /// After how long all of them stood still, microseconds; none if they went one by one.
        frozen_us: Option<u64>,
        /// The guests that had to leave.
        guests: Vec<SentGuest>,
    },
    /// The owner of a node sent a process of this home away.
    Lost {
        /// When this home was asked, milliseconds since 1970.
        at_ms: u64,
        /// The node that hosted it.
        node: String,
        /// Why it had to leave.
        reason: LeaveReason,
        /// PID at home.
        pid: i32,
        /// The node to which it went.
        to: String,
        /// Why it stays, if it does.
        stays: Option<String>,
    },
}

/// A guest that was sent away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentGuest {
    /// The name of its home.
    pub home: String,
    /// PID at home.
    pub pid: i32,
    /// The command line of the process.
    pub command: String,
    /// The node to which it went, if its home said so.
    pub to: Option<String>,
    /// After how long it had gone, milliseconds; none if it has not.
    pub gone_ms: Option<u64>,
    /// Why it stays, if it does.
    pub stays: Option<String>,
}

impl Eviction {
    /// Gives when it was, milliseconds since 1970.
    pub fn at_ms(&self) -> u64 {
        match self {
            Eviction::Sent { at_ms, .. } | Eviction::Lost { at_ms, .. } => *at_ms,
        }
    }

    /// Says it for people, a line for each process.
    pub fn words(&self) -> Vec<String> {
        match self {
            Eviction::Sent { reason, frozen_us, guests, .. } => {
                let still =
                    frozen_us.map_or(String::new(), |us| format!("; all stood still after {:.1} ms", us as f64 / 1e3));
                guests.iter().map(|guest| format!("{} ({}{still})", guest.words(), reason.words())).collect()
            }
            Eviction::Lost { node, reason, pid, to, stays, .. } => {
                let went = match stays {
                    None => format!("process {pid} went from {node} to {to}"),
                    Some(why) => format!("process {pid} stays on {node}: {why}"),
                };
                vec![format!("{went} ({})", reason.words())]
            }
        }
    }
}

impl SentGuest {
    fn words(&self) -> String {
        let SentGuest { home, pid, command, to, gone_ms, stays } = self;
        let name = format!("guest {pid} of {home} ({command})");
        match (gone_ms, stays) {
            (Some(ms), _) => format!("{name} went to {} within {ms} ms", to.as_ref().unwrap_or(home)),
            (None, Some(why)) => format!("{name} stays: {why}"),
            (None, None) => format!("{name} is still on its way"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evictions_name_each_process() {
        let guest = |pid, gone_ms, stays: Option<&str>| SentGuest {
            home: "n1".into(),
            pid,
            command: "cc1".into(),
            to: None,
            gone_ms,
            stays: stays.map(Into::into),
        };
        let guests = vec![guest(7, Some(12), None), guest(8, None, Some("it is busy"))];
        let sent = Eviction::Sent { at_ms: 5, reason: LeaveReason::InUse, frozen_us: Some(1500), guests };
        let said = [
            "guest 7 of n1 (cc1) went to n1 within 12 ms (somebody is at the machine; all stood still after 1.5 ms)",
            "guest 8 of n1 (cc1) stays: it is busy (somebody is at the machine; all stood still after 1.5 ms)",
        ];
        assert_eq!(sent.words(), said);
        let (node, to) = ("n2".to_owned(), "n3".to_owned());
        let lost = Eviction::Lost { at_ms: 5, node, reason: LeaveReason::Closed, pid: 7, to, stays: None };
        assert_eq!(lost.words(), ["process 7 went from n2 to n3 (its owner takes no guests)"]);
    }
}
