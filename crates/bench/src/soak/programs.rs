//! Programs that work for some seconds and whose output is the same every time.

/// One: run by `bash -c` in an empty directory of its own.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// For reports.
    pub name: &'static str,
    /// What must be on the PATH.
    pub needs: &'static [&'static str],
    /// What is run.
    pub script: &'static str,
}

const fn program(name: &'static str, needs: &'static [&'static str], script: &'static str) -> Program {
    Program { name, needs, script }
}

/// All.
pub const ALL: &[Program] = &[
    program(
        "python threads",
        &["python3"],
        r#"exec python3 -c '
import hashlib, threading
sums = [None] * 4
def work(n):
    h = hashlib.sha256(str(n).encode())
    for i in range(60000): h.update(h.digest())
    sums[n] = h.hexdigest()
for round in range(3):
    all = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    [t.start() for t in all]; [t.join() for t in all]
    print(round, sums, flush=True)
'"#,
    ),
    program(
        "python subprocess",
        &["python3"],
        r#"exec python3 -c '
import subprocess, zlib
sum = 0
for i in range(40):
    said = subprocess.run(["sh", "-c", "echo $((%d * 7)); exit %d" % (i, i % 5)], capture_output=True)
    sum = zlib.crc32(said.stdout + bytes([said.returncode]), sum)
    x = [j * j % 1009 for j in range(30000)]
    print(i, sum, x[-1], flush=True)
'"#,
    ),
    program(
        "sort",
        &["sort", "awk", "md5sum"],
        r#"awk 'BEGIN { x = 7; for (i = 0; i < 300000; i++) { x = (x * 16807) % 2147483647; print x, i } }' > in
for i in 1 2 3; do LC_ALL=C sort -S 8M --parallel=2 -k1,1n in > out; md5sum < out; LC_ALL=C sort -S 2M -T . -r in | md5sum; done"#,
    ),
    program(
        "xz round trip",
        &["xz", "seq", "md5sum"],
        r#"seq 1 400000 > in; for i in 1 2; do xz -k -$i -T2 in; xz -dc in.xz > out; cmp in out && md5sum < in && md5sum < in.xz; rm in.xz; done"#,
    ),
    program(
        "zstd round trip",
        &["zstd", "seq", "md5sum"],
        r#"seq 1 900000 > in; for i in 5 11 15; do zstd -q -k -f -T2 -$i in; zstd -q -dc in.zst > out; cmp in out && echo same $i; done"#,
    ),
    program(
        "sqlite3",
        &["sqlite3"],
        r#"sqlite3 db 'create table t(a integer primary key, b text);'
for i in 1 2 3 4 5 6; do
sqlite3 db "with recursive n(x) as (select 1 union all select x + 1 from n where x < 40000)
insert into t(b) select 'row ' || (x * $i % 977) from n; select count(*), sum(length(b)), max(a) from t; pragma integrity_check;"
done"#,
    ),
    program(
        "gcc",
        &["gcc", "awk"],
        r#"awk 'BEGIN { for (f = 0; f < 400; f++) printf "int f%d(int a) { for (int k = 0; k < %d; k++) a = a * 31 + k; return a %% %d; }\n", f, f, f + 7 }' > a.c
printf '#include <stdio.h>\nint f399(int);\nint main(void) { printf("%%d\\n", f399(5)); }\n' > m.c
for i in 1 2; do gcc -O2 -c a.c -o a.o && gcc -O1 m.c a.o -o m && ./m; done"#,
    ),
    program(
        "perl",
        &["perl"],
        r#"exec perl -e 'my %h; my $x = 1; $| = 1; for my $r (1..6) { for (1..250000) { $x = ($x * 16807) % 2147483647; $h{$x % 5000} += $_ } print "$r $x ", scalar(keys %h), " $h{77}\n" }'"#,
    ),
    program(
        "bash loop",
        &["bash", "tr", "wc"],
        r#"sum=0; for i in {1..120}; do
for j in {1..400}; do sum=$(((sum * 31 + i * j) % 1000003)); done
n=$(echo $sum | tr 0-9 a-j | wc -c); echo $i $sum $n; done; (exit 3); echo $?"#,
    ),
    program(
        "pipeline",
        &["seq", "awk", "md5sum"],
        r#"for i in 1 2 3; do seq 1 300000 | awk '{ s += $1; print s % 9973 }' | tr 1-9 2-91 | md5sum; done"#,
    ),
    program(
        "awk",
        &["awk"],
        r#"exec awk 'BEGIN { for (r = 0; r < 8; r++) { for (i = 0; i < 200000; i++) s = (s * 1103 + i) % 1000003; print r, s; fflush() } }'"#,
    ),
];
