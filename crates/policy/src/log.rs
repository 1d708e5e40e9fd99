//! The decision log: JSON lines, each with all inputs of a decision, so that the decision can be
//! replayed.

use serde::{Deserialize, Serialize};

use crate::{Inputs, NodeView, Params, ProcessView, Verdict, decide, place};

/// The longest line that [`replay`] reads, bytes.
pub const RECORD_BYTES: usize = 1 << 20;

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Entry {
    /// A decision whether to move a process, and which.
    Decision(Record),
    /// A decision where a new process begins.
    Placement(Placement),
}

/// The choice of a node for a new process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// Time of the decision, milliseconds on the clock of the deciding node.
    pub at_ms: u64,
    /// The policy's numbers.
    pub params: Params,
    /// The process, as far as it is known before it begins.
    pub process: ProcessView,
    /// Nodes that could take the process. Processes placed a moment ago are counted in their loads.
    pub candidates: Vec<NodeView>,
    /// Node ids, best first, each with its value (see [`place`]).
    pub order: Vec<(u64, i64)>,
}

impl Placement {
    /// Chooses nodes for a new process and records the inputs.
    pub fn new(at_ms: u64, params: Params, process: ProcessView, candidates: Vec<NodeView>) -> Placement {
        let order = place(&process, &candidates, &params);
        Placement { at_ms, params, process, candidates, order }
    }
}

/// One decision of the policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Time of the decision, milliseconds on the clock of the deciding node.
    pub at_ms: u64,
    /// The inputs of the decision.
    pub inputs: Inputs,
    /// The outcome of the decision.
    pub verdict: Verdict,
}

/// Why a line of the log cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The line is longer than any that is written.
    #[error("line {line}: {bytes} bytes, at most {RECORD_BYTES} are allowed")]
    TooLong {
        /// Line number, counted from 1.
        line: usize,
        /// Length of the line, bytes.
        bytes: usize,
    },
    /// The line is not JSON, or not of a decision.
    #[error("line {line} is no decision")]
    Malformed {
        /// Line number, counted from 1.
        line: usize,
        /// The error of the JSON reader.
        #[source]
        source: serde_json::Error,
    },
}

/// A decision of the log, and the same decision made again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Replayed {
    /// Line in the log, counted from 1.
    pub line: usize,
    /// The decision as it was logged.
    pub logged: Entry,
    /// The decision as it is made now.
    pub again: Entry,
}

impl Replayed {
    /// Tells whether both decisions are the same.
    pub fn same(&self) -> bool {
        self.again == self.logged
    }
}

impl Entry {
    /// Formats the entry as a line, without the line break.
    ///
    /// # Errors
    /// The JSON writer's; numbers and names cause none.
    pub fn line(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }
}

/// Makes the decisions of a log again. Empty lines are skipped.
///
/// # Errors
/// [`LogError`] for each line that is no decision.
pub fn replay(text: &str) -> impl Iterator<Item = Result<Replayed, LogError>> + '_ {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines.map(|(index, text)| {
        let line = index + 1;
        if text.len() > RECORD_BYTES {
            return Err(LogError::TooLong { line, bytes: text.len() });
        }
        let logged: Entry = serde_json::from_str(text).map_err(|source| LogError::Malformed { line, source })?;
        let again = match logged.clone() {
            Entry::Decision(record) => Entry::Decision(Record { verdict: decide(&record.inputs), ..record }),
            Entry::Placement(p) => Entry::Placement(Placement::new(p.at_ms, p.params, p.process, p.candidates)),
        };
        Ok(Replayed { line, logged, again })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mover, NodeView, ProcessView, Settings};

    #[test]
    fn logged_decisions_are_made_again() {
        let node = |id, load_milli| NodeView {
            id,
            load_milli,
            cores_milli: 1000,
            speed_milli: 1000,
            free_mib: 900,
            memory_mib: 1000,
            guests: true,
            ..NodeView::default()
        };
        let process = |id| ProcessView {
            id,
            age_ms: 60_000,
            resident_ms: 60_000,
            demand_milli: 1000,
            in_scope: true,
            ..ProcessView::default()
        };
        let mut mover = Mover::new(Settings::default());
        let record = mover.consider(5, node(1, 2000), vec![process(1), process(2)], [node(2, 0)].into_iter());
        let line = Entry::Decision(record).line().unwrap();
        let stays = line.replace("\"to\":2", "\"to\":3");
        assert_ne!(line, stays, "it moves");
        let text = format!("{line}\n\n{stays}\nnonsense\n");
        let again: Vec<_> = replay(&text).collect();
        assert!(again[0].as_ref().unwrap().same() && !again[1].as_ref().unwrap().same());
        assert_eq!(again[1].as_ref().unwrap().line, 3);
        assert_eq!(again[2].as_ref().unwrap_err().to_string(), "line 4 is no decision");
        let placed = Placement::new(5, Params::default(), process(3), vec![node(2, 1000), node(4, 0)]);
        assert_eq!(placed.order.first().map(|o| o.0), Some(4));
        let line = Entry::Placement(placed).line().unwrap();
        assert!(replay(&line).all(|r| r.unwrap().same()));
        assert!(replay(&line.replace("\"id\":4", "\"id\":5")).all(|r| !r.unwrap().same()));
        assert!(replay(&"x".repeat(RECORD_BYTES + 1)).next().unwrap().is_err());
    }
}
