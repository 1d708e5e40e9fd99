//! Builds the library that programs below `tern make` preload (`blobs/exec-hook`).

#![expect(clippy::expect_used, reason = "a build that cannot go on stops with the reason")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let hook = root.join("../../blobs/exec-hook");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    for watched in ["src", "Cargo.toml"] {
        println!("cargo:rerun-if-changed={}", hook.join(watched).display());
    }
    println!("cargo:rerun-if-changed={}", root.join("../abi/src").display());
    let library = build(&hook, &out.join("hook-target"));
    fs::copy(library, out.join("exec-hook.so")).expect("OUT_DIR is writable");
}

fn build(hook: &Path, target: &Path) -> PathBuf {
    let triple = "x86_64-unknown-linux-gnu";
    // Bound when it is loaded: a child after vfork(2) must not enter the dynamic linker.
    let flags = [
        "-Clinker=rust-lld",
        "-Clinker-flavor=ld.lld",
        "-Clink-self-contained=no",
        "-Crelocation-model=pic",
        "-Ctarget-cpu=x86-64",
        "-Ctarget-feature=-crt-static",
        "-Cpanic=abort",
        "-Clink-arg=--build-id=none",
        "-Clink-arg=-znow",
    ];
    let status = Command::new(env::var_os("CARGO").expect("cargo sets it"))
        .args(["build", "--release", "--quiet", "--target", triple, "--target-dir"])
        .arg(target)
        .current_dir(hook)
        .env_remove("RUSTFLAGS")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"))
        .status()
        .expect("cargo runs");
    assert!(status.success(), "the library for programs below `tern make` does not build");
    target.join(triple).join("release/libexec_hook.so")
}
