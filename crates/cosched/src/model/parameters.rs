//! Parameters of a simulated processor and its tasks.

use serde::Serialize;

use crate::rule::{ArrivalRule, Mode};

/// The parameters of the paper, and those that it leaves open. Times are in seconds, the unit of
/// the paper's axes, in which a task computes for 0.9 on average.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Parameters {
    /// Mean time between arrivals of tasks ("mit"), seconds. Each point of a table has its own.
    #[serde(skip_serializing)]
    pub mit_s: f64,
    /// Mean time that a task computes ("mst"), seconds.
    pub mst_s: f64,
    /// Number of tasks to serve ("nst").
    pub nst: u32,
    /// Probability that a task is distributed ("pdt"). Each point of a table has its own.
    #[serde(skip_serializing)]
    pub pdt: f64,
    /// The most messages that a distributed task receives ("mm").
    pub mm: u32,
    /// Time for which a receiver spins under IMPLICIT, seconds.
    pub spin_s: f64,
    /// Difference of CPU time that DYNAMIC wants, seconds.
    pub share_s: f64,
    /// Time slice of the round robin, seconds.
    pub quantum_s: f64,
    /// How often a task may be overtaken under SDCA until it runs ("MO").
    pub most_overtakes: u32,
    /// Mean time between the messages of a task that receives `k`, in units of `mst / (k + 1)`.
    pub gap: f64,
    /// Seed of the arrivals. The same seed gives all modes the same tasks and messages.
    pub seed: u64,
}

impl Default for Parameters {
    /// The paper's values, and the readings of docs/coscheduling.md.
    fn default() -> Parameters {
        Parameters {
            mit_s: 1.0,
            mst_s: 0.9,
            nst: 10_000,
            pdt: 0.5,
            mm: 5,
            spin_s: 0.01,
            share_s: 0.1,
            quantum_s: 0.1,
            most_overtakes: 5,
            gap: 1.0,
            seed: 1,
        }
    }
}

/// A parameter that no processor can have, or that would keep the simulator busy for days.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("{name} is from {least} to {most}, not {value}")]
pub struct ParameterError {
    /// Name of the parameter.
    pub name: &'static str,
    /// Its least value.
    pub least: f64,
    /// Its greatest value.
    pub most: f64,
    /// The value that was given.
    pub value: f64,
}

impl Parameters {
    /// Checks all parameters.
    ///
    /// # Errors
    /// One is out of bounds.
    pub fn check(&self) -> Result<(), ParameterError> {
        within(Bound { name: "mst", least: 0.001, most: 1000.0 }, self.mst_s)?;
        // Rounded, so that a bound that is told can be given.
        let times_mst = |factor: f64| (self.mst_s * factor * 1e9).round() / 1e9;
        let of_mst = |name, least, most| Bound { name, least: times_mst(least), most: times_mst(most) };
        within(of_mst("mit", 0.1, 1e4), self.mit_s)?;
        within(Bound { name: "nst", least: 1.0, most: 1e6 }, self.nst.into())?;
        within(Bound { name: "pdt", least: 0.0, most: 1.0 }, self.pdt)?;
        within(Bound { name: "mm", least: 0.0, most: 1000.0 }, self.mm.into())?;
        within(of_mst("spin", 0.0, 1e4), self.spin_s)?;
        within(of_mst("share", 0.0, 1e6), self.share_s)?;
        within(of_mst("quantum", 1e-3, 1e6), self.quantum_s)?;
        within(Bound { name: "gap", least: 0.0, most: 1e4 }, self.gap)
    }

    /// Gives the rule that a mode applies to arrivals.
    pub fn rule(&self, mode: Mode) -> ArrivalRule {
        match mode {
            Mode::Implicit => ArrivalRule::Keep,
            Mode::Dynamic => ArrivalRule::Share { share_us: to_us(self.share_s) },
            Mode::Sdca => ArrivalRule::Climb { most_overtakes: self.most_overtakes },
        }
    }

    /// Gives the time for which a receiver spins, microseconds.
    pub(crate) fn spin_us(&self, mode: Mode) -> u64 {
        if mode == Mode::Implicit { to_us(self.spin_s) } else { 0 }
    }
}

/// The values that a parameter may have.
struct Bound {
    name: &'static str,
    least: f64,
    most: f64,
}

fn within(bound: Bound, value: f64) -> Result<(), ParameterError> {
    let Bound { name, least, most } = bound;
    if (least..=most).contains(&value) { Ok(()) } else { Err(ParameterError { name, least, most, value }) }
}

/// Converts seconds to microseconds.
pub(crate) fn to_us(time_s: f64) -> u64 {
    (time_s * 1e6).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absurd_parameters_are_refused_by_name() {
        assert_eq!(Parameters::default().check(), Ok(()));
        type Change = fn(&mut Parameters, f64);
        let parameters: [(&str, Change); 7] = [
            ("mit", |p, v| p.mit_s = v),
            ("mst", |p, v| p.mst_s = v),
            ("pdt", |p, v| p.pdt = v),
            ("spin", |p, v| p.spin_s = v),
            ("share", |p, v| p.share_s = v),
            ("quantum", |p, v| p.quantum_s = v),
            ("gap", |p, v| p.gap = v),
        ];
        for (name, set) in parameters {
            for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, f64::MAX] {
                let mut absurd = Parameters::default();
                set(&mut absurd, value);
                assert_eq!(absurd.check().map_err(|e| e.name), Err(name), "{value}");
            }
        }
        let none = Parameters { nst: 0, ..Parameters::default() };
        assert_eq!(none.check().unwrap_err().to_string(), "nst is from 1 to 1000000, not 0");
        assert!(Parameters { mm: 1001, ..Parameters::default() }.check().is_err());
    }
}
