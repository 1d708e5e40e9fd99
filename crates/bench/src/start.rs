//! `tern bench start`: what a placed program and its children cost to start and to end, beside the
//! same natively.

use crate::figures::{Bench, Figure, number};
use crate::run::timed;
use crate::{Error, On};
use std::path::Path;
use std::process::Stdio;

/// Runs all measurements.
pub fn measure(args: &On, run_dir: &Path) -> Result<Vec<Figure>, Error> {
    let mut bench = Bench::new(args, run_dir)?;
    bench.null()?;
    let n = bench.quick_or("50", "1000");
    bench.inner("fork + exit + wait", "us", &["fork", n], 1e3, number(n))?;
    bench.inner("vfork + exec + wait", "us", &["vfork", n], 1e3, number(n))?;
    let samples = bench.quick_or(2, 5);
    let script = "i=0; while [ $i -lt 100 ]; do /bin/true; i=$((i + 1)); done";
    let argv = ["sh", "-c", script].map(str::to_owned);
    bench.compare("a shell that starts 100 programs", "ms", samples, 100.0, |place| {
        Ok(timed(place, &argv, Some(Stdio::null()))?.0 / 1e3)
    })?;
    Ok(bench.figures())
}
