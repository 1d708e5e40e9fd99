"""Times commands natively and placed, turn about; prints a table. Runs on n1."""
import subprocess
import sys
import time

PLACED = ["tern", "run", "--on", "n2", "--"]
CASES = [
    ("null program", 40, ["/bin/true"]),
    ("Python, 8 threads", 3, [sys.executable, "threads.py", "20000"]),
    ("compile (cc1 -O2)", 3, [sys.argv[1], "-quiet", "-imultiarch", "x86_64-linux-gnu", "-O2", "program.c", "-o", "timed.s"]),
    ("sha256 of 64 MB, warm", 3, ["sha256sum", "big"]),
]


def seconds(command):
    start = time.perf_counter()
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=30)
    return time.perf_counter() - start


with open("big", "wb") as f:
    f.write(bytes(range(256)) * (64 << 12))
print(f"{'median of runs':<24} {'native ms':>10} {'placed ms':>10} {'ratio':>7}")
for name, runs, command in CASES:
    native, placed = [], []
    seconds(PLACED + command)
    for _ in range(runs):
        native.append(seconds(command))
        placed.append(seconds(PLACED + command))
    a, b = sorted(native)[runs // 2], sorted(placed)[runs // 2]
    print(f"{name:<24} {a * 1000:>10.2f} {b * 1000:>10.2f} {b / a:>6.2f}x")
