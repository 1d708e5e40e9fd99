//! Scenarios drawn from a seed, for thousands of runs.

use std::collections::BTreeMap;

use gossip::Draw;

use crate::scenario::{Background, Columns, Fault, Jobs, Network, Nodes, Scenario, Strategy, Work};

/// Draws a small cluster with mixed machines, work, and faults.
pub fn scenario(seed: u64) -> Scenario {
    let mut draw = Draw::new(seed ^ 0x7363_656e);
    let kinds = 1 + draw.below(3);
    let mut machine = || Nodes {
        count: 2 + draw.below(12) as u32,
        cores: [1.0, 1.0, 2.0, 4.0, 0.5][draw.below(5)],
        speed: [1.0, 1.0, 0.33, 2.0][draw.below(4)],
        memory_mib: [1024, 4096][draw.below(2)],
    };
    let nodes: Vec<Nodes> = (0..kinds).map(|_| machine()).collect();
    let count = nodes.iter().map(|n| n.count).sum::<u32>();
    let work = match draw.below(3) {
        0 => Work::Fixed(5.0 + 20.0 * draw.unit()),
        1 => Work::Uniform(0.0, 40.0),
        _ => Work::Pareto(0.5, 1.05, 60.0),
    };
    let jobs = Jobs {
        count: 1 + draw.below(3 * count as usize) as u32,
        work,
        at_s: 2.0,
        every_s: if draw.one_in(2) { 0.0 } else { 20.0 * draw.unit() / f64::from(count) },
        on: draw.one_in(2).then_some(0),
        memory_mib: 5 + draw.below(60) as u32,
        calls_per_s: if draw.one_in(4) { 5000 } else { 0 },
    };
    let background = Background {
        count: draw.below(count as usize) as u32,
        run_s: 1.0 + 10.0 * draw.unit(),
        pause_s: 1.0 + 10.0 * draw.unit(),
        movable: draw.one_in(2),
    };
    let (at_s, node) = (5.0 + 30.0 * draw.unit(), draw.below(count as usize) as u32);
    let fault = match draw.below(7) {
        0 => Some(Fault::Kill { at_s, node }),
        1 => Some(Fault::Cut { at_s, for_s: 10.0 * draw.unit(), below: node }),
        2 => Some(Fault::Speed { at_s, node, speed: 0.2 + draw.unit() }),
        3 => Some(Fault::Hidden { at_s, node, share: 0.1 + 0.9 * draw.unit() }),
        4 => Some(Fault::Clock { at_s, node, by_s: 86_400.0 * (2.0 * draw.unit() - 1.0) }),
        _ => None,
    };
    Scenario {
        name: format!("random-{seed}"),
        text: String::new(),
        runs: 1,
        limit_s: 60.0,
        columns: Columns(vec![Strategy::Tern]),
        rows: Vec::new(),
        nodes,
        network: Network {
            delay_ms: 0.2 + 20.0 * draw.unit() * draw.unit(),
            jitter_ms: 5.0 * draw.unit(),
            loss: if draw.one_in(3) { 0.3 * draw.unit() } else { 0.0 },
        },
        policy: BTreeMap::new(),
        jobs: vec![jobs],
        background: vec![background],
        faults: fault.into_iter().collect(),
    }
}
