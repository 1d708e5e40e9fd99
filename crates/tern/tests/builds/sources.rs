//! Sources of programs, as Debian has them.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::common::is_installed;

/// Where the system names its packages' sources.
const LISTED: &str = "/etc/apt/sources.list.d/debian.sources";

/// Gives the upstream archive of a Debian source package. It is fetched once. `None`, with a word,
/// if that cannot be done here.
pub fn archive(package: &str) -> Option<PathBuf> {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sources").join(package);
    let found = || {
        let entries = std::fs::read_dir(&directory).ok()?.flatten().map(|entry| entry.path());
        entries.into_iter().find(|path| path.to_string_lossy().contains(".orig.tar."))
    };
    if let Some(archive) = found() {
        return Some(archive);
    }
    if !is_installed("apt-get") || !Path::new(LISTED).exists() {
        skip::test("sources come by apt-get from what debian.sources names");
        return None;
    }
    let parts = tempfile::tempdir().unwrap();
    if !fetched(parts.path(), package) {
        skip::test(format_args!("the source of {package} cannot be fetched"));
        return None;
    }
    std::fs::create_dir_all(directory.parent().unwrap()).unwrap();
    // Another test may have been quicker.
    let _ = Command::new("cp").arg("-rT").arg(parts.path().join("got")).arg(&directory).status();
    found()
}

/// Fetches the source, with lists of its own.
fn fetched(parts: &Path, package: &str) -> bool {
    let text = std::fs::read_to_string(LISTED).unwrap().replace("Types: deb\n", "Types: deb-src\n");
    std::fs::write(parts.join("list.sources"), text).unwrap();
    for directory in ["lists/partial", "cache/archives/partial", "got"] {
        std::fs::create_dir_all(parts.join(directory)).unwrap();
    }
    let option = |name: &str, value: &str| format!("{name}={}", parts.join(value).display());
    let options = [
        option("Dir::Etc::sourcelist", "list.sources"),
        "Dir::Etc::sourceparts=/dev/null".into(),
        option("Dir::State::lists", "lists"),
        option("Dir::Cache", "cache"),
        "APT::Sandbox::User=root".into(),
    ];
    [&["update"][..], &["source", "--download-only", package]].into_iter().all(|words| {
        let mut command = Command::new("apt-get");
        command.arg("-qq").args(options.iter().flat_map(|option| ["-o", option])).args(words);
        command.current_dir(parts.join("got")).status().is_ok_and(|status| status.success())
    })
}
