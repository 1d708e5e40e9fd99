//! `tern spread` with the usual tools, and `tern shell`.

use lab::Lab;

use super::common::{eventually, is_installed};
use super::pty::Session;
use super::{Place, WHERE, calm, lab_of};

/// So many files a tool compiles.
const FILES: usize = 12;

/// A place with files that take a compiler some time.
fn with_files(lab: &Lab, name: &str) -> Place {
    let place = Place::new(lab, name);
    for file in 0..FILES {
        let functions = (0..300).map(|n| {
            format!("double f{file}_{n}(double x) {{ for (int i = 0; i < {n}; i++) x = x * {n} + i / (x + 1); return x; }}\n")
        });
        let main = if file == 0 { "int main(void) { return 0; }\n" } else { "" };
        place.write(&format!("f{file}.c"), &(functions.collect::<String>() + main));
    }
    place
}

fn is_missing(programs: &[&str]) -> bool {
    let missing = programs.iter().find(|program| !is_installed(program));
    missing.into_iter().for_each(|program| skip::test(format_args!("{program} is not installed")));
    missing.is_some()
}

#[test]
fn xargs_spreads_long_programs_and_keeps_short_ones() {
    let lab = lab_of(4);
    let place = Place::new(&lab, "xargs");
    place.write("where.c", WHERE);
    place.write("short.c", "int main(void) { return 0; }\n");
    place.run(&lab, "gcc -o where where.c && gcc -o short short.c");
    place.run(&lab, "seq 12 | tern spread --report report xargs -P 12 -n 1 ./where");
    let report = place.report();
    println!("{report:?}");
    assert!((1..=12).all(|n| place.read(&n.to_string()) == "a job"));
    assert!(report.hosts() == 3 && report.placed() >= 6, "{report:?}");
    // The first ones show how short they are.
    calm(&lab);
    place.run(&lab, "seq 100 | tern spread --report report xargs -P 2 -n 1 ./short");
    let report = place.report();
    println!("{report:?}");
    assert!(report.number("programs") >= 100 && report.placed() <= 20, "{report:?}");
}

#[test]
fn ninja_makes_what_it_makes_at_home() {
    if is_missing(&["ninja", "gcc"]) {
        return;
    }
    let lab = lab_of(4);
    let place = with_files(&lab, "ninja");
    let names = (0..FILES).map(|n| n.to_string()).collect::<Vec<_>>();
    let builds = names.iter().map(|n| format!("build f{n}.o: cc f{n}.c\n")).collect::<String>();
    let objects = names.iter().map(|n| format!(" f{n}.o")).collect::<String>();
    let rules = "rule cc\n command = gcc -O2 -c $in -o $out\nrule link\n command = gcc -o $out $in\n";
    place.write("build.ninja", &format!("{rules}{builds}build program: link{objects}\n"));
    place.run(&lab, "ninja");
    let plain = place.digests(&lab, &[".o", "program"]);
    place.run(&lab, "ninja -t clean && tern spread --report report ninja");
    let report = place.report();
    println!("{report:?}");
    assert_eq!(place.digests(&lab, &[".o", "program"]), plain);
    assert!(report.hosts() == 3 && report.placed() >= 6, "{report:?}");
}

#[test]
fn a_make_below_cmake_takes_tokens() {
    if is_missing(&["cmake", "make", "gcc"]) {
        return;
    }
    let lab = lab_of(4);
    let place = with_files(&lab, "cmake");
    let names = (0..FILES).map(|n| format!(" f{n}.c")).collect::<String>();
    let lists = format!("cmake_minimum_required(VERSION 3.5)\nproject(p C)\nadd_executable(program{names})\n");
    place.write("CMakeLists.txt", &lists);
    place.write("Makefile", "all: ; cmake --build build\n");
    place.run(&lab, "CFLAGS=-O2 cmake -S . -B build && make");
    let plain = place.digests(&lab, &[".o", "program"]);
    let output = place.run(&lab, "cmake --build build --target clean && tern make --report report");
    let report = place.report();
    println!("{report:?}");
    assert!(!output.errors().contains("jobserver"), "{}", output.errors());
    assert_eq!(place.digests(&lab, &[".o", "program"]), plain);
    // Alone, one job at a time, it would use one host.
    assert!(report.hosts() == 3 && report.placed() >= 6, "{report:?}");
}

#[test]
fn cargo_makes_what_it_makes_at_home() {
    if is_missing(&["cargo"]) {
        return;
    }
    let lab = lab_of(4);
    let place = Place::new(&lab, "cargo");
    let members = (0..6).map(|n| format!("\"c{n}\", ")).collect::<String>();
    place.write("Cargo.toml", &format!("[workspace]\nmembers = [{members}]\nresolver = \"2\"\n"));
    for n in 0..6 {
        std::fs::create_dir_all(place.outside.join(format!("c{n}/src"))).unwrap();
        place.write(
            &format!("c{n}/Cargo.toml"),
            &format!("[package]\nname = \"c{n}\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
        );
        let functions = (0..200).map(|f| {
            format!(
                "pub fn f{f}(x: &str) -> Vec<String> {{ x.split('{n}').map(|p| format!(\"{{p}}{f}\")).collect() }}\n"
            )
        });
        place.write(&format!("c{n}/src/lib.rs"), &functions.collect::<String>());
    }
    // The compiler names the files that it keeps for its next run by chance.
    let build = "CARGO_INCREMENTAL=0 cargo build --offline --quiet";
    place.run(&lab, build);
    let plain = place.digests(&lab, &[".rlib"]);
    assert_eq!(plain.lines().count(), 6 * 2, "{plain}");
    let build = build.replace("cargo", "tern spread --report report cargo");
    let output = place.run(&lab, &format!("rm -rf target && {build}"));
    assert!(!output.errors().contains("jobserver"), "{}", output.errors());
    let report = place.report();
    println!("{report:?}");
    assert_eq!(place.digests(&lab, &[".rlib"]), plain);
    assert!(report.placed() >= 3, "{report:?}");
}

#[test]
fn background_jobs_of_a_shell_are_placed() {
    let lab = lab_of(2);
    let place = Place::new(&lab, "shell");
    place.write("where.c", WHERE);
    place.run(&lab, "gcc -o where where.c");
    let mut session = Session::start(place.on_terminal(&lab, "exec tern shell --report report bash --norc -i"));
    session.keys("./where front; ./where back & echo begun''\n");
    session.shows("begun");
    eventually("both have ended", || !place.read("front").is_empty() && !place.read("back").is_empty());
    assert_eq!((place.read("front"), place.read("back")), ("stays".into(), "a job".into()));
    session.keys("exit 3\n");
    eventually("the shell reports", || !place.read("report").is_empty());
    assert_eq!(place.report().placed(), 1);
}
