//! Pages of private copies of files cannot follow a process: they go before it is stopped.

use crate::{at_home, shared};

/// `hold`: 4 MiB of a file, as a copy that is its own; it changes some of the first 100 pages in each round, and checks all. `go`: a move over a slow link; few bytes go while it stands still.
const TOOLS: &str = r#"
cat > hold.py <<'END'
import mmap, os, random, sys, zlib
size = 4 << 20
open("data", "wb").write(os.urandom(size))
with open("data", "rb") as file:
    memory = mmap.mmap(file.fileno(), size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
memory[:] = os.urandom(size)
sums = [zlib.crc32(memory[at:at + 4096]) for at in range(0, size, 4096)]
while True:
    for n in range(len(sums)):
        if zlib.crc32(memory[n * 4096:n * 4096 + 4096]) != sums[n]:
            print("page", n, "is another", flush=True)
            sys.exit(1)
    for _ in range(5):
        n = random.randrange(100)
        memory[n * 4096:n * 4096 + 8] = os.urandom(8)
        sums[n] = zlib.crc32(memory[n * 4096:n * 4096 + 4096])
    print("whole", flush=True)
END
python3 hold.py > said 2>&1 < /dev/null & pid=$!
until_ "[ -s said ]"
field() { grep -o "\"$1\": [0-9]*" leg | cut -d' ' -f2; }
go() { tern move $pid "$@" --rate 20M --json > leg || cat leg; lines said $(($(wc -l < said) + 2)); echo $(($(field frozen_bytes) < 2000000)); }
"#;

#[test]
fn copies_of_files_go_before_the_stop() {
    let lab = shared();
    let script = format!(
        r#"{TOOLS}
        go n2 --how post; go n3 --how post; go home --how post
        go n2 --how auto --max-freeze 5ms; go home --how auto --max-freeze 5ms
        go n3 --how pre; go n2 --how pre; go home --how pre
        kill $pid; sort said | uniq -c | wc -l"#
    );
    assert_eq!(at_home(&lab, &script).text(), ["1"; 9].join("\n"));
}
