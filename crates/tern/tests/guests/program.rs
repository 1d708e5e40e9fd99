//! The guests' sources: what they say about themselves, and building them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How a guest ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Exit(i32),
    Signal(i32),
}

/// A guest, built.
#[derive(Clone, Debug)]
pub struct Program {
    pub name: String,
    pub binary: PathBuf,
    /// Rows of the system-call table that it is about.
    pub calls: BTreeSet<String>,
    pub end: End,
    /// It runs on a terminal.
    pub terminal: bool,
    /// Its standard input is a file.
    pub reads_file: bool,
}

fn sources(folder: &str) -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guests").join(folder);
    let mut found: Vec<PathBuf> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.extension().is_some_and(|e| e == "c"));
    found.sort();
    found
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().take(5).find_map(|line| line.strip_prefix("// ")?.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

fn end(text: &str) -> End {
    let Some((how, number)) = field(text, "ends").and_then(|ends| ends.split_once(' ')) else { return End::Exit(0) };
    let number = number.parse().unwrap();
    match how {
        "exit" => End::Exit(number),
        "signal" => End::Signal(number),
        other => panic!("a guest cannot end by {other}"),
    }
}

/// Builds what is newer than its binary, on two threads, and returns all.
pub fn build(folder: &str) -> Vec<Program> {
    // One test of this program at a time: the next finds it done.
    static BUILDING: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _building = BUILDING.lock().unwrap();
    let into = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guests").join(folder);
    std::fs::create_dir_all(&into).unwrap();
    let headers = ["guest.h", "attacks/attack.h"]
        .map(|name| modified(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guests").join(name)));
    let programs: Vec<(PathBuf, Program)> = sources(folder).into_iter().map(|source| program(source, &into)).collect();
    let stale = |(source, program): &&(PathBuf, Program)| {
        let built = modified(&program.binary);
        built <= modified(source) || headers.iter().any(|header| built <= *header)
    };
    let todo: Vec<_> = programs.iter().filter(stale).collect();
    std::thread::scope(|scope| {
        for half in todo.chunks(todo.len().div_ceil(2).max(1)) {
            scope.spawn(move || half.iter().for_each(|(source, program)| compile(source, &program.binary)));
        }
    });
    programs.into_iter().map(|(_, program)| program).collect()
}

fn program(source: PathBuf, into: &Path) -> (PathBuf, Program) {
    let text = std::fs::read_to_string(&source).unwrap();
    let name = source.file_stem().unwrap().to_str().unwrap().to_string();
    let calls = field(&text, "calls").unwrap_or_default().split_whitespace().map(String::from).collect();
    let program = Program {
        binary: into.join(&name),
        calls,
        end: end(&text),
        terminal: field(&text, "terminal").is_some(),
        reads_file: field(&text, "input") == Some("file"),
        name,
    };
    (source, program)
}

fn modified(path: &Path) -> Option<std::time::SystemTime> {
    std::fs::metadata(path).and_then(|m| m.modified()).ok()
}

/// Compiles beside the target and renames, so that another test that builds the same never runs
/// half a program.
fn compile(source: &Path, binary: &Path) {
    let part = binary.with_extension(format!("{}.{:?}", std::process::id(), std::thread::current().id()));
    let output = Command::new("cc")
        .args(["-static", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unused-value", "-Wno-nonnull", "-o"])
        .args([&part, source])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}: {}", source.display(), String::from_utf8_lossy(&output.stderr));
    std::fs::rename(part, binary).unwrap();
}
