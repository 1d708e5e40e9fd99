//! Asks the room which calls a process has made there, and waits for the answer.

use crate::room::call_counts::PATIENCE;
use crate::room::state::Room;
use control_protocol::calls::{CallPlace, CallRow, CallsReport};
use room_protocol::ToRoom;
use room_protocol::message::{self, CallCount, CallsOf};

impl Room {
    /// Gives the calls that a process, or its family, has made in the room; `None` if the process
    /// is not there.
    ///
    /// # Errors
    /// The room does not answer.
    pub fn calls_of(&self, pid: i32, family: bool) -> Result<Option<CallsReport>, String> {
        if !self.table().deputies.contains_key(&pid) {
            return Ok(None);
        }
        let whose = if family { CallsOf::Family } else { CallsOf::Process };
        let rows = self.call_inquiries.inquire(pid, || self.tell(&ToRoom::CountCalls { pid, whose }));
        let rows = rows.ok_or_else(|| format!("{} has not answered within {PATIENCE:?}", self.args.host))?;
        let rows = rows.into_iter().map(row).collect();
        Ok(Some(CallsReport { pid, node: self.args.host.clone(), rows }))
    }
}

fn row(count: CallCount) -> CallRow {
    let CallCount { nr, place, calls, total_ns, longest_ns } = count;
    let place = match place {
        message::CallPlace::Node => CallPlace::Node,
        message::CallPlace::Room => CallPlace::Room,
        message::CallPlace::Home => CallPlace::Home,
    };
    let call = systable::name(nr).map_or_else(|| format!("call {nr}"), str::to_owned);
    CallRow { call, place, calls, total_ns, longest_ns }
}
