//! The figures side by side, as ratios to `none`.

use super::{Measured, Row};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Formats all that was measured.
pub fn text(all: &[Measured]) -> String {
    let rows: Vec<&Row> = all.iter().filter_map(Measured::job).collect();
    let mut text = jobs(&rows) + "\n" + &compilers(&rows);
    for one in all {
        if let Measured::Costs(costs) = one {
            let _ = writeln!(
                text,
                "\nW {:.1} us, S_sig {:.1} us: T_ex = 4W + S_sig = {:.1} us (measured: {}), T_im = 2W = {:.1} us",
                costs.switch_us,
                costs.signal_us,
                costs.explicit_us,
                costs.measured_explicit_us.map_or_else(|| "no switch".into(), |us| format!("{us:.0} us")),
                costs.implicit_us
            );
        }
    }
    let _ = writeln!(
        text,
        "\n{:<12} {:>5} {:>10} {:>8} {:>8} {:>11}   interactive program, ms",
        "beside", "jobs", "median", "p95", "p99", "longest"
    );
    for one in all {
        if let Measured::Response(response) = one {
            let early = if response.ended > 0 { "   (a job ended before it)" } else { "" };
            let _ = writeln!(
                text,
                "{:<12} {:>5} {:>10.2} {:>8.2} {:>8.2} {:>11.2}{early}",
                response.beside,
                response.jobs,
                response.median_ms,
                response.p95_ms,
                response.p99_ms,
                response.longest_ms
            );
        }
    }
    text
}

fn modes(rows: &[&Row]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    rows.iter().map(|row| row.mode.clone()).filter(|mode| seen.insert(mode.clone())).collect()
}

fn heading(name: &str, modes: &[String]) -> String {
    let others: String = modes.iter().skip(1).map(|mode| format!(" {mode:>8}")).collect();
    format!("{name:<14} {:>5} {:>8}{others}", "local", "none, s")
}

/// Groups rows of one program and load.
fn groups<'a, 'b>(rows: &'a [&'b Row]) -> impl Iterator<Item = &'a [&'b Row]> {
    rows.chunk_by(|a, b| (&a.program, a.local_load) == (&b.program, b.local_load))
}

/// The time of jobs (Figs 4 and 5): seconds in `none`, and the other modes as ratios.
fn jobs(rows: &[&Row]) -> String {
    let modes = modes(rows);
    let mut text = heading("job", &modes);
    for group in groups(rows) {
        let _ = write!(text, "\n{:<14} {:>5} {:>8.3}", group[0].program, group[0].local_load, group[0].seconds);
        for mode in modes.iter().skip(1) {
            let of = group.iter().find(|row| row.mode == *mode).map_or(f64::NAN, |row| row.seconds);
            let _ = write!(text, " {:>8.2}", of / group[0].seconds);
        }
    }
    text + "\n"
}

/// The slow-down of a compilation beside a job (Table 3), percent of its time beside the same job
/// in `none`.
fn compilers(rows: &[&Row]) -> String {
    let modes = modes(rows);
    let mut text = heading("compilation", &modes);
    for group in groups(rows).filter(|group| group[0].compile_s.is_some()) {
        let none_s = group[0].compile_s.unwrap_or(f64::NAN);
        let _ = write!(text, "\n{:<14} {:>5} {none_s:>8.3}", group[0].program, group[0].local_load);
        for mode in modes.iter().skip(1) {
            let of = group.iter().find(|row| row.mode == *mode).and_then(|row| row.compile_s);
            let percent = of.map_or_else(|| "-".into(), |of| format!("{:.0}%", (of / none_s - 1.0) * 100.0));
            let _ = write!(text, " {percent:>8}");
        }
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(mode: &str, seconds: f64, compile_s: Option<f64>) -> Measured {
        let (program, mode) = ("mg S".to_owned(), mode.to_owned());
        Measured::Job(Row { program, mode, local_load: 1, seconds, compile_s, compiles: 1 })
    }

    #[test]
    fn modes_are_ratios_and_slow_downs() {
        let text = text(&[row("none", 2.0, Some(0.5)), row("prio", 1.0, Some(0.75)), row("mxi", 3.0, None)]);
        let line = |number: usize| text.lines().nth(number).unwrap().split_whitespace().collect::<Vec<_>>();
        assert_eq!(line(1), ["mg", "S", "1", "2.000", "0.50", "1.50"]);
        assert_eq!(line(4), ["mg", "S", "1", "0.500", "50%", "-"]);
    }
}
