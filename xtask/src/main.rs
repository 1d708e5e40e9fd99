//! Developer commands: `cargo xtask check | test [SUITE...|--changed] [--quick|--full] [--strict] |
//! fuzz | dist | demo | library DIR | lab ...`

mod check;
mod demo;
mod dist;
mod fuzz;
mod house;
mod library;
mod packages;
mod said;
mod select;
mod test;
mod tool;
mod watch;

use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask check            formatting, lints, documentation, dependencies' licences, layers, file lengths, rules of the house
cargo xtask check --list    every place that breaks a rule of the house, noted or not
cargo xtask check --tighten  notes that files break rules of the house (xtask/house.txt) less often than before
cargo xtask test [--quick]   everything that can be tested here, real labs included; needs root
cargo xtask test SUITE...    these alone: crates (policy), test programs of the whole (moving), or of a crate (os/filters)
cargo xtask test --changed   what the difference to the branch main reaches
cargo xtask test --full      also what takes long
cargo xtask test --strict    a test that passes only at its second try counts as failed
cargo xtask fuzz [TARGET] [SECONDS]  one fuzz target, or all; a minute each; needs a nightly compiler, and root
cargo xtask demo             a lab of 3 nodes, programs placed on a node that has nothing installed
cargo xtask dist             what is installed on machines, without symbols, in target/dist
cargo xtask library DIR      the C library, its headers and pages, as they are installed below DIR
cargo xtask lab ARGS         tern lab ARGS, with the binary of this tree";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["check"] => check::run(),
        ["check", "--list"] => house::list(),
        ["check", "--tighten"] => house::tighten(house::Tighten::Lower),
        ["check", "--note-anew"] => house::tighten(house::Tighten::Anew),
        ["test", ref flags @ ..] => test::Plan::from_flags(flags).map_or_else(|| Err(USAGE.into()), test::run),
        ["fuzz"] => fuzz::run(None, "60"),
        ["fuzz", target] => fuzz::run(Some(target), "60"),
        ["fuzz", target, seconds] => fuzz::run(Some(target), seconds),
        ["dist"] => dist::run(),
        ["library", directory] => library::build(directory.as_ref()),
        ["demo"] => demo::run_demo(),
        ["lab", ref rest @ ..] => tool::build_release().and_then(|tern| tool::pass_on(&tern, rest)),
        _ => Err(USAGE.into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}
