//! NodeCoDe over the mean time between arrivals, as a table and as curves (Fig. 6 of the paper).

use std::fmt::Write as _;

use plot::{Curve, svg};
use serde::Serialize;

use crate::model::{Parameters, SimulationError, simulate};
use crate::rule::Mode;

/// The runs of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// Modes to compare.
    pub modes: Vec<Mode>,
    /// Mean times between arrivals, seconds.
    pub mits_s: Vec<f64>,
    /// Probabilities that a task is distributed.
    pub pdts: Vec<f64>,
    /// All other parameters. Its seed is that of the first run.
    pub base: Parameters,
    /// Runs of each point, with consecutive seeds.
    pub runs: u32,
}

impl Default for Experiment {
    /// The points of docs/coscheduling.md, one run each.
    fn default() -> Experiment {
        Experiment {
            modes: Mode::ALL.to_vec(),
            mits_s: vec![0.9, 1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 8.0],
            pdts: vec![0.2, 0.5, 0.8],
            base: Parameters::default(),
            runs: 1,
        }
    }
}

/// NodeCoDe at one point.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct NodeCode {
    /// Mode of the processor.
    pub mode: Mode,
    /// Probability that a task is distributed.
    pub pdt: f64,
    /// Mean time between arrivals, seconds.
    pub mit_s: f64,
    /// Mean over the runs.
    pub node_code: f64,
    /// Standard deviation of one run; 0 if there is only one.
    pub deviation: f64,
    /// Mean time from the arrival of a local task to its end, seconds.
    pub local_response_s: f64,
    /// Mean time from the arrival of a distributed task to its end, seconds.
    pub distributed_response_s: f64,
}

/// NodeCoDe at all points of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeCodeTable {
    /// The parameters that all points share. Its mit and pdt mean nothing, and are not serialized.
    pub base: Parameters,
    /// Runs of each point.
    pub runs: u32,
    /// The points: by pdt, then by mode, then by mit.
    pub points: Vec<NodeCode>,
}

/// Makes all runs of an experiment.
///
/// # Errors
/// A parameter is absurd, or the processor is overloaded at one of the points.
pub fn measure(experiment: &Experiment) -> Result<NodeCodeTable, SimulationError> {
    let mut points = Vec::new();
    for pdt in &experiment.pdts {
        for mode in &experiment.modes {
            for mit_s in &experiment.mits_s {
                let parameters = Parameters { pdt: *pdt, mit_s: *mit_s, ..experiment.base.clone() };
                points.push(measure_point(*mode, parameters, experiment.runs.max(1))?);
            }
        }
    }
    Ok(NodeCodeTable { base: experiment.base.clone(), runs: experiment.runs.max(1), points })
}

fn measure_point(mode: Mode, first: Parameters, runs: u32) -> Result<NodeCode, SimulationError> {
    let (mut codes, mut local_s, mut distributed_s) = (Vec::new(), 0.0, 0.0);
    for run in 0..runs {
        let seed = first.seed.wrapping_add(run.into());
        let outcome = simulate(mode, &Parameters { seed, ..first.clone() })?;
        codes.push(outcome.node_code);
        local_s += outcome.local_response_s;
        distributed_s += outcome.distributed_response_s;
    }
    let count = f64::from(runs);
    let node_code = codes.iter().sum::<f64>() / count;
    let squares: f64 = codes.iter().map(|code| (code - node_code).powi(2)).sum();
    Ok(NodeCode {
        mode,
        pdt: first.pdt,
        mit_s: first.mit_s,
        node_code,
        deviation: (squares / (count - 1.0).max(1.0)).sqrt(),
        local_response_s: local_s / count,
        distributed_response_s: distributed_s / count,
    })
}

impl NodeCodeTable {
    /// Formats a line for each curve, with a column for each mit.
    pub fn text(&self) -> String {
        let curves = self.curves();
        let mut out = format!("{:<15}", "NodeCoDe   mit=");
        for point in curves.first().copied().unwrap_or_default() {
            let _ = write!(out, " {:>6}", point.mit_s);
        }
        for curve in curves {
            let _ = write!(out, "\n{:<15}", name(&curve[0]));
            for point in curve {
                let _ = write!(out, " {:>6.3}", point.node_code);
            }
        }
        out + "\n"
    }

    /// Draws the curves as the paper's Fig. 6.
    pub fn svg(&self) -> String {
        let curve = |points: &[NodeCode]| Curve {
            name: name(&points[0]),
            points: points.iter().map(|point| (point.mit_s, point.node_code)).collect(),
        };
        let curves: Vec<Curve> = self.curves().into_iter().map(curve).collect();
        svg("NodeCoDe (in parentheses: pdt)", "mean time between arrivals (mit)", "NodeCoDe", &curves)
    }

    /// Splits the points into curves: those of one mode and pdt. No curve is empty.
    fn curves(&self) -> Vec<&[NodeCode]> {
        self.points.chunk_by(|a, b| (a.mode, a.pdt.to_bits()) == (b.mode, b.pdt.to_bits())).collect()
    }
}

fn name(point: &NodeCode) -> String {
    format!("{} ({})", point.mode, point.pdt)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Experiment {
        let base = Parameters { nst: 300, ..Parameters::default() };
        Experiment { base, mits_s: vec![1.5, 3.0], runs: 2, ..Experiment::default() }
    }

    #[test]
    fn tables_and_plots_have_all_curves() {
        let table = measure(&small()).unwrap();
        assert_eq!((table.points.len(), table.curves().len()), (18, 9));
        let text = table.text();
        assert_eq!(text.lines().count(), 10);
        assert!(text.starts_with("NodeCoDe   mit=    1.5      3\nIMPLICIT (0.2)   "), "{text}");
        assert!(text.lines().all(|line| line.len() == 29), "{text}");
        let plot = table.svg();
        assert_eq!(plot.matches("<polyline").count(), 9);
        assert!(plot.contains(">SDCA (0.8)<") && !plot.contains("NaN"));
        let none = measure(&Experiment { mits_s: Vec::new(), ..small() }).unwrap();
        assert_eq!(none.text().lines().count(), 1);
        assert!(none.svg().ends_with("</svg>\n"));
    }

    #[test]
    fn runs_are_averaged() {
        let experiment = Experiment { modes: vec![Mode::Sdca], pdts: vec![0.5], mits_s: vec![1.5], ..small() };
        let both = measure(&experiment).unwrap().points[0];
        let run = |seed| simulate(Mode::Sdca, &Parameters { seed, mit_s: 1.5, ..experiment.base.clone() }).unwrap();
        let (first, second) = (run(1).node_code, run(2).node_code);
        assert!((both.node_code - (first + second) / 2.0).abs() < 1e-12 && first != second);
        assert!((both.deviation - (first - second).abs() / 2f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn errors_of_a_point_are_told() {
        let absurd = Experiment { pdts: vec![0.5, f64::NAN], ..small() };
        assert!(measure(&absurd).unwrap_err().to_string().starts_with("pdt is from 0 to 1"));
    }
}
