//! A process that holds memory, changes some of it all the time, and sees whether it is still what
//! it wrote.

/// `hold KIND MIB WRITES AMONG`: so much of random bytes, of its own (`memory`) or of a copy of a
/// file (`copy`), of which it changes so many among the first so many pages in each round; it
/// checks all of them against what it wrote, in each. `go`: a move, and two rounds after it. `field
/// NAME` of the last move.
pub const TOOLS: &str = r#"
cat > hold.py <<'END'
import mmap, os, random, sys, zlib
kind, size, writes, among = sys.argv[1], int(sys.argv[2]) << 20, int(sys.argv[3]), int(sys.argv[4])
memory = bytearray(size)
if kind == "copy":
    open("data", "wb").write(memory)
    with open("data", "rb") as file:
        memory = mmap.mmap(file.fileno(), size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
memory[:] = os.urandom(size)
sums = [zlib.crc32(memory[at:at + 4096]) for at in range(0, size, 4096)]
while True:
    for n in range(len(sums)):
        if zlib.crc32(memory[n * 4096:n * 4096 + 4096]) != sums[n]:
            print("page", n, "is another", flush=True)
            sys.exit(1)
    for _ in range(writes):
        n = random.randrange(among)
        memory[n * 4096:n * 4096 + 8] = os.urandom(8)
        sums[n] = zlib.crc32(memory[n * 4096:n * 4096 + 4096])
    print("whole", flush=True)
END
hold() { rm -f said; python3 hold.py "$@" > said 2>&1 < /dev/null & pid=$!; until_ "[ -s said ]"; }
field() { grep -o "\"$1\": [0-9]*" leg | cut -d' ' -f2; }
go() { tern move $pid "$@" --json > leg || cat leg; lines said $(($(wc -l < said) + 2)); }
"#;
