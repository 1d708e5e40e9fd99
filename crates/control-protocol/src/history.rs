//! What has happened to one process: where it was placed and moved, by whom, and why it came home.
//!
//! The daemon and the stewards append to it; `tern why` reads it.

use serde::{Deserialize, Serialize};

/// Largest event, bytes.
pub const EVENT_BYTES: usize = 8 << 10;

/// One event of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When, milliseconds since 1970.
    pub at_ms: u64,
    /// What happened to the process.
    #[serde(rename = "event")]
    pub what: Happening,
}

/// What happened to a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Happening {
    /// `tern run` placed it on this node.
    Placed {
        /// The name of the node.
        node: String,
        /// Who wanted it.
        by: By,
        /// `at_ms` of the policy's choice of the node in `tern log --decisions`; none if the user
        /// named the node.
        decision_ms: Option<u64>,
    },
    /// It was moved.
    Moved {
        /// The node that it left.
        from: String,
        /// The node that it runs on.
        to: String,
        /// Who wanted it.
        by: By,
        /// How its memory went.
        how: String,
        /// For how long it stood still, microseconds.
        freeze_us: u64,
    },
    /// A move failed: it runs where it was.
    NotMoved {
        /// The node that it was to run on.
        to: String,
        /// Who wanted it.
        by: By,
        /// Why it was not moved.
        why: String,
    },
    /// It came home by itself, for what home alone can do.
    CameHome {
        /// The node that it left.
        from: String,
        /// Why, in words.
        why: String,
        /// What would keep it away, if that is known.
        help: Option<String>,
        /// For how long it stood still, microseconds.
        freeze_us: u64,
    },
    /// Its host was lost, and it ended as if killed; or a process that it had started did.
    Lost {
        /// The name of the host.
        node: String,
    },
}

/// Who wanted something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// The user with this id.
    User(u32),
    /// The policy of the process' home.
    Policy {
        /// The reason of the decision.
        cause: String,
        /// `at_ms` of the decision in `tern log --decisions`.
        decision_ms: u64,
    },
    /// The owner of this node, who sends its guests away, or leaves the cluster.
    Owner {
        /// The name of the node.
        node: String,
    },
}

impl Event {
    /// For people: what happened, without the time.
    pub fn words(&self) -> String {
        let still = |us: &u64| format!("it stood still for {:.1} ms", *us as f64 / 1e3);
        match &self.what {
            Happening::Placed { node, by, decision_ms: None } => {
                format!("placed on {node} by {} (tern run --on)", by.words())
            }
            Happening::Placed { node, by, decision_ms: Some(ms) } => {
                let by = by.words();
                format!(
                    "placed on {node} by {by} (tern run; the policy chose the node: at_ms {ms} in `tern log --decisions`)"
                )
            }
            Happening::Moved { from, to, by, how, freeze_us } => {
                format!("moved from {from} to {to} by {} ({how}); {}", by.words(), still(freeze_us))
            }
            Happening::NotMoved { to, by, why } => format!("not moved to {to}, as {} wanted: {why}", by.words()),
            Happening::CameHome { from, why, help, freeze_us } => {
                let help = help.as_ref().map_or(String::new(), |help| format!("; {help}"));
                format!("came home from {from} by itself, for {why}; {}{help}", still(freeze_us))
            }
            Happening::Lost { node } => format!("it, or a process below it, ended with its host {node}, which is lost"),
        }
    }
}

impl By {
    /// Says it for people.
    pub fn words(&self) -> String {
        match self {
            By::User(0) => "root".into(),
            By::Owner { node } => format!("the owner of {node}"),
            By::User(uid) => format!("user {uid}"),
            By::Policy { cause, decision_ms } => {
                format!("the policy ({cause}; at_ms {decision_ms} in `tern log --decisions`)")
            }
        }
    }
}

/// Formats how long ago something was, for people.
pub fn ago(ms: u64) -> String {
    match ms / 1000 {
        s @ 0..120 => format!("{s} s ago"),
        s @ 120..7200 => format!("{} min ago", s / 60),
        s @ 7200..172_800 => format!("{} h ago", s / 3600),
        s => format!("{} days ago", s / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_say_who_and_why() {
        let say = |what| Event { at_ms: 0, what }.words();
        let by = By::Policy { cause: "Balance".into(), decision_ms: 77 };
        let moved = Happening::Moved { from: "n1".into(), to: "n2".into(), by, how: "pre".into(), freeze_us: 3140 };
        let said = "moved from n1 to n2 by the policy (Balance; at_ms 77 in `tern log --decisions`) (pre); it stood still for 3.1 ms";
        assert_eq!(say(moved), said);
        let placed = Happening::Placed { node: "n2".into(), by: By::User(0), decision_ms: None };
        assert_eq!(say(placed), "placed on n2 by root (tern run --on)");
        assert_eq!([ago(1500), ago(600_000), ago(90_000_000)], ["1 s ago", "10 min ago", "25 h ago"]);
    }
}
