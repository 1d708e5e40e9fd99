//! Memory that a deputy keeps for its body, and for that body's children, until its pages have
//! followed.

use crate::deputy::channel;
use crate::deputy::job::{Job, Purpose};
use crate::room::state::Room;
use room_protocol::ToRoom;
use room_protocol::message::Call;

impl Room {
    /// The memory of a process that went out cannot be sent to the end. Whoever misses pages of it
    /// ends: its body, and children that it had meanwhile.
    pub fn break_off(&self, pid: i32, why: &str) {
        if !self.table().deputies.iter().any(|(number, d)| *number == pid || d.misses == Some(pid)) {
            // The process was killed, and nobody has a copy.
            return;
        }
        tracing::error!("the memory of process {pid} does not follow it to {}: {why}", self.args.host);
        self.tell(&ToRoom::Broken { pid, why: why.to_owned() });
        let words = format!("tern: the memory of process {pid} is lost ({why}): it ends as if killed\n");
        for (number, deputy) in &mut self.table().deputies {
            if *number == pid || deputy.misses == Some(pid) {
                deputy.end(channel::order(abi::OP_DIE, [libc::SIGKILL as u64, 0], &[]), Some(&words));
            }
        }
    }

    /// The deputy gives its old memory back; if its body has ended, it ends too.
    pub fn forget_memory(&self, pid: i32, all: &[(u64, u64)]) {
        let mut table = self.table();
        for deputy in table.deputies.values_mut().filter(|d| d.misses == Some(pid)) {
            deputy.misses = None;
        }
        let Some(deputy) = table.deputies.get_mut(&pid) else { return };
        deputy.lends = false;
        if let Some(last) = deputy.ends_with.take() {
            return deputy.end(last, None);
        }
        for (start, end) in all {
            let call = Call::new(libc::SYS_munmap, [*start, end - start, 0, 0, 0, 0]);
            if let Some(packet) = channel::call(&call) {
                deputy.give_soon(Job::new(packet, Purpose::Nothing));
            }
        }
    }
}
