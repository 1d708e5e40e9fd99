//! Running cargo and the tern binary.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

/// What went wrong, in words.
pub type Result<T> = std::result::Result<T, String>;

/// The root of this tree.
pub fn tree() -> &'static Path {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own)
}

/// The cargo that runs this.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(tree());
    command
}

/// Runs a command to its end; an error if it did not succeed.
pub fn run(command: &mut Command) -> Result<()> {
    match status(command)? {
        status if status.success() => Ok(()),
        status => Err(format!("{} ended with {status}", words(command))),
    }
}

/// Runs a command to its end.
pub fn status(command: &mut Command) -> Result<ExitStatus> {
    command.status().map_err(|e| format!("cannot run {}: {e}", words(command)))
}

/// Runs a command to its end; its standard output.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command.output().map_err(|e| format!("cannot run {}: {e}", words(command)))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => {
            let errors = String::from_utf8_lossy(&output.stderr);
            Err(format!("{} ended with {}: {}", words(command), output.status, errors.trim()))
        }
    }
}

/// A command as it would be typed.
pub fn words(command: &Command) -> String {
    let all = std::iter::once(command.get_program()).chain(command.get_args());
    all.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// Builds the optimised tern; its path.
pub fn build_release() -> Result<PathBuf> {
    let built = cargo()
        .args(["build", "--release", "--package", "tern", "--message-format", "json-render-diagnostics"])
        .stderr(std::process::Stdio::inherit())
        .output()
        .map_err(|e| format!("cannot run cargo build: {e}"))?;
    if !built.status.success() {
        return Err("tern does not build".into());
    }
    executables(&built.stdout)
        .into_iter()
        .find(|target| target.name == "tern" && target.kind == "bin")
        .map(|target| target.path)
        .ok_or_else(|| "cargo built tern but did not say where".into())
}

/// `tern lab ARGS`; its exit status is passed on.
pub fn pass_on(tern: &Path, arguments: &[&str]) -> Result<()> {
    let ended = status(Command::new(tern).arg("lab").args(arguments))?;
    std::process::exit(ended.code().unwrap_or(1))
}

/// A program that cargo has built.
#[derive(Debug, PartialEq, Eq)]
pub struct Executable {
    /// Directory of its package.
    pub package: PathBuf,
    /// Name of the target.
    pub name: String,
    /// `lib`, `bin`, `test`...
    pub kind: String,
    /// It is a test program.
    pub test: bool,
    /// The path of the program.
    pub path: PathBuf,
}

/// Programs in the output of `cargo --message-format json`.
pub fn executables(messages: &[u8]) -> Vec<Executable> {
    let lines = messages.split(|b| *b == b'\n').filter_map(|l| serde_json::from_slice::<serde_json::Value>(l).ok());
    lines
        .filter_map(|message| {
            let manifest = Path::new(message["manifest_path"].as_str()?);
            Some(Executable {
                package: manifest.parent()?.to_owned(),
                name: message["target"]["name"].as_str()?.into(),
                kind: message["target"]["kind"][0].as_str()?.into(),
                test: message["profile"]["test"].as_bool()?,
                path: message["executable"].as_str()?.into(),
            })
        })
        .collect()
}
