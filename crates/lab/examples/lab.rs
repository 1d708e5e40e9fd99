//! The lab alone, without the rest of tern: `cargo run --example lab -- lab up --bare`.
use std::process::ExitCode;

use clap::Parser;

#[derive(Parser)]
enum Tool {
    Lab(lab::Args),
}

fn main() -> ExitCode {
    let argv: Vec<String> = std::env::args().skip(1).collect();
    if let Some(status) = lab::role(&argv) {
        return status.into();
    }
    let Tool::Lab(args) = Tool::parse();
    lab::run(args).into()
}
