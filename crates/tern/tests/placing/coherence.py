"""A changes files and tells B through a pipe; B must never see old content, an old name or a stale "not found".

coherence.py ROUNDS WRITER READER: where A and B run (`home` or a node). They work on ./shared."""
import subprocess
import sys

A = """
import os, sys
os.chdir("shared")
for i in range(int(sys.argv[1])):
    kind = i % 6
    if kind == 0:
        with open("content", "w") as f: f.write(f"{i}")
    elif kind == 1:
        with open("draft", "w") as f: f.write(f"{i}")
        os.rename("draft", "content")
    elif kind == 2:
        with open(f"new{i}", "w") as f: f.write(f"{i}")
    elif kind == 3:
        os.unlink(f"new{i - 1}")
    elif kind == 4:
        os.truncate("size", i)
    else:
        with open("log", "a") as f: f.write(f"{i}\\n")
    print(i, flush=True)
    sys.stdin.readline()
"""
B = """
import os, sys
os.chdir("shared")
for line in sys.stdin:
    i = int(line)
    kind = i % 6
    # The next name is asked for before it is there, so that its absence is remembered.
    before = os.path.exists(f"new{i + 1}")
    if kind in (0, 1):
        seen = open("content").read() == f"{i}"
    elif kind == 2:
        seen = os.path.exists(f"new{i}") and open(f"new{i}").read() == f"{i}" and f"new{i}" in os.listdir(".")
    elif kind == 3:
        seen = not os.path.exists(f"new{i - 1}") and f"new{i - 1}" not in os.listdir(".")
    elif kind == 4:
        seen = os.stat("size").st_size == i
    else:
        seen = open("log").read().endswith(f"{i}\\n")
    print("right" if seen and not before else f"STALE {i}", flush=True)
"""


def start(where, program, *arguments):
    command = [sys.executable, "-c", program, *arguments]
    if where != "home":
        command = ["tern", "run", "--on", where, "--"] + command
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)


rounds, writer, reader = sys.argv[1:]
for name in ("content", "size", "log"):
    open(f"shared/{name}", "w").close()
a, b = start(writer, A, rounds), start(reader, B)
stale = []
for _ in range(int(rounds)):
    line = a.stdout.readline()
    b.stdin.write(line)
    answer = b.stdout.readline().strip()
    if answer != "right":
        stale.append(answer or "no answer")
    a.stdin.write("\n")
a.stdin.close()
b.stdin.close()
print(f"{rounds} rounds, {len(stale)} stale {stale[:5]}, status {a.wait()} {b.wait()}")
sys.exit(bool(stale) or a.returncode or b.returncode)
