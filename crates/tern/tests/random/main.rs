//! Command lines made by chance: natively at home, and placed on a node that has nothing. They
//! print the same, end alike, leave the same files, and no process. A run follows from its seed:
//! `TERN_SEED` starts elsewhere, `TERN_LINES` makes more or fewer.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../common/mod.rs"]
mod common;
mod lines;

use std::time::{Duration, Instant};

use gossip::Draw;
use lab::Lab;

/// How long one script may take, seconds.
const LIMIT_S: &str = "60";
/// Longest piece of a difference that is shown, characters.
const SHOWN: usize = 400;
/// Scripts of the ordinary test, and its seed.
const SCRIPTS: u64 = 60;
const SEED: u64 = 2026;
/// How long the long test goes on.
const LONG: Duration = Duration::from_secs(20 * 60);

/// Inputs, made once in n1 and copied for every run.
const PANTRY: &str = r#"
set -e
mkdir /tmp/pantry; cd /tmp/pantry
seq 3000 | awk '{ x = (x * 1103 + 12345) % 65521; printf "%x %d alpha%d\n", x, x % 97, NR % 7 }' > words
seq 100 -3 1 > numbers
for i in $(seq 40); do echo "k$i:name$((i * 7 % 40)):$((i * i % 53))"; done > table
: > empty
head -c 200000 /dev/zero | openssl enc -aes-128-ctr -K 00 -iv 00 2> /dev/null > big || seq 40000 > big
mkdir -p tree/1 tree/2/sub; head -n 50 words > tree/1/text; tail -n 30 words > tree/2/sub/text; ln -s 1/text tree/link
printf '#!/bin/sh\necho "$0 has $#: $@"; exit 7\n' > script.sh; chmod 755 script.sh
git init -q -b main repository; cd repository; git config user.name x; git config user.email x@y
for i in 1 2 3; do echo "line $i" >> f; git add f; git commit -qm "change $i"; done
"#;

/// Runs one script in a fresh directory, and shows everything that is to be seen of it. `$1`: the
/// script; `$2`: how it is placed.
const RUN: &str = r#"
export LC_ALL=C.UTF-8 HOME=/tmp GIT_AUTHOR_DATE=2026-01-01T00:00:00Z GIT_COMMITTER_DATE=2026-01-01T00:00:00Z GIT_AUTHOR_NAME=x GIT_AUTHOR_EMAIL=x@y
export GIT_COMMITTER_NAME=x GIT_COMMITTER_EMAIL=x@y PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/run/lab/bin
unset BASH_ENV
rm -rf /tmp/place /tmp/out /tmp/err; cp -a /tmp/pantry /tmp/place; cd /tmp/place
timeout --foreground -s KILL $LIMIT $2 bash -c "$1" < /dev/null > /tmp/out 2> /tmp/err
echo "status $?"; echo '-- stdout'; cat /tmp/out; echo '-- stderr'; cat /tmp/err; echo '-- files'
cd /tmp/place; find . -path ./repository/.git -prune -o -path ./g/.git -prune -o -type f -printf '%p %m %n %s %y\n' -o -printf '%p %m %l %y\n' | sort
find . -path ./repository/.git -prune -o -path ./g/.git -prune -o -path ./d.db -prune -o -type f -exec cksum {} + | sort -k3
"#;

fn run(lab: &Lab, script: &str, how: &str) -> String {
    let line = format!("LIMIT={LIMIT_S}; {RUN}");
    let output = lab.exec("n1", ["bash", "-c", &line, "bash", script, how]).unwrap();
    assert!(output.status.success(), "{}", output.errors());
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// From the first difference on.
fn describe(script: &str, native: &str, placed: &str) -> String {
    let same = native.bytes().zip(placed.bytes()).take_while(|(a, b)| a == b).count();
    let from = native.as_bytes()[..same].iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
    let cut = |s: &str| String::from_utf8_lossy(&s.as_bytes()[from..]).chars().take(SHOWN).collect::<String>();
    format!("{script}\n-- native:\n{}\n-- placed:\n{}", cut(native), cut(placed))
}

/// Names of tern's own processes: the last is that of a role, which runs /proc/self/exe.
const OWN: [&str; 3] = ["tern", "ternd", "exe"];

/// Processes of a node that are not tern's own: a deputy has the name of its program.
fn others(lab: &Lab, node: &str) -> Vec<String> {
    let name = |pid: &i32| std::fs::read_to_string(format!("/proc/{pid}/comm")).ok();
    let own = |name: &String| OWN.contains(&name.trim());
    lab.processes(node).unwrap().iter().filter_map(name).filter(|n| !own(n)).collect()
}

/// As many scripts as there is time for; what differed.
fn compare(lab: &Lab, seed: u64, count: u64, until: Instant) -> String {
    let mut differences = String::new();
    for number in seed..seed.saturating_add(count) {
        if Instant::now() > until {
            println!("{} scripts, seed {seed}", number - seed);
            break;
        }
        let script = lines::script(&mut Draw::new(number));
        let native = run(lab, &script, "");
        let placed = run(lab, &script, "tern run --quiet --on n2 --");
        // What differs from itself says nothing about placing.
        if native != placed && native == run(lab, &script, "") {
            let difference = format!("== seed {number}\n{}\n", describe(&script, &native, &placed));
            // At once, as the end may be far.
            eprint!("{difference}");
            differences.push_str(&difference);
        }
    }
    differences
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn no_difference(count: u64, until: Instant) {
    let lab = common::lab_of(&common::options(2));
    let made = lab.exec("n1", ["bash", "-c", PANTRY]).unwrap();
    assert!(made.status.success(), "{}", made.errors());
    let before = [others(&lab, "n1"), others(&lab, "n2")];
    let seed = number("TERN_SEED").unwrap_or(SEED);
    let differences = compare(&lab, seed, number("TERN_LINES").unwrap_or(count), until);
    assert!(differences.is_empty(), "they differ");
    let start = Instant::now();
    while [others(&lab, "n1"), others(&lab, "n2")] != before {
        let left = [others(&lab, "n1"), others(&lab, "n2")];
        assert!(start.elapsed() < Duration::from_secs(60), "left behind: {left:?}, before: {before:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(!lab.exec("n1", ["tern", "ps"]).unwrap().text().contains("bash"), "tern still knows of some");
}

#[test]
fn random_command_lines() {
    no_difference(SCRIPTS, Instant::now() + LONG);
}

#[test]
#[ignore = "twenty minutes"]
fn random_command_lines_for_long() {
    no_difference(u64::MAX, Instant::now() + LONG);
}
