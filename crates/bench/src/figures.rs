//! The figures of a benchmark: each measured natively and placed, in turn.

use crate::run::{Where, guest};
use crate::stats::median_and_least;
use crate::wire::{PerRepetition, Traffic, tally};
use crate::{Error, On};
use serde::Serialize;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// One line of the result.
#[derive(Debug, Serialize)]
pub struct Figure {
    name: &'static str,
    unit: &'static str,
    native: f64,
    placed: f64,
    /// The least of the samples, for figures that vary.
    native_least: f64,
    placed_least: f64,
    ratio: f64,
    /// Frames and bytes on the wire for each repetition of the placed run.
    frames: f64,
    wire_bytes: f64,
}

/// A benchmark under way.
pub struct Bench<'a> {
    pub args: &'a On,
    pub run_dir: &'a Path,
    /// Directory for the benchmark's files, removed with this value.
    pub dir: PathBuf,
    pub on: Where,
    figures: Vec<Figure>,
}

impl Drop for Bench<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

impl<'a> Bench<'a> {
    pub fn new(args: &'a On, run_dir: &'a Path) -> Result<Bench<'a>, Error> {
        let dir = args.dir.join(format!("tern-bench-{}", std::process::id()));
        fs::create_dir_all(&dir).map_err(Error::system(format!("making {}", dir.display())))?;
        Ok(Bench { args, run_dir, dir, on: Where::On(args.on.clone()), figures: Vec::new() })
    }

    /// Gives the figures that were measured.
    pub fn figures(mut self) -> Vec<Figure> {
        std::mem::take(&mut self.figures)
    }

    /// Chooses the smaller number for a quick run.
    pub fn quick_or<T>(&self, quick: T, whole: T) -> T {
        if self.args.quick { quick } else { whole }
    }

    /// Measures natively and placed in turn, so that other work on the machine affects both.
    pub fn compare(
        &mut self,
        name: &'static str,
        unit: &'static str,
        samples: u32,
        per: f64,
        mut f: impl FnMut(&Where) -> Result<f64, Error>,
    ) -> Result<(), Error> {
        f(&self.on)?;
        let (mut native, mut placed, mut wire) = (Vec::new(), Vec::new(), Traffic::default());
        for _ in 0..samples {
            native.push(f(&Where::Native)?);
            let before = tally(self.run_dir);
            placed.push(f(&self.on)?);
            let more = tally(self.run_dir).since(&before);
            wire = Traffic { frames: wire.frames + more.frames, bytes: wire.bytes + more.bytes };
        }
        self.push(name, unit, &native, &placed, wire.over(f64::from(samples) * per));
        Ok(())
    }

    pub fn push(
        &mut self,
        name: &'static str,
        unit: &'static str,
        native: &[f64],
        placed: &[f64],
        wire: PerRepetition,
    ) {
        let ((native, native_least), (placed, placed_least)) = (median_and_least(native), median_and_least(placed));
        self.figures.push(Figure {
            name,
            unit,
            native,
            placed,
            native_least,
            placed_least,
            ratio: placed / native,
            frames: wire.frames,
            wire_bytes: wire.bytes,
        });
    }

    /// Measures what a guest of this program reports.
    pub fn inner(
        &mut self,
        name: &'static str,
        unit: &'static str,
        words: &[&str],
        scale: f64,
        repetitions: f64,
    ) -> Result<(), Error> {
        let samples = if self.args.quick { 3 } else { 7 };
        self.compare(name, unit, samples, repetitions, |place| Ok(guest(place, words, None)? / scale))
    }

    pub fn write_file(&self, name: &str, bytes: &[u8]) -> Result<String, Error> {
        let path = self.dir.join(name);
        fs::write(&path, bytes).map_err(Error::system(format!("writing {}", path.display())))?;
        Ok(path.display().to_string())
    }
}

/// Reads a guest's argument as a number of repetitions.
pub fn number(text: &str) -> f64 {
    text.parse().unwrap_or(1.0)
}

/// Formats figures as a table or as JSON.
pub fn shown(figures: &[Figure], as_json: bool) -> String {
    if as_json { json(figures) } else { table(figures) }
}

/// Formats a measurement as JSON.
pub fn json<T: Serialize + ?Sized>(measured: &T) -> String {
    serde_json::to_string_pretty(measured).map(|text| text + "\n").unwrap_or_default()
}

fn table(figures: &[Figure]) -> String {
    let mut text =
        format!("{:<38} {:>12} {:>12} {:>7}  {:>9} {:>12}\n", "", "native", "placed", "ratio", "frames", "wire bytes");
    for f in figures {
        let _ = writeln!(
            text,
            "{:<38} {:>12} {:>12} {:>7.2}  {:>9.1} {:>12.0}",
            format!("{}, {}", f.name, f.unit),
            short(f.native),
            short(f.placed),
            f.ratio,
            f.frames,
            f.wire_bytes
        );
    }
    text
}

fn short(value: f64) -> String {
    if value < 100.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}
