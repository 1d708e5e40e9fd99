//! Fuzz targets, each for a bounded time.

use crate::tool::{self, Result, tree};
use std::process::{Command, Stdio};

/// Where the flags of `.cargo/config.toml` do not hold: sanitizers and coverage want none of them.
/// cargo-fuzz sets its own.
const HOST: &str = "x86_64-unknown-linux-gnu";
/// Of one input, before the target counts as hanging.
const TIMEOUT_S: u32 = 20;

/// The targets, by the files of `fuzz/fuzz_targets`.
fn targets() -> Vec<String> {
    let entries = std::fs::read_dir(tree().join("fuzz/fuzz_targets")).into_iter().flatten().flatten();
    let mut all: Vec<String> =
        entries.filter_map(|e| Some(e.path().file_stem()?.to_string_lossy().into_owned())).collect();
    all.sort();
    all
}

fn fuzz(words: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    // The nightly compiler is not the one that runs this.
    command.current_dir(tree().join("fuzz")).env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
    command.args(["+nightly", "fuzz"]).args(words);
    command
}

/// `cargo xtask fuzz [TARGET] [SECONDS]`: one target, or all of them one after the other.
///
/// # Errors
/// A target found something; cargo-fuzz says where its input lies.
pub fn run(target: Option<&str>, seconds: &str) -> Result<()> {
    let seconds: u32 = seconds.parse().map_err(|_| format!("{seconds} is no number of seconds"))?;
    let all = targets();
    let chosen: Vec<&String> = all.iter().filter(|name| target.is_none_or(|wanted| wanted == *name)).collect();
    if chosen.is_empty() {
        return Err(format!("no such target; there are: {}", all.join(", ")));
    }
    let installed = fuzz(&["--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !installed.is_ok_and(|status| status.success()) {
        tool::run(Command::new("cargo").args(["+nightly", "install", "cargo-fuzz"]).env_remove("RUSTUP_TOOLCHAIN"))?;
    }
    let (time, timeout) = (format!("-max_total_time={seconds}"), format!("-timeout={TIMEOUT_S}"));
    // Rust checks its own memory; what is unsafe here makes system calls, which the sanitizers do
    // not see.
    let run = |name: &String| {
        tool::run(&mut fuzz(&["run", "--sanitizer", "none", "--target", HOST, name, "--", &time, &timeout]))
    };
    chosen.into_iter().try_for_each(run)
}
