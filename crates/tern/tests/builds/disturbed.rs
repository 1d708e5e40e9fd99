//! A build whose hosts are taken away.

use serde_json::Value;

use super::common::eventually;
use super::{Place, lab_of, ok, sources};

/// Compiles all of lua with three levels of optimisation, and runs programs that compute.
const MAKEFILE: &str = r#"
NAMES := $(filter-out src/ltests.c,$(wildcard src/*.c))
LEVELS := 1 2 3
WORKS := $(foreach n,1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16,$n.out)
all: $(foreach l,$(LEVELS),$(NAMES:src/%.c=%.$l.o)) $(WORKS)
define level
%.$1.o: src/%.c ; gcc -O$1 -c $$< -o $$@
endef
$(foreach l,$(LEVELS),$(eval $(call level,$l)))
%.out: work ; ./work $@
"#;

/// Notes that it begins, computes, and writes what it has computed.
const WORK: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int starts = open("starts", O_WRONLY | O_APPEND | O_CREAT, 0644);
    char line[64];
    write(starts, line, snprintf(line, sizeof line, "%s\n", argv[1]));
    close(starts);
    unsigned long x = 1;
    for (unsigned long n = 0; n < 1500000000; n++) x = x * 6364136223846793005 + 1442695040888963407;
    FILE *out = fopen(argv[1], "w");
    fprintf(out, "%lu\n", x);
    return fclose(out);
}
"#;

/// The results of the programs that a node hosts, by their command lines there.
fn worked_on(guests: &[Value]) -> Vec<String> {
    let commands = guests.iter().filter_map(|guest| guest["command"].as_str());
    commands.filter_map(|command| Some(command.strip_prefix("./work ")?.trim().to_owned())).collect()
}

#[test]
fn a_build_ends_right_though_its_hosts_go() {
    let Some(archive) = sources::archive("lua5.4") else { return };
    let lab = lab_of(5);
    ok(&lab, "n1", &["policy", "set", "link_timeout_ms=3000"]);
    let place = Place::new(&lab, "disturbed");
    place.unpack(&archive);
    place.write("Makefile", MAKEFILE);
    place.write("work.c", WORK);
    place.run(&lab, "gcc -O2 -o work work.c && make -j2");
    let plain = place.digests(&lab, &[".o", ".out"]);
    assert!(plain.lines().count() > 100, "{plain}");
    place.run(&lab, "rm -f *.o *.out starts");

    let log = std::fs::File::create(place.outside.join("log")).unwrap();
    let mut command = place.command(&lab, "tern make --report report 2>&1");
    let mut build = command.stdout(log).spawn().unwrap();
    let guests = |node: &str| {
        let output = lab.exec(node, ["tern", "guests", "--json"]).unwrap();
        serde_json::from_slice::<Vec<Value>>(&output.stdout).unwrap_or_default()
    };
    let works = |node: &str| worked_on(&guests(node));
    eventually("all hosts compute", || ["n2", "n3", "n4"].iter().all(|node| !works(node).is_empty()));

    let evicted = works("n2");
    ok(&lab, "n2", &["policy", "set", "accept=idle"]);
    ok(&lab, "n2", &["back", "--for", "1h"]);
    lab.cut("n1", "n3").unwrap();
    lab.kill_node("n4").unwrap();
    eventually("the owner has the machine", || guests("n2").is_empty());

    let status = build.wait().unwrap();
    let (said, report) = (place.read("log"), place.report());
    println!("{report:?}\n{said}");
    assert!(status.success(), "{status}");
    assert_eq!(place.digests(&lab, &[".o", ".out"]), plain);
    let starts = place.read("starts");
    let begun = |name: &str| starts.lines().filter(|line| *line == name).count();
    let again: Vec<String> = (1..=16).map(|n| format!("{n}.out")).filter(|name| begun(name) > 1).collect();
    println!("evicted: {evicted:?}, begun again: {again:?}");
    assert!(evicted.iter().all(|name| begun(name) == 1), "what is sent home goes on");
    assert!(again.len() >= 2 && report.number("again") >= 2, "what was on lost hosts begins again");
    assert!(said.contains("which is lost"), "the user is told");
}
