//! Experiments: tables with rows of job counts and columns of strategies, with the bounds beside
//! them.

use serde::Serialize;

use crate::fluid::{by_two_s, fluid_beside_s, fluid_s};
use crate::scenario::{Scenario, ScenarioError, Strategy};
use crate::{Violation, check, run};

/// The result of one strategy in one row: means over the runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// The strategy of the column.
    pub strategy: Strategy,
    /// Time at which the last job ended, seconds.
    pub makespan_s: f64,
    /// The makespan over the fluid bound of the same run.
    pub over_fluid: f64,
    /// The makespan over the bound that leaves the background the time that it got in this run.
    pub over_beside: f64,
    /// Mean of a job's time over its work.
    pub slowdown: f64,
    /// Mean number of moves.
    pub moves: f64,
    /// Node-seconds with more memory in use than the node has.
    pub swapped_s: f64,
    /// Broken invariants, each with its seed.
    pub violations: Vec<(u64, Violation)>,
}

/// One row of a table: one job count.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Number of jobs.
    pub jobs: u32,
    /// Makespan under perfect sharing, seconds.
    pub fluid_s: f64,
    /// Makespan if jobs moved at no cost at a difference of two, seconds; only for equal nodes.
    pub by_two_s: Option<f64>,
    /// Results of the strategies.
    pub cells: Vec<Cell>,
}

/// The table of a whole experiment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// Name of the scenario.
    pub name: String,
    /// Seed of the first run; each further run takes the next number.
    pub seed: u64,
    /// Number of runs of each row.
    pub runs: u32,
    /// The rows, by job count.
    pub rows: Vec<Row>,
}

/// Runs all rows, and passes each finished row to `done`.
///
/// # Errors
/// A policy setting of the scenario is refused.
pub fn experiment(scenario: &Scenario, seed: u64, mut done: impl FnMut(&Row)) -> Result<Table, ScenarioError> {
    let counts = match scenario.rows.as_slice() {
        [] => vec![scenario.jobs.first().map_or(0, |j| j.count)],
        rows => rows.to_vec(),
    };
    let mut rows = Vec::new();
    for jobs in counts {
        let row = row(&scenario.with_jobs(jobs), jobs, seed)?;
        done(&row);
        rows.push(row);
    }
    Ok(Table { name: scenario.name.clone(), seed, runs: scenario.runs, rows })
}

fn row(scenario: &Scenario, jobs: u32, seed: u64) -> Result<Row, ScenarioError> {
    let seeds: Vec<u64> = (0..u64::from(scenario.runs)).map(|n| seed.wrapping_add(n)).collect();
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let fluid: Vec<f64> = seeds.iter().map(|s| fluid_s(scenario, *s)).collect();
    let by_two: Option<Vec<f64>> = seeds.iter().map(|s| by_two_s(scenario, *s)).collect();
    let mut cells = Vec::new();
    for strategy in &scenario.columns.0 {
        let mut cell = Cell {
            strategy: *strategy,
            makespan_s: 0.0,
            over_fluid: 0.0,
            over_beside: 0.0,
            slowdown: 0.0,
            moves: 0.0,
            swapped_s: 0.0,
            violations: Vec::new(),
        };
        let share = 1.0 / seeds.len() as f64;
        for (seed, fluid_s) in seeds.iter().zip(&fluid) {
            let outcome = run(scenario, *strategy, *seed)?;
            cell.makespan_s += outcome.makespan_s * share;
            cell.over_fluid += outcome.makespan_s / fluid_s.max(1e-9) * share;
            let beside_s = outcome.background_rate.map_or(*fluid_s, |rate| fluid_beside_s(scenario, *seed, rate));
            cell.over_beside += outcome.makespan_s / beside_s.max(1e-9) * share;
            cell.slowdown += outcome.slowdown * share;
            cell.moves += outcome.counts.moves as f64 * share;
            cell.swapped_s += outcome.counts.swapped_s as f64 * share;
            cell.violations.extend(check(scenario, &outcome).into_iter().map(|v| (*seed, v)));
        }
        cells.push(cell);
    }
    Ok(Row { jobs, fluid_s: mean(&fluid), by_two_s: by_two.map(|b| mean(&b)), cells })
}
