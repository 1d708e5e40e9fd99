//! Changes that a mode makes to the tasks of a job at moments of the agreed clock.

use cosched::{LocalTurns, Phase};

use super::Registered;
use crate::agent::clock;
use crate::agent::missing::{Missing, prefer};
use crate::levers::Boost;

impl Registered {
    /// Has the tasks come first, and what serves them.
    pub(super) fn raise(&mut self) {
        if !self.comes_first() || self.yields {
            return;
        }
        let wanted = Boost::of_tasks(self.mode.real_time, self.tasks.keys());
        if self.mode.real_time && wanted == Boost::Nice {
            self.missing.insert(Missing::RealTime);
        }
        for thread in self.helpers.values().flat_map(|threads| threads.values()) {
            // An ordinary user's are not his.
            let _ = thread.raise(Boost::Nice);
        }
        let threads = self.tasks.values().flat_map(|threads| threads.values());
        self.missing.extend(threads.filter_map(|thread| prefer(thread, wanted)));
    }

    /// Has tasks come first, or compete as others do, as the turns of local work say.
    pub fn take_turns(&mut self, wall_us: u64) {
        let turns = LocalTurns::of(&self.mode);
        let yields = turns.is_some_and(|turns| !turns.at(self.clock().agreed_us(wall_us)).tasks_first);
        if yields == self.yields {
            return;
        }
        self.yields = yields;
        if let Some(weight) = &self.weight {
            weight.set_heavy(!yields);
        }
        match yields {
            true => self.tasks.values().flat_map(|threads| threads.values()).for_each(|thread| thread.lower()),
            false => self.raise(),
        }
    }

    /// Tells whether the tasks should stand still, or run, from now on; `None` if nothing changes.
    /// Also names the tasks that would be stopped by signals.
    pub fn due(&mut self, wall_us: u64) -> Option<Phase> {
        let phase = self.mode.windows?.at(self.clock().agreed_us(wall_us)).phase;
        if phase == self.phase {
            return None;
        }
        if phase == Phase::Stop
            && let Some(stop) = &mut self.stop
        {
            stop.choose_stopped(self.tasks.keys().copied());
        }
        Some(phase)
    }

    /// Has the tasks stand still or go on.
    pub fn switch(&mut self, phase: Phase, wall_us: u64) {
        let Some((windows, stop)) = self.mode.windows.zip(self.stop.as_mut()) else { return };
        let done = if phase == Phase::Stop { stop.stop() } else { stop.go_on() };
        if let Err(e) = done {
            tracing::info!("cosched: job {}: {e}", self.number);
        }
        let clock = self.clock();
        let ends_us = clock.own_us(windows.at(clock.agreed_us(wall_us)).until_us);
        let due_us = self.phase_ends_us.replace(ends_us).filter(|due_us| *due_us > 0);
        if let Some(due_us) = due_us {
            self.switches.add(clock::wall_us().saturating_sub(due_us));
        }
        self.phase = phase;
    }

    /// Gives the moment of the next switch or turn, microseconds of the node's wall clock.
    pub fn next_switch_us(&self, wall_us: u64) -> Option<u64> {
        let (clock, agreed_us) = (self.clock(), self.clock().agreed_us(wall_us));
        let switch = self.mode.windows.map(|windows| windows.at(agreed_us).until_us);
        let turn = LocalTurns::of(&self.mode).map(|turns| turns.at(agreed_us).until_us);
        switch.into_iter().chain(turn).min().map(|us| clock.own_us(us))
    }
}
