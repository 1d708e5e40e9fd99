//! Checks the invariants on a thousand small clusters, each drawn from its seed.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::atomic::{AtomicU64, Ordering};

use sim::{Scenario, Setting, Strategy, Work, check, random_scenario, run};

const SEEDS: u64 = 1000;

#[test]
fn invariants_hold_for_a_thousand_seeds() {
    let next = AtomicU64::new(0);
    let failures: Vec<String> = std::thread::scope(|scope| {
        let worker = || {
            let mut found = Vec::new();
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= SEEDS {
                    return found;
                }
                let scenario = random_scenario(seed);
                let outcome = run(&scenario, Strategy::Tern, seed).unwrap();
                let violations = check(&scenario, &outcome);
                found.extend(
                    violations.iter().map(|v| format!("seed {seed}: {v} (tern sim seeds --first {seed} --count 1)")),
                );
            }
        };
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(worker)).collect();
        threads.into_iter().flat_map(|t| t.join().unwrap()).collect()
    });
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn a_seed_reproduces_its_run() {
    for seed in 0..20 {
        let scenario = random_scenario(seed);
        let outcome = || run(&scenario, Strategy::Tern, seed).unwrap();
        assert_eq!(outcome(), outcome());
    }
}

fn scenario(text: &str) -> Scenario {
    Scenario::parse(&format!("name = \"t\"\n{text}")).unwrap()
}

#[test]
fn seventeen_on_sixteen_come_near_the_fluid_bound() {
    let text = include_str!("../../../scenarios/table1.toml");
    for move_ms in [20, 1300, 5200] {
        let mut table1 = Scenario::parse(text).unwrap().with_jobs(17);
        table1.policy.insert("move_ms".into(), Setting::Number(move_ms));
        let outcome = run(&table1, Strategy::Tern, 1).unwrap();
        assert!(outcome.makespan_s < 318.75 * 1.1, "moves of {move_ms} ms: {}", outcome.makespan_s);
        assert!(check(&table1, &outcome).is_empty());
    }
}

#[test]
fn even_loads_stay_on_parts_of_cores_too() {
    let mut table1 = Scenario::parse(include_str!("../../../scenarios/table1.toml")).unwrap().with_jobs(48);
    table1.nodes[0].cores = 0.08;
    table1.jobs[0].work = Work::Fixed(300.0 * 0.08);
    table1.policy.insert("move_ms".into(), Setting::Number(1300));
    assert_eq!(run(&table1, Strategy::Tern, 1).unwrap().counts.moves, 0);
    // All processes begin on one node. The lag that they build up until they are spread must not
    // cause moves afterwards.
    let spread = run(&table1, Strategy::Moved, 1).unwrap().counts;
    assert!(spread.moves < 100, "{spread:?}");
}

#[test]
fn slow_places_and_fast_ones_are_shared_near_the_fluid_bound() {
    let mut speeds = Scenario::parse(include_str!("../../../scenarios/speeds.toml")).unwrap();
    (speeds.runs, speeds.columns) = (10, sim::Columns(vec![Strategy::Tern]));
    let table = sim::experiment(&speeds, 1, |_| ()).unwrap();
    for row in &table.rows {
        let tern = &row.cells[0];
        assert!(tern.over_fluid < 1.035 && tern.violations.is_empty(), "{} jobs: {tern:?}", row.jobs);
    }
}

#[test]
fn places_that_go_from_hand_to_hand_are_found() {
    let speeds = Scenario::parse(include_str!("../../../scenarios/speeds.toml")).unwrap().with_jobs(24);
    // With these seeds one node had three jobs for over 20 s, while free places for two came and
    // went on all other nodes.
    for seed in [96, 104, 176, 238] {
        let outcome = run(&speeds, Strategy::Tern, seed).unwrap();
        assert!(check(&speeds, &outcome).is_empty(), "seed {seed}: {:?}", check(&speeds, &outcome));
    }
}

#[test]
fn pausing_processes_have_their_share_and_parts_of_cores_change_little() {
    let mut fig3 = Scenario::parse(include_str!("../../../scenarios/fig3.toml")).unwrap();
    (fig3.runs, fig3.rows, fig3.columns) = (4, vec![16, 20, 36], sim::Columns(vec![Strategy::Tern]));
    let mut of_parts = fig3.clone();
    of_parts.nodes[0].cores = 0.08;
    of_parts.jobs[0].work = Work::Fixed(300.0 * 0.08);
    let rows = |scenario| sim::experiment(scenario, 1, |_| ()).unwrap().rows;
    for (row, in_parts) in rows(&fig3).iter().zip(rows(&of_parts)) {
        let (cell, in_parts) = (&row.cells[0], &in_parts.cells[0]);
        assert!((0.995..1.04).contains(&cell.over_fluid), "{cell:?}");
        assert!(
            (cell.over_beside - cell.over_fluid).abs() < 0.015,
            "what pauses has more or less than its share: {cell:?}"
        );
        assert!(in_parts.over_fluid < cell.over_fluid + 0.03, "{in_parts:?} instead of {cell:?}");
        assert!(in_parts.moves < cell.moves * 1.6, "{in_parts:?} instead of {cell:?}");
    }
}

/// Runs a cluster of eight nodes, one of which lies from the tenth second on.
fn with_liar(load_milli: u32, power_milli: u32) -> Scenario {
    scenario(&format!(
        "limit_s = 200\n[[nodes]]\ncount = 8\n[[jobs]]\ncount = 20\nat_s = 5\non = 0\nwork = {{ fixed = 60 }}\n\
         [[faults]]\nlie = {{ at_s = 10, node = 3, load_milli = {load_milli}, power_milli = {power_milli} }}"
    ))
}

#[test]
fn one_that_lies_does_little_harm() {
    let honest = run(
        &scenario("limit_s = 200\n[[nodes]]\ncount = 8\n[[jobs]]\ncount = 20\nat_s = 5\non = 0\nwork = { fixed = 60 }"),
        Strategy::Tern,
        1,
    )
    .unwrap();
    for (load_milli, power_milli) in
        [(0, 1000), (0, u32::MAX), (u32::MAX, 1000), (u32::MAX, u32::MAX), (u32::MAX, 0), (0, 0), (1, 300)]
    {
        for strategy in [Strategy::Tern, Strategy::Moved, Strategy::Opportunity] {
            let scenario = with_liar(load_milli, power_milli);
            let outcome = run(&scenario, strategy, 1).unwrap();
            let what = format!("load {load_milli}, power {power_milli}, {strategy:?}: {:?}", outcome.counts);
            assert!(check(&scenario, &outcome).is_empty(), "{:?} {what}", check(&scenario, &outcome));
            assert!(outcome.makespan_s < honest.makespan_s * 1.5, "{} s: {what}", outcome.makespan_s);
        }
    }
}

#[test]
fn balance_is_calm() {
    let calm = scenario(
        "limit_s = 70\n[[nodes]]\ncount = 16\n[[jobs]]\ncount = 16\nat_s = 5\non = 0\nwork = { fixed = 1000 }",
    );
    assert_eq!(run(&calm, Strategy::Tern, 3).unwrap().counts.moves, 0);
}

#[test]
fn a_node_that_slows_down_is_left_within_five_seconds() {
    let slowed = scenario(
        "limit_s = 15.5\n[[nodes]]\ncount = 4\n[[jobs]]\ncount = 1\nat_s = 5\non = 0\nwork = { fixed = 1000 }\n\
         [[faults]]\nspeed = { at_s = 10, node = 0, speed = 0.3 }",
    );
    for seed in 0..50 {
        let outcome = run(&slowed, Strategy::Moved, seed).unwrap();
        assert_eq!(outcome.counts.moves, 1, "seed {seed}: {:?}", outcome.counts);
    }
}

#[test]
fn a_node_whose_guests_get_less_than_it_tells_is_left() {
    // Only the effective speed of guests tells the policy of hidden work: two jobs on four nodes,
    // one of which has other work.
    let hidden = |share| {
        scenario(&format!(
            "limit_s = 120\n[[nodes]]\ncount = 4\n[[jobs]]\ncount = 1\nat_s = 5\non = 0\nwork = {{ fixed = 1000 }}\n\
             [[faults]]\nhidden = {{ at_s = 20, node = 0, share = {share} }}"
        ))
    };
    for seed in 0..50 {
        let outcome = |share| run(&hidden(share), Strategy::Moved, seed).unwrap();
        assert_eq!(outcome(0.3).counts.moves, 1, "seed {seed}");
        assert_eq!(outcome(0.85).counts.moves, 0, "seed {seed}: so little is noise");
    }
}

#[test]
fn clocks_that_are_set_hours_forward_or_back_change_little() {
    let jobs = "limit_s = 300\n[[nodes]]\ncount = 8\n[[jobs]]\ncount = 20\nat_s = 5\non = 0\nwork = { fixed = 60 }\n";
    let still = run(&scenario(jobs), Strategy::Moved, 1).unwrap();
    for (seed, by_s) in (1..).zip([3600.0, -3600.0, 864_000.0, -864_000.0, 20.0, -20.0]) {
        // The clocks of the node where all processes begin and of one other node change, while the
        // processes are spread and once more afterwards.
        let clock = |at_s, node| format!("[[faults]]\nclock = {{ at_s = {at_s}, node = {node}, by_s = {by_s:.1} }}\n");
        let jumps = scenario(&[jobs, &clock(8, 0), &clock(9, 3), &clock(60, 0), &clock(70, 3)].concat());
        let outcome = run(&jumps, Strategy::Moved, seed).unwrap();
        assert!(check(&jumps, &outcome).is_empty(), "by {by_s} s: {:?}", check(&jumps, &outcome));
        let (took_s, usual_s) = (outcome.makespan_s, still.makespan_s);
        assert!(took_s < usual_s * 1.1, "by {by_s} s: {took_s:.1} s, without {usual_s:.1} s: {:?}", outcome.counts);
    }
}

#[test]
fn an_idle_node_is_not_flooded() {
    // One node of 65 comes back within reach of the 64 busy ones.
    let idle = scenario(
        "limit_s = 60\n[[nodes]]\ncount = 65\n[[jobs]]\ncount = 256\nat_s = 8\nwork = { fixed = 1000 }\n\
         [[faults]]\ncut = { at_s = 0.0, for_s = 30.0, below = 1 }",
    );
    let outcome = run(&idle, Strategy::Tern, 3).unwrap();
    assert!(outcome.counts.crowd_max <= 2, "{:?}", outcome.counts);
    assert!(check(&idle, &outcome).is_empty());
}

#[test]
fn traffic_does_not_grow_with_the_cluster() {
    let traffic = |count| {
        let idle = scenario(&format!("limit_s = 20\n[[nodes]]\ncount = {count}\n"));
        let outcome = run(&idle, Strategy::Tern, 1).unwrap();
        outcome.counts.messages as f64 / (count as f64 * outcome.seconds)
    };
    let (few, many) = (traffic(10), traffic(2000));
    assert!(many < few * 1.2, "{few} and {many} messages a second and node");
}

#[test]
fn memory_runs_out_nowhere() {
    let usher = Scenario::parse(include_str!("../../../scenarios/usher.toml")).unwrap();
    for strategy in [Strategy::Tern, Strategy::Moved] {
        let outcome = run(&usher.with_jobs(48), strategy, 1).unwrap();
        assert_eq!(outcome.counts.swapped_s, 0, "{strategy:?}: {:?}", outcome.counts);
    }
}
