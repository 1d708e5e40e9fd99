//! Builds the deputy blob (`blobs/deputy`) and turns it into a flat image.

#![expect(clippy::expect_used, reason = "a build that cannot go on stops with the reason")]

use object::{Object, ObjectSection};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let blob = root.join("../../blobs/deputy");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    for watched in ["src", "Cargo.toml", "blob.ld"] {
        println!("cargo:rerun-if-changed={}", blob.join(watched).display());
    }
    println!("cargo:rerun-if-changed={}", root.join("../abi/src").display());
    let elf = build(&blob, &out.join("blob-target"));
    fs::write(out.join("deputy.bin"), flatten(&fs::read(&elf).expect("the blob was built")))
        .expect("OUT_DIR is writable");
}

fn build(blob: &Path, target: &Path) -> PathBuf {
    let triple = "x86_64-unknown-linux-gnu";
    let script = fs::canonicalize(blob.join("blob.ld")).expect("the linker script is there");
    let mut flags: Vec<String> = [
        "linker=rust-lld",
        "linker-flavor=ld.lld",
        "link-self-contained=no",
        "relocation-model=pie",
        "target-cpu=x86-64",
        "panic=abort",
    ]
    .iter()
    .flat_map(|f| ["-C".to_owned(), (*f).to_owned()])
    .collect();
    for arg in ["-pie", "--no-dynamic-linker", "--gc-sections", "--build-id=none", "-znorelro"] {
        flags.push("-C".into());
        flags.push(format!("link-arg={arg}"));
    }
    flags.push("-C".into());
    flags.push(format!("link-arg=-T{}", script.display()));
    let status = Command::new(env::var_os("CARGO").expect("cargo sets it"))
        .args(["build", "--release", "--quiet", "--target", triple, "--target-dir"])
        .arg(target)
        .current_dir(blob)
        .env_remove("RUSTFLAGS")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"))
        .status()
        .expect("cargo runs");
    assert!(status.success(), "the deputy blob does not build");
    target.join(triple).join("release/deputy-blob")
}

/// Takes the image out of the ELF file, and checks what the loader relies on. The result: how many
/// relocations (u32), their (offset, addend) pairs (u32 each), the image.
fn flatten(elf: &[u8]) -> Vec<u8> {
    const R_X86_64_RELATIVE: u32 = 8;
    let file = object::File::parse(elf).expect("an ELF file");
    assert_eq!(file.entry(), 0, "the entry must be the first byte");
    let mut image = Vec::new();
    for name in [".text", ".got"] {
        if let Some(section) = file.section_by_name(name) {
            let (from, data) = (section.address() as usize, section.data().expect("section has data"));
            image.resize(image.len().max(from + data.len()), 0);
            image[from..from + data.len()].copy_from_slice(data);
        }
    }
    assert!(!image.is_empty() && image.len() < 16 << 10, "blob of {} bytes", image.len());
    let relocations = file.section_by_name(".rela.dyn").map_or(&[][..], |s| s.data().expect("section has data"));
    let mut out = ((relocations.len() / 24) as u32).to_le_bytes().to_vec();
    for rela in relocations.chunks_exact(24) {
        let word = |at: usize| u64::from_le_bytes(rela[at..at + 8].try_into().expect("eight bytes"));
        assert_eq!(word(8) as u32, R_X86_64_RELATIVE, "only relative relocations can be applied");
        assert!(word(0) as usize + 8 <= image.len() && (word(16) as usize) < image.len());
        out.extend((word(0) as u32).to_le_bytes());
        out.extend((word(16) as u32).to_le_bytes());
    }
    out.extend(image);
    out
}
