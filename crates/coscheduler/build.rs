//! Builds the library that tasks of a coscheduled job preload (`blobs/cosched-hook`).

#![expect(clippy::expect_used, reason = "a build that cannot go on stops with the reason")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let hook = root.join("../../blobs/cosched-hook");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    for watched in ["src", "Cargo.toml"] {
        println!("cargo:rerun-if-changed={}", hook.join(watched).display());
    }
    let library = build(&hook, &out.join("hook-target"));
    fs::copy(library, out.join("cosched-hook.so")).expect("OUT_DIR is writable");
}

fn build(hook: &Path, target: &Path) -> PathBuf {
    let triple = "x86_64-unknown-linux-gnu";
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
    assert!(status.success(), "the library for coscheduled tasks does not build");
    target.join(triple).join("release/libcosched_hook.so")
}
