//! Real programs that make and remove trees of files, placed, and moved while they write: what they
//! leave is what they leave natively.

use crate::at_home;

/// A repository, a source tree with odd names, modes and times, an archive, and a package.
const PREPARE: &str = r##"
export LC_ALL=C HOME=/tmp GIT_AUTHOR_DATE=2026-01-01T00:00:00Z GIT_COMMITTER_DATE=2026-01-01T00:00:00Z
export GIT_AUTHOR_NAME=x GIT_AUTHOR_EMAIL=x@y GIT_COMMITTER_NAME=x GIT_COMMITTER_EMAIL=x@y PYTHONDONTWRITEBYTECODE=1
mkdir tree; for d in 1 2 3 4 5 6; do mkdir -p "tree/dir $d/sub"; for f in $(seq 40); do
    head -c $((d * f * 97)) /dev/zero | tr '\0' "$d" > "tree/dir $d/file$f"; done
    ln -s ../file1 "tree/dir $d/sub/link"; ln "tree/dir $d/file2" "tree/dir $d/sub/hard"; : > "tree/dir $d/sub/empty"
    chmod 640 "tree/dir $d/file3"; chmod 755 "tree/dir $d/file4"; chmod 2750 "tree/dir $d/sub"; done
find tree -exec touch -h -d '2024-05-06 07:08:09.123456' {} +
tar cf tree.tar tree
git init -q -b main repository; (cd repository; cp -r ../tree .; git add .; git commit -qm one; seq 2000 > more; git add .; git commit -qm two)
mkdir -p package/thing; printf 'def f():\n    return 7\n' > package/thing/__init__.py
printf 'from setuptools import setup\nsetup(name="thing", version="1.0", packages=["thing"])\n' > package/setup.py
cat > configure <<'END'
#!/bin/sh
# As autoconf's scripts do: many small files, made, compiled, looked at and removed.
for n in $(seq 25); do
    mkdir conf$n; cd conf$n
    echo "int main(void) { return $n - $n; }" > conftest.c
    if cc -o conftest conftest.c 2> conftest.err && ./conftest; then echo "#define HAVE_$n 1" >> ../config.h; fi
    cat conftest.err >> ../config.log; mv conftest.c conftest.old; rm -f conftest*; cd ..; rmdir conf$n
done
sed 's/define/DEFINE/' config.h > config.h.new && mv config.h.new config.h
END
chmod 755 configure
"##;

/// Functions that show a directory. Times count where the program sets them.
const LOOK: &str = r#"look() { (cd $1 && find . -path '*/.git/*' -prune -o $2 | sort; find . -path '*/.git/*' -prune -o -type f -exec sha256sum {} + | sort -k2); }
with_times() { look $1 "-type d -printf '%p %m %T@\n' -o -printf '%p %m %n %s %l %T@\n'"; }
without_times() { look $1 "-printf '%p %m %n %l\n'"; }
"#;

/// Each program by its name: what is needed, the script, and how its directory is looked at.
const PROGRAMS: &[(&str, &str, &str)] = &[
    ("tar", "tar xf ../tree.tar", "with_times"),
    ("cp", "cp -a ../tree copy && cp -r copy again && rm -r again/'dir 1'", "without_times"),
    (
        "git",
        "git clone -q ../repository clone && cd clone && git status --short && git fsck && echo x >> more && git status --short && git add . && git commit -qm three && git log --format=%H",
        "without_times",
    ),
    ("rm", "cp -r ../tree copy; rm -r copy; ls -a", "without_times"),
    ("configure", "cp ../configure . && ./configure && cat config.h", "without_times"),
    (
        "sqlite3",
        "sqlite3 base 'create table t(a, b); insert into t select value, hex(zeroblob(200)) from generate_series(1, 3000); create index i on t(b); delete from t where a % 3 = 0; vacuum; pragma integrity_check; select count(*), sum(a) from t'",
        "without_times",
    ),
    (
        "python3",
        "/usr/bin/python3 -m pip install --quiet --no-index --no-build-isolation --no-deps --no-compile --target out ../package 2>&1 | grep -v -i warning; PYTHONPATH=out /usr/bin/python3 -c 'import thing; print(thing.f())'; find out -name '*.py'",
        "names",
    ),
];

/// Runs all programs natively and by `how`, which runs a script; gives what differs.
fn differences(how: &str) -> String {
    let lab = crate::common::lab_of(&crate::common::options(3));
    let mut script = format!("{PREPARE}\n{LOOK}\nnames() {{ (cd $1 && ls); }}\n{how}\n");
    for (name, program, look) in PROGRAMS {
        if !crate::common::is_installed(name) && !["rm", "configure"].contains(name) {
            skip::part(format_args!("{name} is not installed"));
            continue;
        }
        script += &format!(
            "cat > script <<'END'\n{program}\nEND\n\
             rm -rf native place; mkdir place; (cd place; sh ../script > ../native.out 2>&1; echo status $? >> ../native.out); {look} place > native.tree\n\
             rm -rf place; mkdir place; (cd place; away ../script > ../away.out 2>> ../moves; echo status $? >> ../away.out); {look} place > away.tree\n\
             for seen in out tree; do cmp -s native.$seen away.$seen || {{ echo '== {name}:'; diff native.$seen away.$seen | head -20; }}; done\n"
        );
    }
    script += "echo moves $(grep -c moved moves); tail -5 moves >&2";
    let output = at_home(&lab, 400, &script);
    assert!(output.status.success(), "{}\n{}", output.text(), output.errors());
    let text = output.text();
    let (differ, moves) = text.rsplit_once("moves ").unwrap();
    println!("moves: {moves}");
    if how.contains("tern move") {
        assert!(moves.trim().parse::<u32>().unwrap() > 5, "too few moves: {moves}\n{}", output.errors());
    }
    differ.to_owned()
}

#[test]
fn placed_programs_leave_the_same_trees() {
    let differ = differences("away() { tern run --quiet --strict --on n2 -- sh $1 2>&1; }");
    assert!(differ.is_empty(), "{differ}");
}

/// They begin at home: a placed program sees the device numbers of its room until it is moved, and
/// home's from then on, which git takes for a race.
#[test]
fn programs_moved_while_they_write_leave_the_same_trees() {
    let differ = differences(
        r#"away() {
            sh $1 2>&1 & first=$!
            (while kill -0 $first; do for node in n3 home n2; do
                for pid in $(tern ps --json | grep -o '"pid": *[0-9]*' | tr -dc '0-9\n'); do
                    tern move $pid $node && echo moved; sleep 0.05
                done; tern move $first $node && echo moved; sleep 0.05
            done; done) > /dev/stderr 2>&1 & mover=$!
            wait $first; status=$?; kill $mover; wait $mover; return $status
        }"#,
    );
    assert!(differ.is_empty(), "{differ}");
}
