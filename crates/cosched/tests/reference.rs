//! NodeCoDe against the reference curves of docs/coscheduling.md, and what each parameter changes.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::time::{Duration, Instant};

use cosched::model::{Parameters, SimulationError, simulate};
use cosched::{Experiment, Mode, NodeCode, measure};

/// Runs of each point: one run of 10 000 tasks varies by more than the reference's digits.
const RUNS: u32 = 16;

const MITS_S: [f64; 8] = [0.9, 1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 8.0];

/// One run of 10 000 tasks by an independent program with another random generator.
const REFERENCE: [(f64, Mode, [f64; 8]); 9] = [
    (0.2, Mode::Implicit, [0.014, 0.167, 0.404, 0.585, 0.735, 0.858, 0.925, 0.956]),
    (0.2, Mode::Dynamic, [0.077, 0.375, 0.581, 0.708, 0.808, 0.878, 0.927, 0.958]),
    (0.2, Mode::Sdca, [0.082, 0.480, 0.659, 0.748, 0.832, 0.889, 0.928, 0.957]),
    (0.5, Mode::Implicit, [0.023, 0.187, 0.410, 0.586, 0.732, 0.843, 0.914, 0.953]),
    (0.5, Mode::Dynamic, [0.107, 0.397, 0.586, 0.704, 0.796, 0.874, 0.926, 0.957]),
    (0.5, Mode::Sdca, [0.095, 0.471, 0.661, 0.756, 0.827, 0.884, 0.931, 0.958]),
    (0.8, Mode::Implicit, [0.020, 0.197, 0.392, 0.571, 0.713, 0.836, 0.911, 0.948]),
    (0.8, Mode::Dynamic, [0.092, 0.398, 0.568, 0.688, 0.785, 0.864, 0.922, 0.952]),
    (0.8, Mode::Sdca, [0.062, 0.458, 0.645, 0.742, 0.814, 0.879, 0.927, 0.954]),
];

fn points(runs: u32) -> Vec<NodeCode> {
    measure(&Experiment { runs, ..Experiment::default() }).unwrap().points
}

/// Averages NodeCoDe at pdt 0.5, after a change of the parameters.
fn average(mode: Mode, mit_s: f64, change: impl Fn(&mut Parameters)) -> f64 {
    let mut base = Parameters::default();
    change(&mut base);
    let experiment = Experiment { modes: vec![mode], mits_s: vec![mit_s], pdts: vec![0.5], base, runs: RUNS };
    measure(&experiment).unwrap().points[0].node_code
}

/// Gives NodeCoDe at all points for each of the seeds 1 to [`RUNS`].
fn single_runs() -> Vec<Vec<NodeCode>> {
    let run = |seed: u32| {
        let base = Parameters { seed: seed.into(), ..Parameters::default() };
        measure(&Experiment { base, ..Experiment::default() }).unwrap().points
    };
    (1..=RUNS).map(run).collect()
}

/// The distance of one run from the mean of others.
#[derive(Clone, Copy, Debug)]
struct Distance {
    /// Points at which both are within 0.01 of each other.
    close: usize,
    /// Mean over the points of the square of the distance, in deviations of a run.
    mean_square: f64,
}

/// Compares one run with the mean of others, a value for each point.
fn distance(one: &[f64], others: &[&[f64]]) -> Distance {
    let count = others.len() as f64;
    let (mut close, mut squares) = (0, 0.0);
    for (point, value) in one.iter().enumerate() {
        let mean = others.iter().map(|run| run[point]).sum::<f64>() / count;
        let variance = others.iter().map(|run| (run[point] - mean).powi(2)).sum::<f64>() / (count - 1.0);
        close += usize::from((value - mean).abs() <= 0.01);
        // The mean of the others is not exact either.
        squares += (value - mean).powi(2) / (variance * (1.0 + 1.0 / count));
    }
    Distance { close, mean_square: squares / one.len() as f64 }
}

/// The reference is a single run, so it lies about its mean by one deviation, as each run does: no
/// simulator is within 0.01 of it everywhere. At each point the mean of our runs is within 0.01 of
/// it, beyond the noise of a single run (two deviations). And the reference is no farther from our
/// runs than these are from each other.
#[test]
fn the_curves_are_those_of_the_reference() {
    let runs = single_runs();
    let codes: Vec<Vec<f64>> = runs.iter().map(|run| run.iter().map(|point| point.node_code).collect()).collect();
    let codes: Vec<&[f64]> = codes.iter().map(Vec::as_slice).collect();
    let reference: Vec<f64> = REFERENCE.iter().flat_map(|(_, _, curve)| *curve).collect();
    let points = points(RUNS);
    for (point, expected) in points.iter().zip(&reference) {
        let (off, noise) = ((point.node_code - expected).abs(), 2.0 * point.deviation);
        println!(
            "{:<9} pdt {} mit {}: {:.3}, a run varies by {:.3}; reference {expected}, off by {off:.3}",
            point.mode, point.pdt, point.mit_s, point.node_code, point.deviation
        );
        assert!(off <= 0.01 + noise, "{point:?}, not {expected}");
    }
    let theirs = distance(&reference, &codes);
    let own: Vec<Distance> = (0..codes.len())
        .map(|run| {
            let others: Vec<&[f64]> = codes.iter().enumerate().filter(|(n, _)| *n != run).map(|(_, c)| *c).collect();
            distance(codes[run], &others)
        })
        .collect();
    println!("the reference from our runs: {theirs:?}");
    own.iter().for_each(|own| println!("one of our runs from the others: {own:?}"));
    assert!(own.iter().any(|own| own.close <= theirs.close), "{theirs:?} {own:?}");
    assert!(own.iter().filter(|own| own.mean_square >= theirs.mean_square).count() >= 2, "{theirs:?} {own:?}");
}

/// The points are those of the reference, in its order.
#[test]
fn the_points_are_those_of_the_reference() {
    let base = Parameters { nst: 10, ..Parameters::default() };
    let points = measure(&Experiment { base, ..Experiment::default() }).unwrap().points;
    let expected = REFERENCE.iter().flat_map(|(pdt, mode, _)| MITS_S.map(|mit_s| (*pdt, *mode, mit_s)));
    assert!(points.iter().map(|point| (point.pdt, point.mode, point.mit_s)).eq(expected));
}

#[test]
fn sdca_is_better_than_dynamic_and_dynamic_than_implicit() {
    let points = points(4);
    let at = |mode, pdt, mit_s| {
        points.iter().find(|p| p.mode == mode && p.pdt == pdt && p.mit_s == mit_s).unwrap().node_code
    };
    for pdt in [0.2, 0.5, 0.8] {
        for mit_s in MITS_S {
            let [implicit, dynamic, sdca] = Mode::ALL.map(|mode| at(mode, pdt, mit_s));
            if (1.0..=5.0).contains(&mit_s) {
                assert!(implicit < dynamic && dynamic < sdca, "pdt {pdt} mit {mit_s}: {implicit} {dynamic} {sdca}");
            }
            if mit_s == 8.0 {
                assert!((sdca - dynamic).abs() < 0.003 + 0.002, "pdt {pdt}: {dynamic} {sdca}");
            }
        }
        assert!(MITS_S.windows(2).all(|w| at(Mode::Sdca, pdt, w[0]) < at(Mode::Sdca, pdt, w[1])));
    }
}

#[test]
fn low_spin_and_share_are_better() {
    for mit_s in [1.5, 3.0] {
        let implicit = [0.01, 0.1].map(|spin_s| average(Mode::Implicit, mit_s, |p| p.spin_s = spin_s));
        let dynamic = [0.1, 0.5].map(|share_s| average(Mode::Dynamic, mit_s, |p| p.share_s = share_s));
        println!("mit {mit_s}: spin .01 and .1 {implicit:.3?}, share .1 and .5 {dynamic:.3?}");
        let expected = if mit_s == 1.5 { [0.585, 0.541, 0.702, 0.650] } else { [0.841, 0.807, 0.874, 0.864] };
        for (measured, expected) in implicit.into_iter().chain(dynamic).zip(expected) {
            assert!((measured - expected).abs() < 0.02, "mit {mit_s}: {measured}, not {expected}");
        }
        assert!(implicit[1] < implicit[0] && dynamic[1] < dynamic[0]);
    }
}

#[test]
fn sdca_needs_more_than_one_overtaking() {
    let few = |p: &mut Parameters| p.nst = 4000;
    let sdca = [1, 5, 20].map(|most_overtakes| {
        average(Mode::Sdca, 1.0, |p| {
            few(p);
            p.most_overtakes = most_overtakes;
        })
    });
    let dynamic = average(Mode::Dynamic, 1.0, few);
    println!("SDCA with MO 1, 5 and 20: {sdca:.3?}; DYNAMIC {dynamic:.3}");
    assert!(sdca[0] < dynamic && dynamic < sdca[1] && sdca[1] < sdca[2], "{sdca:?} {dynamic}");
}

/// The best of some runs counts: other programs want the processor, too.
#[test]
fn ten_thousand_tasks_take_less_than_a_second() {
    for mode in Mode::ALL {
        let took = (0..5).map(|_| {
            let begun = Instant::now();
            simulate(mode, &Parameters::default()).unwrap();
            begun.elapsed()
        });
        let best = took.min().unwrap();
        println!("{mode}: 10 000 tasks in {best:?}");
        assert!(best < Duration::from_secs(1), "{mode}: {best:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for mode in Mode::ALL {
        let run = |seed| simulate(mode, &Parameters { nst: 500, seed, ..Parameters::default() }).unwrap();
        assert_eq!(run(7), run(7));
        assert_ne!(run(7), run(8));
    }
}

#[test]
fn extreme_parameters_end() {
    let extremes: [fn(&mut Parameters); 10] = [
        |p| p.pdt = 0.0,
        |p| p.pdt = 1.0,
        |p| p.mm = 0,
        |p| p.mm = 1000,
        |p| (p.spin_s, p.share_s) = (0.0, 0.0),
        |p| (p.spin_s, p.share_s) = (900.0, 9e5),
        |p| p.quantum_s = 0.0009,
        |p| (p.quantum_s, p.gap) = (9e5, 0.0),
        |p| (p.most_overtakes, p.gap) = (0, 100.0),
        |p| (p.most_overtakes, p.mit_s, p.nst) = (u32::MAX, 0.3, 300),
    ];
    for (number, change) in extremes.iter().enumerate() {
        for mode in Mode::ALL {
            let mut parameters = Parameters { nst: 200, seed: u64::MAX, ..Parameters::default() };
            change(&mut parameters);
            let outcome = simulate(mode, &parameters).unwrap();
            assert!((0.0..=1.0).contains(&outcome.node_code), "{number} {mode}: {outcome:?}");
            assert!(outcome.end_s.is_finite() && outcome.dispatches >= 200, "{number} {mode}: {outcome:?}");
        }
    }
}

#[test]
fn an_overloaded_processor_is_told() {
    let parameters = Parameters { mit_s: 0.09, nst: 100_000, pdt: 0.0, ..Parameters::default() };
    let overload = simulate(Mode::Implicit, &parameters).unwrap_err();
    assert!(matches!(overload, SimulationError::Overload { served: 1000..10_000 }), "{overload}");
}
