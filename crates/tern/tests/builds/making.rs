//! `tern make` on hosts that nobody disturbs.

use lab::Lab;

use super::{Place, WHERE, calm, lab_of, ok, sources};

/// The endings of what builds make.
const MADE: [&str; 2] = [".o", ".a"];

/// Builds plainly and on hosts, in the same place: the same comes out.
fn both_ways(lab: &Lab, package: &str, make: &str) -> Option<super::Report> {
    let archive = sources::archive(package)?;
    let place = Place::new(lab, package);
    place.unpack(&archive);
    place.run(lab, &format!("make -j2 {make}"));
    let plain = place.digests(lab, &MADE);
    assert!(plain.lines().count() > 10, "{plain}");
    std::fs::remove_dir_all(&place.outside).unwrap();
    std::fs::create_dir(&place.outside).unwrap();
    place.unpack(&archive);
    place.run(lab, &format!("tern make --report report {make}"));
    assert_eq!(place.digests(lab, &MADE), plain);
    Some(place.report())
}

#[test]
fn lua_on_four_nodes_is_as_at_home() {
    let lab = lab_of(4);
    let Some(report) = both_ways(&lab, "lua5.4", "linux") else { return };
    println!("{report:?}");
    assert!(report.placed() >= 10 && report.hosts() >= 2, "{report:?}");
    assert_eq!((report.number("refused"), report.number("again")), (0, 0));
    // Its hosts are given back.
    super::common::eventually("nobody holds hosts", || ok(&lab, "n1", &["hosts", "list", "--json"]).trim() == "[]");
}

#[test]
#[ignore = "long: twelve nodes and a large program"]
fn redis_on_twelve_nodes_is_as_at_home() {
    let lab = lab_of(12);
    // The only thing that tells one build from another is its time.
    let Some(report) = both_ways(&lab, "redis", "MALLOC=libc SOURCE_DATE_EPOCH=1 V=1") else { return };
    println!("{report:?}");
    assert!(report.placed() >= 50 && report.hosts() >= 4, "{report:?}");
}

/// Programs of recipes, the sub-make, and what is marked.
const MAKEFILE: &str = r#"
all: seen sub marked by_file by_word
seen: ; ./where $@
sub: ; $(MAKE) -f sub.mk
marked: export TERN_LOCAL = 1
marked: ; ./where $@
by_file: ; ./where $@
by_word: ; ./where $@
"#;

#[test]
fn recipes_are_placed_but_what_is_marked_stays() {
    let lab = lab_of(2);
    let place = Place::new(&lab, "marks");
    place.write("Makefile", MAKEFILE);
    place.write("sub.mk", "all: in_sub\nin_sub: ; ./where $@\n");
    place.write(".tern-local", "# a comment\nby_fil?\n");
    place.write("where.c", WHERE);
    place.run(&lab, "gcc -o where where.c");
    place.run(&lab, "tern make --local '*by_word' --report report");
    let told = |target: &str| place.read(target);
    for target in ["seen", "in_sub"] {
        assert_eq!(told(target), "a job", "{target}");
    }
    for target in ["marked", "by_file", "by_word"] {
        assert_eq!(told(target), "stays", "{target}");
    }
    assert_eq!(place.report().placed(), 2, "{:?}", place.report());
}

#[test]
fn a_job_ends_as_its_program_does() {
    let lab = lab_of(2);
    let place = Place::new(&lab, "ends");
    place.write("Makefile", "all: ; ./ends\n");
    // Nothing is known of the first runs: they are placed.
    for (body, said) in [("exit 7", "Error 7"), ("kill -TERM $$", "Terminated"), ("kill -KILL $$", "Killed")] {
        place.write("ends", &format!("#!/usr/bin/perl\n$n++ while $n < 5e6; exec 'sh', '-c', '{body}';\n"));
        calm(&lab);
        let output = place.command(&lab, "chmod +x ends; tern make --report report 2>&1").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.code() == Some(2) && text.contains(said), "{body}: {:?} {text}", output.status);
        assert_eq!(place.report().placed(), 1, "{body}: {:?}", place.report());
    }
}

#[test]
fn a_job_passes_signals_on_and_does_not_outlive_its_parent() {
    let lab = lab_of(2);
    let place = Place::new(&lab, "signals");
    place.write("loops.c", "int main(void) { for (volatile long n = 0;; n++); }\n");
    place
        .write("Makefile", "all: ; timeout 2 ./loops; echo $$? > told; timeout -s KILL 2 ./loops; echo $$? > killed\n");
    place.run(&lab, "gcc -o loops loops.c && tern make --report report");
    assert_eq!((place.read("told").trim(), place.read("killed").trim()), ("124", "137"));
    assert_eq!(place.report().placed(), 2);
    super::common::eventually("nothing runs on", || ok(&lab, "n1", &["ps", "--json"]).trim() == "[]");
}

#[test]
fn a_build_goes_on_without_its_coordinator_and_without_hosts_that_refuse() {
    let lab = lab_of(2);
    let place = Place::new(&lab, "alone");
    place.write("where.c", WHERE);
    place.write("Makefile", "all: a b c d\na b c d: ; ./where $@\n");
    // A user whose programs no host takes: root, whom nobody trusts.
    ok(&lab, "n1", &["policy", "set", "root-on=none"]);
    place.run(&lab, "gcc -o where where.c && tern make --report report");
    let report = place.report();
    assert!(report.number("refused") >= 1 && report.number("home") <= 3, "{report:?}");
    assert!(["a", "b", "c", "d"].iter().all(|target| !place.read(target).is_empty()));
    ok(&lab, "n1", &["policy", "set", "root-on=all"]);
    calm(&lab);
    // The recipe kills its coordinator, the parent of make.
    place.write("Makefile", "all: a b c d\n\nkill: ; kill -KILL $$(ps -o ppid= $$PPID)\na b c d: kill ; ./where $@\n");
    let output = place.run(&lab, "rm -f a b c d; tern make; echo status $?");
    assert!(output.text().contains("status 137"), "{}", output.text());
    super::common::eventually("make goes on alone", || {
        ["a", "b", "c", "d"].iter().all(|target| place.read(target) == "stays")
    });
}
