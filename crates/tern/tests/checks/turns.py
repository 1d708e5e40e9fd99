"""Two placed programs change one file in turn; home carries the word between them.

turns.py WAY ROUNDS: blocks (each its own, of one page), append or counter (both read and write the same bytes)."""
import os
import subprocess
import sys

CHILD = r'''
import os, sys
way, me = sys.argv[1], int(sys.argv[2])
fd = os.open("shared", os.O_RDWR | (os.O_APPEND if way == "append" else 0))
for line in sys.stdin:
    turn = int(line)
    if way == "blocks":
        # The neighbour's last write lies in the same page.
        before = os.pread(fd, 8, 8 * (turn - 1)) if turn else b""
        assert not turn or before == b"%08d" % (turn - 1), (turn, before)
        os.pwrite(fd, b"%08d" % turn, 8 * turn)
    elif way == "append":
        assert os.fstat(fd).st_size == 8 * turn, (turn, os.fstat(fd).st_size)
        os.write(fd, b"%08d" % turn)
    else:
        seen = os.pread(fd, 8, 0)
        assert seen == (b"%08d" % turn if turn else b""), (turn, seen)
        os.pwrite(fd, b"%08d" % (turn + 1), 0)
    print("done", flush=True)
'''


def start(node, number):
    command = ["tern", "run", "--on", node, "--", "/usr/bin/python3", "-c", CHILD, way, str(number)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)


way, rounds = sys.argv[1], int(sys.argv[2])
open("shared", "w").close()
children = [start("n2", 0), start("n3", 1)]
for turn in range(rounds):
    child = children[turn % 2]
    child.stdin.write(f"{turn}\n")
    if child.stdout.readline() != "done\n":
        sys.exit(f"round {turn} went wrong")
for child in children:
    child.stdin.close()
    assert child.wait() == 0
wanted = b"%08d" % rounds if way == "counter" else b"".join(b"%08d" % turn for turn in range(rounds))
with open("shared", "rb") as f:
    print("right" if f.read() == wanted else "the file is wrong")
