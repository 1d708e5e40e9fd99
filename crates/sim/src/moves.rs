//! The daemon of a simulated node: its tick, and how it places and moves processes.

use policy::{EffectiveSpeed, Mean, NodeView, ProcessView, Refusal, Verdict, mean_rate, move_cost_ms, place};

use crate::event::Event;
use crate::machine::PendingRequest;
use crate::message::{Message, PULSE_READINGS};
use crate::process::{ProcessPlace, mean_lag_ms};
use crate::scenario::Strategy;
use crate::world::World;

/// Time between two ticks of a daemon, microseconds.
const TICK_US: u64 = 1_000_000;
/// The time that a target may take to answer, milliseconds.
const ANSWER_MS: u64 = 2000;
/// The time for which a target keeps its promise, milliseconds.
pub(crate) const PROMISE_MS: u64 = 10_000;
/// The time for starting a process on another node, microseconds.
const PLACE_US: u64 = 5000;
/// A move back to the node just left counts as a return within this time, microseconds.
const RETURN_US: u64 = 5_000_000;
/// The most requests of a node that wait for their answers.
const ASKED_MAX: usize = 1;

impl World {
    pub(crate) fn tick(&mut self, id: usize) {
        if !self.nodes[id].alive {
            return;
        }
        self.queue.add(self.now_us + TICK_US, Event::Tick { node: id });
        self.measure(id);
        self.pulse(id);
        self.consider(id);
    }

    fn measure(&mut self, id: usize) {
        self.advance(id);
        let now_ms = self.now_ms(id);
        let node = &mut self.nodes[id];
        let elapsed_s = (self.now_us - node.ticked_us) as f64 / 1e6;
        if elapsed_s <= 0.0 {
            return;
        }
        let load = node.runnable_s / elapsed_s;
        node.index.sample(load, now_ms);
        (node.runnable_s, node.ticked_us) = (0.0, self.now_us);
        let known: Vec<NodeView> = node.window.fresh(now_ms).map(|(_, _, view)| view).collect();
        let all = Mean {
            lag_ms: mean_lag_ms(known.iter().copied()),
            rate: mean_rate(known.iter().map(|n| (n, f64::from(n.load_milli) / 1e3))),
        };
        let scale_ms = f64::from(node.mover.params().lag_scale_ms);
        let (mut sum, mut weights) = (0.0, 0.0);
        let (mut wanted_s, mut got_s) = (0.0, 0.0);
        for process in &node.processes {
            let process = &mut self.processes[*process];
            let resident_ms = (self.now_us - process.came_us) / 1000;
            if EffectiveSpeed::counts((process.demand * 1e3) as u32, resident_ms) {
                (wanted_s, got_s) = (wanted_s + process.wanted_s, got_s + process.done_s / node.speed);
            }
            process.tick(self.now_us, all, scale_ms);
            sum += process.demand * f64::from(process.lag.ms());
            weights += process.demand;
        }
        node.earned.note(elapsed_s * 1e3, wanted_s * 1e3, got_s * 1e3, load, node.cores);
        node.lag_ms = if weights > 0.0 { sum / weights } else { all.lag_ms } as i32;
    }

    /// Gives the view of the node for its own decisions, and the view that it tells others.
    pub(crate) fn view(&self, id: usize) -> (NodeView, NodeView) {
        let node = &self.nodes[id];
        let own = NodeView {
            id: id as u64,
            load_milli: node.index.own_milli(),
            cores_milli: (node.cores * 1000.0) as u32,
            speed_milli: node.earned.corrected((node.speed * 1000.0) as u32),
            lag_ms: node.lag_ms,
            free_mib: node.free_mib(&self.processes),
            memory_mib: node.memory_mib,
            pressure_milli: 0,
            guests: true,
            age_ms: 0,
        };
        (own, NodeView { load_milli: node.index.told_milli(), ..own })
    }

    fn pulse(&mut self, id: usize) {
        let (_, told) = self.view(id);
        let now_ms = self.now_ms(id);
        let members = self.members.len();
        let node = &mut self.nodes[id];
        let partner = match node.partners.next(members, &mut node.draw) {
            Some(gossip::Partner::Heard(other)) if self.is_member[other as usize] => other as usize,
            Some(_) => self.members[node.draw.below(members)],
            None => return,
        };
        if partner == id {
            return;
        }
        let told = node.mover.with_promises(now_ms, told);
        let mut readings = node.window.newest(PULSE_READINGS - 1, now_ms);
        readings.push((id as u64, 0, told));
        if let Some((load_milli, power_milli)) = node.lie {
            // A lying node tells false values of itself, and of others that they had the same
            // values just now.
            for (_, age_ms, view) in &mut readings {
                *age_ms = 0;
                *view = NodeView { load_milli, cores_milli: power_milli, speed_milli: power_milli, ..*view };
            }
        }
        self.send(id, partner, Message::Pulse(readings));
    }

    /// Decides, and sends a request to the target.
    pub(crate) fn consider(&mut self, id: usize) {
        if self.nodes[id].processes.is_empty() || self.nodes[id].asked.len() >= ASKED_MAX {
            return;
        }
        self.counts.decisions += 1;
        let now_ms = self.now_ms(id);
        // Promised processes count, so a process that has to leave because of them leaves now.
        let (own, _) = self.view(id);
        let own = self.nodes[id].mover.with_promises(now_ms, own);
        let views: Vec<ProcessView> =
            self.nodes[id].processes.iter().map(|p| self.processes[*p].view(*p, self.now_us)).collect();
        let node = &mut self.nodes[id];
        let is_member = &self.is_member;
        let known = node.window.fresh(now_ms).filter(|(other, ..)| is_member[*other as usize]);
        let known: Vec<NodeView> = known
            .map(|(_, age_ms, view)| NodeView { age_ms: u32::try_from(age_ms).unwrap_or(u32::MAX), ..view })
            .collect();
        let record = node.mover.consider(now_ms, own, views, known.into_iter());
        if !matches!(record.verdict, Verdict::Move(_)) {
            return;
        }
        if let Some((order, ask)) = node.mover.order(now_ms, &record, ANSWER_MS) {
            node.asks_made += 1;
            let number = node.asks_made;
            let (process, to) = (order.process as usize, order.to as usize);
            node.asked.push(PendingRequest { number, process, to, cause: order.cause });
            self.send(id, to, Message::Ask { number, ask });
            self.queue.add(self.now_us + ANSWER_MS * 1000, Event::GiveUp { node: id, ask: number });
        }
    }

    pub(crate) fn give_up(&mut self, id: usize, number: u64) {
        let now_ms = self.now_ms(id);
        let node = &mut self.nodes[id];
        if let Some(at) = node.asked.iter().position(|asked| asked.number == number) {
            let asked = node.asked.remove(at);
            node.mover.was_refused(now_ms, asked.process as u64, asked.to as u64, asked.cause);
        }
    }

    pub(crate) fn answered(&mut self, id: usize, number: u64, result: Result<(), Refusal>, view: NodeView) {
        let now_ms = self.now_ms(id);
        let node = &mut self.nodes[id];
        let Some(at) = node.asked.iter().position(|asked| asked.number == number) else { return };
        let PendingRequest { process, to, cause, .. } = node.asked.remove(at);
        node.window.note(to as u64, 0, view, now_ms);
        if result.is_err() || self.processes[process].place != ProcessPlace::On(id) {
            if node.mover.was_refused(now_ms, process as u64, to as u64, cause) {
                self.consider(id);
            }
            return;
        }
        let cost_ms = move_cost_ms(&self.processes[process].view(process, self.now_us), node.mover.params());
        self.take(process);
        // The node has done what it should. Where processes rotate, another may come for the one
        // that left, so the time begins anew.
        self.nodes[id].uneven_from_us = self.now_us;
        self.processes[process].place = ProcessPlace::Moving { from: id };
        self.processes[process].went_us = self.now_us;
        self.queue.add(self.now_us + cost_ms * 1000 + 1, Event::Arrive { process, to });
        self.consider(id);
    }

    pub(crate) fn arrive(&mut self, process: usize, to: usize) {
        let ProcessPlace::Moving { from } = self.processes[process].place else { return };
        self.nodes[from].mover.ended(process as u64);
        let has_come = self.nodes[to].alive && self.reaches(from, to);
        let now_ms = self.now_ms(to);
        self.nodes[to].mover.settle(now_ms, from as u64, process as u64, has_come);
        if !has_come {
            self.counts.failed += 1;
            return self.put(process, from);
        }
        self.counts.moves += 1;
        let home = self.processes[process].home;
        let moved = &mut self.processes[process];
        moved.moves += 1;
        moved.wanted_s += (self.now_us - moved.went_us) as f64 / 1e6;
        if moved.left.is_some_and(|(node, at_us)| node == to && self.now_us - at_us < RETURN_US) {
            self.counts.returns += 1;
        }
        moved.left = Some((from, self.now_us));
        let node = &mut self.nodes[to];
        node.arrivals_us.push(self.now_us);
        let lately = node.arrivals_us.iter().filter(|at_us| self.now_us - **at_us < 3_000_000).count();
        let beyond = lately as i64 - node.cores.max(1.0) as i64;
        self.counts.crowd_max = self.counts.crowd_max.max(beyond);
        if !self.nodes[home].alive {
            return self.end(process, ProcessPlace::Killed);
        }
        self.put(process, to);
        // A process that has to leave because of the new one leaves now.
        self.consider(to);
    }

    pub(crate) fn start(&mut self, process: usize) {
        let home = self.processes[process].home;
        self.disturbed_us = self.now_us;
        let begun = &mut self.processes[process];
        (begun.begun_us, begun.came_us, begun.ticked_us) = (self.now_us, self.now_us, self.now_us);
        self.schedule_toggle(process);
        if !self.nodes[home].alive {
            return self.end(process, ProcessPlace::Killed);
        }
        if self.processes[process].rhythm.is_some() {
            return self.placed(process, home);
        }
        let node = match self.strategy {
            Strategy::Static | Strategy::Refined => {
                self.next_static = (self.next_static + 1) % self.nodes.len();
                (self.next_static + self.nodes.len() - 1) % self.nodes.len()
            }
            Strategy::Moved => home,
            Strategy::Tern | Strategy::Opportunity => self.choose(process, home),
        };
        match node == home {
            true => self.placed(process, node),
            false => self.queue.add(self.now_us + PLACE_US, Event::Placed { process, node }),
        }
    }

    /// Chooses a node by the policy. Processes placed a moment ago count until newer readings come.
    fn choose(&mut self, process: usize, home: usize) -> usize {
        let now_ms = self.now_ms(home);
        let view = self.processes[process].view(process, self.now_us);
        let (own, _) = self.view(home);
        let own = NodeView { load_milli: self.nodes[home].runnable(&self.processes) as u32 * 1000, ..own };
        let node = &self.nodes[home];
        let mut known: Vec<NodeView> = node.window.fresh(now_ms).map(|(_, _, view)| view.bounded()).collect();
        known.retain(|n| self.is_member[n.id as usize]);
        known.push(own);
        let chosen = place(&view, &known, node.mover.params()).first().map_or(home, |(id, _)| *id as usize);
        if let Some(reading) = self.nodes[home].window.get(chosen as u64).copied() {
            let load_milli = reading.value.load_milli.saturating_add(view.demand_milli);
            let age_ms = now_ms.saturating_sub(reading.read_ms + 1);
            self.nodes[home].window.note(chosen as u64, age_ms, NodeView { load_milli, ..reading.value }, now_ms);
        }
        chosen
    }

    pub(crate) fn placed(&mut self, process: usize, node: usize) {
        // A node that died or is out of reach takes nothing, so the process begins at home.
        let home = self.processes[process].home;
        let node = if self.nodes[node].alive && self.reaches(home, node) { node } else { home };
        self.processes[process].lag = policy::Lag::of_newcomer(self.nodes[node].lag_ms);
        self.put(process, node);
    }
}
