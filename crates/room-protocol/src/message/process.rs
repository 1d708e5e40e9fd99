//! Which process a message is about.

use super::{ToHome, ToRoom};

impl ToHome {
    /// Gives the process that the message is about, where it names one.
    pub fn process(&self) -> Option<i32> {
        use ToHome::*;
        match self {
            Placed { pid, .. }
            | Call { pid, .. }
            | Birth { pid, .. }
            | Unborn { pid, .. }
            | Stops { pid, .. }
            | Ignores { pid, .. }
            | ThreadGone { pid, .. }
            | Exited { pid, .. }
            | Exec { pid, .. }
            | Watch { pid, .. }
            | Adopt { pid, .. }
            | Inspect { pid, .. }
            | WriteProc { pid, .. }
            | LocksOf { pid, .. }
            | Surroundings { pid, .. }
            | Refused { pid, .. }
            | Taken { pid, .. }
            | PeerPages { pid, .. }
            | LaidOut { pid, .. }
            | Rebuilt { pid, .. }
            | Runs { pid, .. }
            | Left { pid }
            | GoesHome { pid, .. }
            | Leaving { pid, .. }
            | Standing { pid, .. }
            | Whole { pid, .. }
            | Onward { pid, .. }
            | Share { pid, .. }
            | Shares { pid, .. }
            | Locked { pid, .. }
            | Fetch { pid, .. }
            | Filled { pid }
            | Enough { pid, .. }
            | Passes { pid, .. }
            | Calls { pid, .. }
            | Drained { pid, .. } => Some(*pid),
            Hello { .. }
            | Clock
            | RoomReady
            | RoomFailed { .. }
            | Cancel { .. }
            | LookAt { .. }
            | NameOf { .. }
            | MayStream { .. }
            | Way { .. }
            | Fence { .. }
            | Yielded { .. }
            | Close { .. }
            | Suspended
            | Awake
            | Usage { .. } => None,
        }
    }
}

impl ToRoom {
    /// Gives the process that the message is about, where it names one.
    pub fn process(&self) -> Option<i32> {
        use ToRoom::*;
        match self {
            Place(place) => Some(place.pid),
            Expect { pid }
            | Signal { pid, .. }
            | Kill { pid }
            | Stop { pid }
            | GoOn { pid }
            | Rebuild { pid, .. }
            | Taken { pid, .. }
            | LayOut { pid, .. }
            | Memories { pid, .. }
            | Flags { pid, .. }
            | PeerPages { pid, .. }
            | Resume { pid }
            | Stays { pid, .. }
            | Recall { pid, .. }
            | Onward { pid, .. }
            | Shared { pid, .. }
            | Fetch { pid, .. }
            | Push { pid }
            | Filled { pid }
            | Broken { pid, .. }
            | CountCalls { pid, .. }
            | Release { pid } => Some(*pid),
            Clock { .. }
            | Open(_)
            | Return { .. }
            | Rights { .. }
            | Readiness { .. }
            | Yield { .. }
            | Suspend { .. }
            | Wake
            | Report
            | Close
            | Fence { .. }
            | Way { .. } => None,
        }
    }
}
