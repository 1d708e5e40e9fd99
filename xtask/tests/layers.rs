//! The map of ARCHITECTURE.md (what depends on what), checked over `cargo metadata` and the
//! sources, and what the project's pages say of its files.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A crate of this workspace: its directory, and its normal and build dependencies.
struct Crate {
    directory: PathBuf,
    dependencies: BTreeSet<String>,
}

fn crates() -> BTreeMap<String, Crate> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["metadata", "--format-version", "1", "--no-deps", "--offline"];
    let output = Command::new(cargo).args(arguments).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let dependencies = |package: &serde_json::Value| {
        let all = package["dependencies"].as_array().unwrap().iter();
        all.filter(|d| d["kind"] != "dev").map(|d| d["name"].as_str().unwrap().to_owned()).collect()
    };
    let packages = metadata["packages"].as_array().unwrap().iter();
    packages
        .map(|package| {
            let manifest = Path::new(package["manifest_path"].as_str().unwrap());
            let directory = manifest.parent().unwrap().to_owned();
            (package["name"].as_str().unwrap().to_owned(), Crate { directory, dependencies: dependencies(package) })
        })
        .collect()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn sources(directory: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut pending = vec![directory.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path, text));
            }
        }
    }
    found
}

/// Everything that a crate reaches inside the workspace.
fn reach<'a>(crates: &'a BTreeMap<String, Crate>, name: &'a str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut pending = vec![name];
    while let Some(name) = pending.pop() {
        for next in crates[name].dependencies.iter().filter(|d| crates.contains_key(*d)) {
            if reached.insert(next.as_str()) {
                pending.push(next);
            }
        }
    }
    reached
}

#[test]
fn pure_crates_do_no_io_and_have_no_unsafe_code() {
    let crates = crates();
    let impure = ["libc", "rustix", "tokio", "os", "link", "node", "rand", "foca", "rustls"];
    let io = [
        "std::fs",
        "TcpStream",
        "TcpListener",
        "UdpSocket",
        "std::process",
        "Instant::now",
        "SystemTime::now",
        "std::thread",
    ];
    for name in ROWS[ROWS.len() - 1].iter().copied() {
        for bad in impure {
            assert!(!crates[name].dependencies.contains(bad), "{name} is pure but depends on {bad}");
        }
        let sources = sources(&crates[name].directory.join("src"));
        let root = sources.iter().find(|(path, _)| path.ends_with("lib.rs")).unwrap();
        assert!(root.1.contains("#![forbid(unsafe_code)]"), "{name} does not forbid unsafe code");
        for (path, text) in &sources {
            let shipped = text.split("#[cfg(test)]").next().unwrap();
            for bad in io {
                assert!(!shipped.contains(bad), "{name} is pure, but {} uses {bad}", path.display());
            }
        }
    }
}

#[test]
fn raw_process_control_is_in_os_alone() {
    // The deputy's own blob and the lab, which stands for machines, are the exceptions.
    let raw = ["libc::ptrace(", "SYS_ptrace", "SYS_seccomp", "PTRACE_SEIZE", "SECCOMP_SET_MODE", "libc::unshare("];
    for (name, part) in crates() {
        if ["os", "lab", "xtask"].contains(&name.as_str()) {
            continue;
        }
        for (path, text) in sources(&part.directory.join("src")) {
            let shipped = text.split("#[cfg(test)]").next().unwrap();
            for bad in raw {
                assert!(!shipped.contains(bad), "{} uses {bad}: that belongs in os", path.display());
            }
        }
    }
}

#[test]
fn the_tool_knows_neither_kernel_nor_daemon() {
    let crates = crates();
    let reached = reach(&crates, "cli");
    assert!(!reached.contains("os") && !reached.contains("node"), "cli reaches {reached:?}");
}

#[test]
fn nothing_depends_on_the_lab_but_the_binary() {
    for (name, part) in crates() {
        assert!(name == "tern" || !part.dependencies.contains("lab"), "{name} depends on lab");
    }
}

/// The rows of the map in ARCHITECTURE.md, from the top. A crate depends on crates of lower rows
/// alone; those of the last row, which are pure, may depend on each other.
const ROWS: [&[&str]; 6] = [
    &["tern"],
    &["node", "cli", "lab", "bench", "netmon", "coscheduler", "libtern"],
    &["home", "room", "dump"],
    &["checkpoint", "link", "homefs", "relay"],
    &["os", "packet", "identity", "deputy-start"],
    &[
        "abi",
        "systable",
        "room-protocol",
        "control-protocol",
        "image",
        "gossip",
        "migration-plan",
        "policy",
        "sim",
        "plot",
        "cosched",
        "jobs",
    ],
];
/// Crates of developers and tests, which are in no row.
const BESIDE: [&str; 2] = ["xtask", "skip"];

#[test]
fn dependencies_go_down_the_map() {
    let crates = crates();
    let row = |name: &str| ROWS.iter().position(|row| row.contains(&name));
    for (name, part) in crates.iter().filter(|(name, _)| !BESIDE.contains(&name.as_str())) {
        let own = row(name).unwrap_or_else(|| panic!("{name} is in no row of the map"));
        for dependency in part.dependencies.iter().filter(|d| crates.contains_key(*d)) {
            let theirs = row(dependency);
            let is_pure = own == ROWS.len() - 1 && theirs == Some(own);
            assert!(is_pure || theirs > Some(own), "{name} depends on {dependency}, which is not below it");
        }
    }
}

#[test]
fn the_map_is_short_and_names_every_crate() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let words = page.split_whitespace().count();
    assert!(words <= 1200, "ARCHITECTURE.md has {words} words");
    let mut names = page.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').collect::<Vec<_>>();
    names.sort_unstable();
    for name in crates().keys() {
        assert!(names.binary_search(&name.as_str()).is_ok(), "ARCHITECTURE.md does not name {name}");
    }
}

#[test]
fn every_invariant_has_a_number_and_names_a_check() {
    let page = fs::read_to_string(root().join("docs/invariants.md")).unwrap();
    let rows = page.lines().filter(|line| line.strip_prefix("| ").is_some_and(|l| l.starts_with(char::is_numeric)));
    let mut numbers = BTreeSet::new();
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [number, _, check] = cells[..] else { panic!("not a number, an invariant and a check: {row}") };
        assert!(numbers.insert(number.parse::<u32>().unwrap()), "used twice: {row}");
        assert!(!check.is_empty(), "no check: {row}");
        let files = check.split('`').filter(|word| word.contains('/') && !word.contains(' '));
        for file in files {
            assert!(root().join(file).exists(), "{file} does not exist: {row}");
        }
    }
    assert!(!numbers.is_empty());
}

/// The project's pages of Markdown, without those about the past.
fn pages() -> Vec<(PathBuf, String)> {
    let mut pending = vec![root().join("docs")];
    let mut paths: Vec<PathBuf> =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|page| root().join(page)).into();
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(directory).unwrap().flatten().map(|entry| entry.path()) {
            match entry.is_dir() {
                true => pending.push(entry),
                false => paths.push(entry),
            }
        }
    }
    paths.retain(|path| path.extension().is_some_and(|e| e == "md") && !path.ends_with("FIGURES.md"));
    paths
        .into_iter()
        .map(|path| {
            let text = fs::read_to_string(&path).unwrap();
            (path, text)
        })
        .collect()
}

/// Links between pages lead to files. Addresses on the network are not looked at.
#[test]
fn links_between_pages_lead_somewhere() {
    for (page, text) in pages() {
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
        for target in targets.filter(|target| !target.contains("://")) {
            let file = target.split('#').next().unwrap();
            assert!(page.parent().unwrap().join(file).exists(), "{}: {target} leads nowhere", page.display());
        }
    }
}

/// A file that is renamed is renamed in the pages, too.
#[test]
fn pages_name_files_that_exist() {
    let places = ["crates/", "guests/", "xtask/", "docs/", "blobs/", "fuzz/", "scenarios/"];
    let mut missing = Vec::new();
    for (page, text) in pages() {
        let names = text.split('`').filter(|word| places.iter().any(|place| word.starts_with(place)));
        // The pages also name files by a pattern.
        for name in names.filter(|name| !name.contains(['*', ' ', '\n']) && !name.contains("NAME")) {
            if !root().join(name).exists() {
                missing.push(format!("{}: {name}", page.display()));
            }
        }
    }
    assert!(missing.is_empty(), "no such files:\n{}", missing.join("\n"));
}

/// Each line of the threat model ends with tests, as `FILE: NAME`, and these exist.
#[test]
fn every_line_of_the_threat_model_names_its_tests() {
    let page = fs::read_to_string(root().join("docs/threat-model.md")).unwrap();
    let sources = sources(&root().join("crates"));
    let is_attacked = |section: &&str| section.contains("| attacked by |");
    let mut count = 0;
    for section in page.split("\n## ").filter(is_attacked) {
        for row in section.lines().filter(|line| line.starts_with("| ")).skip(2) {
            let tests = row.trim_end_matches('|').rsplit('|').next().unwrap();
            let named: Vec<(&str, &str)> = tests.split('`').filter_map(|word| word.split_once(": ")).collect();
            assert!(!named.is_empty(), "no test: {row}");
            for (file, test) in named {
                let holds =
                    |(path, text): &(PathBuf, String)| path.ends_with(file) && text.contains(&format!("fn {test}("));
                assert!(sources.iter().any(holds), "{file} has no {test}: {row}");
                count += 1;
            }
        }
    }
    assert!(count > 0);
}
