//! The progress of a soak on standard error: one line that is overwritten on a terminal; elsewhere
//! a line now and then.

use super::report::Report;
use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// The time between two lines, on a terminal and elsewhere.
const OFTEN: Duration = Duration::from_secs(1);
const SELDOM: Duration = Duration::from_secs(30);

/// Shows the progress.
pub struct Display {
    terminal: bool,
    told: Option<Instant>,
}

impl Display {
    /// Creates a display on this program's standard error.
    pub fn new() -> Display {
        Display { terminal: std::io::stderr().is_terminal(), told: None }
    }

    /// Shows which program runs natively now.
    pub fn natively(&mut self, name: &str, number: usize, all: usize) {
        self.tell(&format!("runs {name} natively ({number} of {all})"));
    }

    /// Shows that `gone` of `all` the time has passed, and what runs.
    pub fn running(&mut self, gone: Duration, all: Duration, running: usize, report: &Report) {
        let minutes = |time: Duration| time.as_secs_f64() / 60.0;
        let (gone, all) = (minutes(gone), minutes(all));
        self.tell(&format!("{gone:.1} of {all:.1} min, {running} running, {}", report.counts()));
    }

    fn tell(&mut self, line: &str) {
        let every = if self.terminal { OFTEN } else { SELDOM };
        if self.told.is_some_and(|told| told.elapsed() < every) {
            return;
        }
        self.told = Some(Instant::now());
        match self.terminal {
            // Return to the start of the line, and clear the rest of a longer line (ECMA-48: EL).
            true => eprint!("\r{line}\x1b[K"),
            false => eprintln!("tern soak: {line}"),
        }
        let _ = std::io::stderr().flush();
    }

    /// Clears the line before other output.
    pub fn clear(&self) {
        if self.terminal && self.told.is_some() {
            eprint!("\r\x1b[K");
        }
    }
}
