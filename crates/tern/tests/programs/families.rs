//! Programs that make processes.

use super::cases::{Case, Input};

const fn case(name: &'static str, needs: &'static [&'static str], command: &'static [&'static str]) -> Case {
    Case { name, needs, command, input: Input::Nothing, own_words: false }
}

pub const FAMILIES: &[Case] = &[
    case("forks at once", &[], &["python3", "forks.py"]),
    case("pools and subprocesses", &[], &["python3", "pool.py"]),
    case("workers and their tracker", &[], &["python3", "workers.py"]),
    case("a bash script", &[], &["bash", "family.sh"]),
    case("make -j4", &["gcc"], &["sh", "build.sh"]),
    case(
        "a pipeline of compressors",
        &[],
        &["sh", "-c", "tar c tree words | zstd -q | zstd -dq | tar t | sort | sha256sum"],
    ),
    case(
        "perl with children",
        &[],
        &[
            "perl",
            "-e",
            "$SIG{CHLD} = sub { while (waitpid(-1, 1) > 0) { $n++ } }; \
             for (1 .. 10) { my $p = fork; exit 0 unless $p } select undef, undef, undef, 0.01 while $n < 10; print \"$n\\n\"; print `echo backticks`",
        ],
    ),
    case(
        "ruby with workers",
        &["ruby"],
        &[
            "sh",
            "-c",
            "ruby -e 'all = 4.times.map { |n| fork { exit n } }; puts all.map { |p| Process.wait(p); $?.exitstatus }'",
        ],
    ),
    case(
        "git",
        &["git"],
        &[
            "sh",
            "-c",
            "export GIT_AUTHOR_DATE='2026-01-01T00:00:00Z' GIT_COMMITTER_DATE='2026-01-01T00:00:00Z'; git init -q -b main one && cd one && echo a > a && git add a && \
             git -c user.name=x -c user.email=x@y commit -qm message && git log --oneline && cd .. && git clone -q one two && ls two && rm -rf one two",
        ],
    ),
    case(
        "children that nobody waits for",
        &[],
        &["sh", "-c", "trap '' CHLD; for i in 1 2 3; do /bin/true & done; wait; echo end"],
    ),
];
