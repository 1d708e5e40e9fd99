//! The C library (`crates/libtern`): shared with versioned symbols, and static.
//!
//! Programs of this workspace are linked statically and at fixed addresses, which no library can
//! be. So the library is built with flags, and in a directory, of its own. rustc gives a shared
//! library a version script of its own; so rustc makes the static one alone, and the linker the
//! other from it.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::tool::{Result, cargo, run, tree};

/// The name by which programs find the shared library: its number changes when they cannot use a
/// newer one.
const SONAME: &str = "libtern.so.0";
const TRIPLE: &str = "x86_64-unknown-linux-gnu";
const FLAGS: [&str; 2] = ["-Crelocation-model=pic", "-Ctarget-feature=-crt-static"];

/// Builds the library, and puts it with all that belongs to it below `directory`.
pub fn build(directory: &Path) -> Result<()> {
    let target = tree().join("target/library");
    let mut build = cargo();
    build.args(["build", "--release", "--quiet", "--package", "libtern", "--target", TRIPLE, "--target-dir"]);
    build.arg(&target).env_remove("RUSTFLAGS").env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\x1f"));
    run(&mut build)?;
    let made = target.join(TRIPLE).join("release/libtern_c.a");
    let source = tree().join("crates/libtern");
    for part in ["lib/pkgconfig", "include", "share/man/man3"] {
        fs::create_dir_all(directory.join(part)).map_err(|e| format!("cannot make {part}: {e}"))?;
    }
    copy(&made, &directory.join("lib/libtern.a"))?;
    link(&made, &source.join("libtern.map"), &directory.join("lib"))?;
    for header in ["tern.h", "bproc.h"] {
        copy(&source.join("include").join(header), &directory.join("include").join(header))?;
    }
    for page in fs::read_dir(source.join("man")).map_err(|e| format!("cannot list the pages: {e}"))?.flatten() {
        copy(&page.path(), &directory.join("share/man/man3").join(page.file_name()))?;
    }
    write_package(&source.join("tern.pc.in"), directory)
}

fn link(archive: &Path, versions: &Path, into: &Path) -> Result<()> {
    let mut link = Command::new("cc");
    link.args(["-shared", "-o"]).arg(into.join(SONAME)).arg(format!("-Wl,-soname,{SONAME}"));
    link.arg(format!("-Wl,--version-script={}", versions.display())).args(["-Wl,--gc-sections", "-Wl,--whole-archive"]);
    run(link.arg(archive).args(["-Wl,--no-whole-archive", "-lgcc_s", "-lm", "-lc"]))?;
    let name = into.join("libtern.so");
    // There is none the first time.
    let _ = fs::remove_file(&name);
    std::os::unix::fs::symlink(SONAME, &name).map_err(|e| format!("cannot name {}: {e}", name.display()))
}

/// The file by which pkg-config(1) finds the library.
fn write_package(template: &Path, directory: &Path) -> Result<()> {
    let text = fs::read_to_string(template).map_err(|e| format!("cannot read {}: {e}", template.display()))?;
    let prefix = directory.canonicalize().map_err(|e| format!("cannot find {}: {e}", directory.display()))?;
    let text = text.replace("@PREFIX@", &prefix.to_string_lossy()).replace("@VERSION@", env!("CARGO_PKG_VERSION"));
    fs::write(directory.join("lib/pkgconfig/tern.pc"), text).map_err(|e| format!("cannot write tern.pc: {e}"))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).map(drop).map_err(|e| format!("cannot copy {}: {e}", from.display()))
}
