//! The tasks and messages that arrive, drawn from a seed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use gossip::Draw;

use crate::model::parameters::Parameters;
use crate::model::task::Task;

/// Something that arrives at the processor.
#[derive(Clone, Debug)]
pub(crate) enum Arriving {
    /// A new task.
    Task(Task),
    /// A message for the task with this number.
    Message(usize),
}

/// Arrivals in the order of time. They do not depend on what the processor does.
pub(crate) struct Workload<'a> {
    parameters: &'a Parameters,
    draw: Draw,
    next_task_us: u64,
    tasks: usize,
    /// Time and receiver of each message that is on its way.
    messages: BinaryHeap<Reverse<(u64, usize)>>,
}

impl Workload<'_> {
    pub fn new(parameters: &Parameters) -> Workload<'_> {
        let mut draw = Draw::new(parameters.seed);
        let next_task_us = exponential_us(&mut draw, parameters.mit_s);
        Workload { parameters, draw, next_task_us, tasks: 0, messages: BinaryHeap::new() }
    }

    /// Gives the time of the next arrival.
    pub fn next_us(&self) -> u64 {
        self.messages.peek().map_or(self.next_task_us, |Reverse((us, _))| self.next_task_us.min(*us))
    }

    /// Takes the next arrival. A message comes before a task of the same moment.
    pub fn take(&mut self) -> Arriving {
        match self.messages.peek() {
            Some(Reverse((us, task))) if *us <= self.next_task_us => {
                let task = *task;
                self.messages.pop();
                Arriving::Message(task)
            }
            _ => Arriving::Task(self.create()),
        }
    }

    fn create(&mut self) -> Task {
        let now_us = self.next_task_us;
        let service_us = exponential_us(&mut self.draw, self.parameters.mst_s).max(1);
        let is_distributed = self.draw.unit() < self.parameters.pdt;
        let messages = if is_distributed { self.draw.below(self.parameters.mm as usize + 1) as u32 } else { 0 };
        let gap_s = self.parameters.gap * self.parameters.mst_s / f64::from(messages + 1);
        let mut arrives_us = now_us;
        for _ in 0..messages {
            arrives_us += exponential_us(&mut self.draw, gap_s);
            self.messages.push(Reverse((arrives_us, self.tasks)));
        }
        self.tasks += 1;
        self.next_task_us += exponential_us(&mut self.draw, self.parameters.mit_s);
        Task {
            created_us: now_us,
            service_us,
            served_us: 0,
            cpu_us: 0,
            messages,
            taken: 0,
            passed: 0,
            is_distributed,
            is_ready: true,
        }
    }
}

/// Draws a time whose mean is `mean_s` from the exponential distribution, microseconds.
fn exponential_us(draw: &mut Draw, mean_s: f64) -> u64 {
    (-(1.0 - draw.unit()).ln() * mean_s * 1e6).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_are_in_order_and_have_the_means() {
        let parameters = Parameters { mit_s: 2.0, pdt: 0.25, ..Parameters::default() };
        let mut workload = Workload::new(&parameters);
        let (mut before_us, mut tasks, mut messages, mut service_us, mut distributed) = (0, 0u32, 0u32, 0, 0u32);
        while tasks < 40_000 {
            assert!(workload.next_us() >= before_us);
            before_us = workload.next_us();
            match workload.take() {
                Arriving::Task(task) => {
                    assert_eq!(task.created_us, before_us);
                    tasks += 1;
                    service_us += task.service_us;
                    distributed += u32::from(task.is_distributed);
                }
                Arriving::Message(_) => messages += 1,
            }
        }
        let near = |value: f64, mean: f64| (value / mean - 1.0).abs() < 0.03;
        let of_tasks = |value: f64| value / f64::from(tasks);
        assert!(near(of_tasks(before_us as f64 / 1e6), 2.0) && near(of_tasks(service_us as f64 / 1e6), 0.9));
        assert!(near(of_tasks(distributed.into()), 0.25) && near(of_tasks(messages.into()), 0.25 * 2.5));
    }
}
