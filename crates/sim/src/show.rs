//! Results as tables and plots.

use std::fmt::Write as _;

use crate::{Cell, Curve, Row, Strategy, Table, svg};

impl Strategy {
    /// Gives the name for tables and plots.
    pub fn name(self) -> &'static str {
        match self {
            Strategy::Tern => "tern",
            Strategy::Static => "static",
            Strategy::Refined => "refined",
            Strategy::Moved => "moved",
            Strategy::Opportunity => "opportunity",
        }
    }
}

impl Table {
    /// Formats the header of [`line`](Row::line).
    pub fn header(strategies: &[Strategy]) -> String {
        let mut out = format!("{:>5} {:>9} {:>9}", "jobs", "fluid s", "by two s");
        for strategy in strategies {
            let _ = write!(out, " {:>11} s {:>7} {:>6}", strategy.name(), "%fluid", "moves");
        }
        out
    }

    /// Formats the means over the rows.
    pub fn summary(&self) -> String {
        let Some(first) = self.rows.first() else { return String::new() };
        let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len().max(1) as f64;
        let percent = |over: f64| (over - 1.0) * 100.0;
        let mut out = String::new();
        for (at, cell) in first.cells.iter().enumerate() {
            let all = |over: fn(&Cell) -> f64| -> (f64, f64) {
                let values: Vec<f64> = self.rows.iter().map(|r| percent(over(&r.cells[at]))).collect();
                let worst = values.iter().copied().fold(f64::MIN, f64::max);
                (mean(values), worst)
            };
            let (over, worst) = all(|c| c.over_fluid);
            let _ = writeln!(
                out,
                "{:<12} on average {over:.1}% over the fluid bound, {worst:.1}% at most",
                cell.strategy.name()
            );
            let (beside, worst) = all(|c| c.over_beside);
            if (beside - over).abs() > 0.05 {
                let _ = writeln!(
                    out,
                    "{:<12} on average {beside:.1}%, {worst:.1}% at most, over the bound that leaves the background what it got",
                    ""
                );
            }
        }
        out
    }

    /// Draws a plot of all columns and the fluid bound.
    pub fn plot(&self) -> String {
        let curve = |name: &str, value: &dyn Fn(&Row) -> f64| Curve {
            name: name.to_owned(),
            points: self.rows.iter().map(|r| (f64::from(r.jobs), value(r))).collect(),
        };
        let mut curves = vec![curve("fluid bound", &|r| r.fluid_s)];
        if self.rows.iter().all(|r| r.by_two_s.is_some()) {
            curves.push(curve("by two", &|r| r.by_two_s.unwrap_or_default()));
        }
        for (at, cell) in self.rows.first().map_or(&[][..], |r| &r.cells).iter().enumerate() {
            curves.push(curve(cell.strategy.name(), &|r| r.cells[at].makespan_s));
        }
        svg(&self.name, "jobs", "time until the last has ended, s", &curves)
    }
}

impl Row {
    /// Formats the row as a line of the table.
    pub fn line(&self) -> String {
        let by_two = self.by_two_s.map_or_else(|| "-".to_owned(), |s| format!("{s:.1}"));
        let mut out = format!("{:>5} {:>9.1} {by_two:>9}", self.jobs, self.fluid_s);
        for cell in &self.cells {
            let over = (cell.over_fluid - 1.0) * 100.0;
            let _ = write!(out, " {:>13.1} {over:>7.1} {:>6.0}", cell.makespan_s, cell.moves);
        }
        out
    }
}
