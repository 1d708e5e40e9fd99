//! Faults in a run.

use crate::event::Event;
use crate::process::ProcessPlace;
use crate::scenario::Fault;
use crate::world::World;

/// The time until the membership protocol declares a dead node dead, microseconds: a round figure
/// for a probe, an indirect probe, and suspicion.
const DEATH_KNOWN_US: u64 = 3_000_000;

impl Fault {
    pub(crate) fn begins_us(&self) -> u64 {
        match *self {
            Fault::Kill { at_s, .. } | Fault::Cut { at_s, .. } | Fault::Lie { at_s, .. } => (at_s * 1e6) as u64,
            Fault::Speed { at_s, .. } | Fault::Hidden { at_s, .. } | Fault::Clock { at_s, .. } => (at_s * 1e6) as u64,
        }
    }
}

impl World {
    pub(crate) fn fault(&mut self, index: usize, begins: bool) {
        self.disturbed_us = self.now_us;
        match self.scenario.faults[index] {
            Fault::Kill { node, .. } => self.kill(node as usize),
            Fault::Cut { for_s, below, .. } if begins => {
                self.cuts.push(below as usize);
                self.queue.add(self.now_us + (for_s * 1e6) as u64, Event::Fault { index, begins: false });
            }
            Fault::Cut { below, .. } => {
                if let Some(at) = self.cuts.iter().position(|b| *b == below as usize) {
                    self.cuts.remove(at);
                }
            }
            Fault::Lie { node, load_milli, power_milli, .. } => {
                self.nodes[node as usize].lie = Some((load_milli, power_milli));
            }
            Fault::Hidden { node, share, .. } => {
                self.advance(node as usize);
                self.nodes[node as usize].left_share = share;
                self.changed(node as usize);
            }
            Fault::Clock { node, by_s, .. } => self.nodes[node as usize].clock_ms += (by_s * 1e3) as i64,
            Fault::Speed { node, speed, .. } => {
                self.advance(node as usize);
                self.nodes[node as usize].speed = speed;
                self.changed(node as usize);
            }
        }
    }

    /// Kills a node. The processes on the node die, and so do those whose home it is, wherever they
    /// run.
    fn kill(&mut self, dead: usize) {
        self.advance(dead);
        self.nodes[dead].alive = false;
        for process in 0..self.processes.len() {
            let here = self.processes[process].place == ProcessPlace::On(dead);
            let away =
                self.processes[process].home == dead && matches!(self.processes[process].place, ProcessPlace::On(_));
            if here || away {
                self.take(process);
                self.end(process, ProcessPlace::Killed);
            }
        }
        self.queue.add(self.now_us + DEATH_KNOWN_US, Event::Forget { node: dead });
    }

    pub(crate) fn forget(&mut self, dead: usize) {
        self.disturbed_us = self.now_us;
        self.members.retain(|node| *node != dead);
        self.is_member[dead] = false;
    }
}
