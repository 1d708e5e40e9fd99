//! Programs that work for some seconds and whose output is the same every time.

/// A program, run by `bash -c` in an empty directory of its own.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Name for reports.
    pub name: &'static str,
    /// Programs that must be on the PATH.
    pub needs: &'static [&'static str],
    /// The shell script.
    pub script: &'static str,
}

const fn program(name: &'static str, needs: &'static [&'static str], script: &'static str) -> Program {
    Program { name, needs, script }
}

/// All programs of the soak.
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
        "counting under a lock",
        &["flock", "python3", "seq"],
        r#"cat > add.sh <<'END'
for i in $(seq 150); do ( flock 9; n=$(cat count); echo $((n + 1)) > count ) 9>> lock; done
END
cat > add.py <<'END'
import fcntl
for i in range(1000):
    with open("lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with open("count") as f: n = int(f.read())
        x = [j * j % 1009 for j in range(3000)]
        with open("count", "w") as f: f.write(f"{n + 1}\n")
END
echo 0 > count; bash add.sh & python3 add.py & python3 add.py; wait; cat count"#,
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
    program(
        "make",
        &["make", "gcc"],
        r#"for f in $(seq 24); do printf 'int f%d(int a) { for (int k = 0; k < 99; k++) a = a * 31 + k; return a %% %d; }\n' $f $((f + 7)) > f$f.c; done
printf '#include <stdio.h>\nint f7(int), f24(int);\nint main(void) { printf("%%d %%d\\n", f7(5), f24(6)); }\n' > main.c
printf 'prog: $(patsubst %%.c,%%.o,$(wildcard *.c))\n\tgcc -o $@ $^\n%%.o: %%.c\n\tgcc -O2 -c -o $@ $<\n' > Makefile
for i in 1 2; do make -s -j4 && ./prog; rm *.o; done"#,
    ),
    program(
        "ffmpeg",
        &["ffmpeg", "md5sum"],
        r#"for i in 1 2; do ffmpeg -v error -nostdin -y -f lavfi -i testsrc=d=12:s=320x240 -c:v mpeg4 -bitexact -threads 4 out.avi; md5sum < out.avi; done"#,
    ),
    program(
        "redis",
        &["redis-server", "redis-cli", "redis-benchmark"],
        r#"redis-server --port 0 --unixsocket ./socket --save '' --daemonize no > log & server=$!
until redis-cli -s ./socket ping 2> errors | grep -q PONG; do sleep 0.05; done
for i in 1 2 3; do redis-benchmark -s ./socket -n 12000 -c 8 -q -t incr > rates; redis-cli -s ./socket get counter:__rand_int__; done
redis-cli -s ./socket shutdown nosave; wait $server; echo $?"#,
    ),
    program(
        "java",
        &["java", "javac"],
        r#"cat > Sums.java <<'END'
import java.util.*;
import java.util.stream.*;
public class Sums {
    public static void main(String[] args) throws Exception {
        for (int round = 0; round < 6; round++) {
            long[] sums = new long[4];
            Thread[] all = new Thread[4];
            for (int n = 0; n < 4; n++) {
                int me = n;
                all[n] = new Thread(() -> { long x = me + 1; for (int i = 0; i < 8000000; i++) x = x * 6364136223846793005L + i; sums[me] = x; });
                all[n].start();
            }
            for (Thread t : all) t.join();
            Map<Integer, List<Integer>> kept = IntStream.range(0, 300000).boxed().collect(Collectors.groupingBy(i -> i % 97));
            System.out.println(round + " " + Arrays.toString(sums) + " " + kept.get(13).size());
        }
    }
}
END
javac Sums.java && exec java -Xmx128m Sums"#,
    ),
    program(
        "node",
        &["node"],
        r#"exec node -e '
const { Worker } = require("worker_threads");
const work = n => new Promise(done => new Worker(`
const { parentPort } = require("worker_threads"); let x = ${n};
for (let i = 0; i < 6e6; i++) x = (x * 16807 + i) % 2147483647; parentPort.postMessage(x);`, { eval: true }).on("message", done));
(async () => { for (let round = 0; round < 5; round++) {
    const sums = await Promise.all([1, 2, 3].map(n => work(n + round)));
    const sorted = Array.from({ length: 100000 }, (_, i) => (i * 7919) % 100003).sort((a, b) => a - b);
    console.log(round, sums, sorted[5000]);
} })();'"#,
    ),
    program(
        "tmux with an interactive bash",
        &["tmux", "bash", "grep"],
        r#"tmux() { command tmux -S ./socket -f /dev/null "$@"; }
tmux -D > log 2>&1 & server=$!
until tmux new-session -d -x 80 -y 50 'PS1="> " bash --norc --noprofile -i' 2> errors; do sleep 0.05; done
shows() { until tmux capture-pane -p | grep -q "$1"; do sleep 0.05; done; }
shows '^>'
for i in $(seq 8); do
tmux send-keys "echo begun $i; sleep 100 &" Enter; shows "^begun $i"
tmux send-keys 'jobs | cut -c1-30; fg' Enter; shows '^sleep 100$'
until tmux capture-pane -p | grep -q Stopped; do tmux send-keys C-z; sleep 0.2; done
tmux send-keys 'kill %1; wait; echo ended $?' Enter; shows '^ended'
tmux send-keys 'history | tail -n 2 | head -n 1' Enter; shows 'kill %1; wait; echo ended'
tmux send-keys C-l; until ! tmux capture-pane -p | grep -q '^ended'; do sleep 0.05; done; echo round $i
done
tmux kill-server; wait $server; echo ended"#,
    ),
    program(
        "git",
        &["git", "seq"],
        r#"export GIT_AUTHOR_DATE='2026-01-01T00:00:00Z' GIT_COMMITTER_DATE='2026-01-01T00:00:00Z' HOME=$PWD GIT_CONFIG_NOSYSTEM=1
git init -q -b main r; cd r; git config user.name a; git config user.email a@b
for i in $(seq 12); do seq $((i * 2000)) > f$i; seq $i 3 9000 > all; git add -A; git commit -q -m "commit $i"; done
git gc -q --prune=now; git clone -q . ../c; cd ../c; git fsck --full 2>&1 | tail -n 1; git rev-parse HEAD; git log --format=%h | wc -l; cksum < all"#,
    ),
    program(
        "rustc",
        &["rustc"],
        r#"cat > a.rs <<'END'
use std::collections::BTreeMap;
fn main() {
    let mut m: BTreeMap<u64, String> = BTreeMap::new();
    let mut x = 1u64;
    for i in 0..20000u64 { x = x.wrapping_mul(6364136223846793005).wrapping_add(i); m.insert(x >> 40, format!("{x}")); }
    println!("{} {:?}", m.len(), m.iter().nth(77));
}
END
for i in 1 2; do rustc -O -C codegen-units=4 a.rs && ./a; done"#,
    ),
    program(
        "web server and clients",
        &["python3", "curl", "seq"],
        r#"seq 1 200000 > big
python3 -u -c 'import http.server, socketserver
class Server(socketserver.ThreadingMixIn, http.server.HTTPServer): pass
class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *a): pass
s = Server(("127.0.0.1", 0), Quiet); open("port.new", "w").write(str(s.server_address[1])); import os; os.rename("port.new", "port"); s.serve_forever()' & server=$!
until [ -e port ]; do sleep 0.05; done
for i in $(seq 12); do curl -s http://127.0.0.1:$(cat port)/big | cksum; done
kill $server; wait $server; echo $?"#,
    ),
    program(
        "tar and gzip",
        &["tar", "gzip", "seq", "cksum"],
        r#"mkdir d; for i in $(seq 60); do seq $((i * 700)) > d/f$i; done
for i in 1 2 3; do tar -C d --mtime=@0 --owner=0 --group=0 -cf - $(ls d) | gzip -9n > t.gz; mkdir e; gzip -dc t.gz | tar -C e -xf -; diff -r d e && cksum < t.gz || exit 3; rm -r e; done"#,
    ),
];
