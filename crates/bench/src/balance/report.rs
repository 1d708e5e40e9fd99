//! Results of runs as lines, tables and plots.

use super::Outcome;
use sim::{Curve, svg};
use std::collections::BTreeSet;
use std::fmt::Write as _;

const ORDER: [&str; 6] = ["tern", "static", "refined", "moved", "opportunity", "pvm"];

/// Formats one run.
pub fn line(outcome: &Outcome) -> String {
    let Outcome { jobs, column, seed, makespan_s, core_speed, fluid_s, moves, .. } = outcome;
    let mut line = format!(
        "{jobs} jobs, {column}, seed {seed}: {makespan_s:.1} s, perfect sharing {fluid_s:.1} s, {moves} moves, cores at {:.1} %",
        core_speed * 100.0
    );
    let [starts_s, sharing_s, ends_s] = excess(outcome);
    let _ = write!(
        line,
        "; beyond it: {starts_s:+.1} s of starts, {sharing_s:+.1} s of sharing and moves, {ends_s:+.1} s of ends"
    );
    if let Some(mib) = outcome.least_free_mib {
        let _ = write!(line, ", {} killed, {mib} MiB free at least", outcome.killed);
    }
    line
}

/// Computes the time of a run beyond perfect sharing: because jobs began late, during their
/// computation, and until the end of the last one was known.
fn excess(outcome: &Outcome) -> [f64; 3] {
    let Outcome { makespan_s, fluid_s, begun_fluid_s, ending_s, .. } = *outcome;
    // Results of earlier versions do not tell when jobs began.
    let begun_fluid_s = if begun_fluid_s > 0.0 { begun_fluid_s } else { fluid_s };
    [begun_fluid_s - fluid_s, makespan_s - ending_s - begun_fluid_s, ending_s]
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    if count > 0.0 { sum / count } else { 0.0 }
}

fn rows(outcomes: &[Outcome]) -> BTreeSet<u32> {
    outcomes.iter().map(|o| o.jobs).collect()
}

fn columns(outcomes: &[Outcome]) -> Vec<&str> {
    let mut columns: Vec<&str> = outcomes.iter().map(|o| o.column.as_str()).collect();
    columns.sort_unstable_by_key(|column| (ORDER.iter().position(|known| column.starts_with(known)), *column));
    columns.dedup();
    columns
}

fn of<'a>(outcomes: &'a [Outcome], jobs: u32, column: &'a str) -> impl Iterator<Item = &'a Outcome> + Clone {
    outcomes.iter().filter(move |o| o.jobs == jobs && o.column == column)
}

/// Formats the means over the runs, and over the rows.
pub fn table(outcomes: &[Outcome]) -> String {
    let mut text =
        format!("{:>5} {:>9} {:>9}  columns: seconds (over perfect sharing, moves)\n", "jobs", "perfect", "by two");
    for jobs in rows(outcomes) {
        let row = || outcomes.iter().filter(|o| o.jobs == jobs);
        let by_two = row().map(|o| o.by_two_s).collect::<Option<Vec<_>>>();
        let by_two = by_two.map_or("-".to_owned(), |s| format!("{:.1}", mean(s.into_iter())));
        let _ = write!(text, "{jobs:>5} {:>9.1} {by_two:>9}", mean(row().map(|o| o.fluid_s)));
        for column in columns(outcomes) {
            let runs = of(outcomes, jobs, column);
            if runs.clone().next().is_none() {
                continue;
            }
            let over = (mean(runs.clone().map(|o| o.makespan_s / o.fluid_s)) - 1.0) * 100.0;
            let (seconds, moves) =
                (mean(runs.clone().map(|o| o.makespan_s)), mean(runs.clone().map(|o| o.moves as f64)));
            let _ = write!(text, "  {column} {seconds:.1} ({over:+.1} %, {moves:.1})");
            if let Some(mib) = runs.clone().filter_map(|o| o.least_free_mib).min() {
                let _ = write!(text, " [{} killed, {mib} MiB free]", runs.map(|o| o.killed).sum::<usize>());
            }
        }
        text.push('\n');
    }
    for column in columns(outcomes) {
        let over: Vec<f64> = rows(outcomes)
            .into_iter()
            .filter(|jobs| of(outcomes, *jobs, column).next().is_some())
            .map(|jobs| (mean(of(outcomes, jobs, column).map(|o| o.makespan_s / o.fluid_s)) - 1.0) * 100.0)
            .collect();
        let parts = |part: usize| {
            let runs = outcomes.iter().filter(|o| o.column == column);
            mean(runs.map(|o| excess(o)[part] / o.fluid_s)) * 100.0
        };
        let worst = over.iter().copied().fold(f64::MIN, f64::max);
        let mean = mean(over.into_iter());
        let _ = writeln!(
            text,
            "{column}: on average {mean:+.1} % over perfect sharing, {worst:+.1} % at most; of all runs {:+.1} % for starts, {:+.1} % for sharing and moves, {:+.1} % for ends",
            parts(0),
            parts(1),
            parts(2)
        );
        let runs = outcomes.iter().filter(|o| o.column == column);
        if let Some(over) = runs.map(|o| Some(o.makespan_s / o.by_two_s?)).collect::<Option<Vec<_>>>() {
            let over = (self::mean(over.into_iter()) - 1.0) * 100.0;
            let _ = writeln!(
                text,
                "{column}: on average {over:+.1} % over moving at a difference of two, the optimum of the paper's Table 1"
            );
        }
    }
    text
}

/// Draws all columns and their bounds.
pub fn plot(name: &str, outcomes: &[Outcome]) -> String {
    let curve = |name: &str, value: &dyn Fn(u32) -> Option<f64>| Curve {
        name: name.to_owned(),
        points: rows(outcomes).into_iter().filter_map(|jobs| Some((f64::from(jobs), value(jobs)?))).collect(),
    };
    let row = |jobs: u32| outcomes.iter().filter(move |o| o.jobs == jobs);
    let mut curves = vec![curve("perfect sharing", &|jobs| Some(mean(row(jobs).map(|o| o.fluid_s))))];
    if outcomes.iter().all(|o| o.by_two_s.is_some()) {
        curves.push(curve("by two", &|jobs| Some(mean(row(jobs).filter_map(|o| o.by_two_s)))));
    }
    for column in columns(outcomes) {
        let makespan = |jobs| {
            let runs = of(outcomes, jobs, column);
            runs.clone().next().map(|_| mean(runs.map(|o| o.makespan_s)))
        };
        curves.push(curve(column, &makespan));
    }
    svg(&format!("{name}, real processes"), "jobs", "time until the last has ended, s", &curves)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(jobs: u32, column: &str, makespan_s: f64) -> Outcome {
        Outcome { jobs, column: column.into(), makespan_s, fluid_s: 100.0, ..Outcome::default() }
    }

    #[test]
    fn means_over_runs_and_rows() {
        let late = Outcome { begun_fluid_s: 104.0, ending_s: 1.0, ..outcome(8, "tern", 110.0) };
        assert_eq!(excess(&late), [4.0, 5.0, 1.0]);
        assert!(
            line(&late).contains("+4.0 s of starts, +5.0 s of sharing and moves, +1.0 s of ends"),
            "{}",
            line(&late)
        );
        let outcomes = [
            outcome(8, "tern", 101.0),
            outcome(8, "tern", 103.0),
            outcome(16, "tern", 110.0),
            outcome(8, "static", 200.0),
        ];
        let text = table(&outcomes);
        assert!(text.contains("tern 102.0 (+2.0 %, 0.0)"), "{text}");
        assert!(text.contains("tern: on average +6.0 % over perfect sharing, +10.0 % at most"), "{text}");
        assert!(text.contains("static: on average +100.0 %"), "{text}");
        let plot = plot("x", &outcomes);
        assert!(plot.contains("static") && plot.contains("perfect sharing") && !plot.contains("by two"));
    }
}
