"""Eight threads estimate pi from hashes; says where it believes to be."""
import hashlib
import os
import socket
import sys
import threading

SAMPLES = int(sys.argv[1]) if len(sys.argv) > 1 else 60_000
inside = [0] * 8


def sample(thread):
    count = 0
    for n in range(SAMPLES):
        digest = hashlib.sha256(f"{thread}.{n}".encode()).digest()
        x, y = int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:16], "big")
        count += x * x + y * y < 1 << 128
    inside[thread] = count


threads = [threading.Thread(target=sample, args=(t,)) for t in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(f"pi is about {4 * sum(inside) / (8 * SAMPLES):.4f}")
print(f"I am process {os.getpid()} of {socket.gethostname()}, user {os.getuid()}, in {os.getcwd()}")
