//! Memories that bodies which come together share: the first body that has one brings its content,
//! and the others map it.

use checkpoint::{BodyError, Window};
use os::ptrace::HostTid;
use room_protocol::message::MemoryId;
use std::collections::HashMap;
use std::os::fd::OwnedFd;

/// Bodies that come together, by the tries of home in which they come.
#[derive(Debug, Default)]
pub struct ArrivingGroups {
    members: HashMap<i32, Member>,
    /// Memories that are here already, by the try.
    known: HashMap<u32, HashMap<MemoryId, OwnedFd>>,
}

/// A body of a group.
#[derive(Debug)]
struct Member {
    group: u32,
    /// Its memories, in the order of the image.
    memories: Vec<MemoryId>,
}

impl ArrivingGroups {
    /// Notes that a body comes in this try of home, and has these memories.
    pub fn expect(&mut self, pid: i32, group: u32, memories: Vec<MemoryId>) {
        self.forget(pid);
        self.members.insert(pid, Member { group, memories });
    }

    /// Finds those of a body's memories that are here already, by index; empty if it comes alone.
    pub fn known(&self, pid: i32) -> Vec<Option<&OwnedFd>> {
        let Some(Member { group, memories }) = self.members.get(&pid) else { return Vec::new() };
        let known = self.known.get(group);
        memories.iter().map(|memory| known.and_then(|known| known.get(memory))).collect()
    }

    /// Notes the memories that body `pid`, which is process `host` here, has brought.
    pub fn learn(&mut self, pid: i32, host: HostTid, windows: &[Window]) -> Result<(), BodyError> {
        let Some(Member { group, memories }) = self.members.get(&pid) else { return Ok(()) };
        let known = self.known.entry(*group).or_default();
        for (memory, window) in memories.iter().zip(windows) {
            if !known.contains_key(memory)
                && let Some(file) = window.file(host.0)?
            {
                known.insert(*memory, file);
            }
        }
        Ok(())
    }

    /// Forgets a body that runs, or does not come; with the last one of its try go the memories.
    pub fn forget(&mut self, pid: i32) {
        let Some(Member { group, .. }) = self.members.remove(&pid) else { return };
        if !self.members.values().any(|member| member.group == group) {
            self.known.remove(&group);
        }
    }
}
