//! `cargo xtask dist`: what is installed on machines, and the symbols of it apart.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::tool::{self, Result, tree};

/// Every node needs the first; those who try and measure need the second, too.
const PROGRAMS: [&str; 2] = ["tern", "tern-lab"];
/// The second has a machine waited for that sleeps.
const UNITS: [&str; 2] = ["ternd.service", "tern-sleep.service"];

/// Builds `target/dist`: programs without symbols, `NAME.debug` with them (found by debuggers
/// through a link in the program), and the systemd units.
pub fn run() -> Result<()> {
    let tern = tool::build_release()?;
    let dist = tree().join("target/dist");
    fs::create_dir_all(&dist).map_err(|e| format!("cannot make {}: {e}", dist.display()))?;
    for name in PROGRAMS {
        let (built, program) = (tern.with_file_name(name), dist.join(name));
        separate(&built, &program)?;
        println!("{:>6.1} MB  {}", megabytes(&program), program.display());
    }
    for name in UNITS {
        let unit = dist.join(name);
        let copied = fs::copy(tree().join("dist").join(name), &unit);
        copied.map_err(|e| format!("cannot write {}: {e}", unit.display()))?;
        println!("           {}", unit.display());
    }
    Ok(())
}

fn separate(built: &Path, program: &Path) -> Result<()> {
    let symbols = program.with_extension("debug");
    let link = format!("--add-gnu-debuglink={}", symbols.display());
    tool::run(Command::new("objcopy").arg("--only-keep-debug").arg(built).arg(&symbols))?;
    tool::run(Command::new("objcopy").args(["--strip-all", &link]).arg(built).arg(program))
}

fn megabytes(file: &Path) -> f64 {
    file.metadata().map_or(0.0, |metadata| metadata.len() as f64 / 1e6)
}
