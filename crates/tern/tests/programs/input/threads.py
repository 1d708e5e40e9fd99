"""Eight threads that share a dictionary, a lock, a queue and a condition."""
import queue
import threading

totals, lock, work, done = {}, threading.Lock(), queue.Queue(), threading.Condition()
finished = 0


def primes_below(bound):
    sieve = bytearray([1]) * bound
    sieve[:2] = b"\0\0"
    for n in range(2, int(bound**0.5) + 1):
        if sieve[n]:
            sieve[n * n :: n] = bytes(len(range(n * n, bound, n)))
    return sum(sieve)


def worker():
    global finished
    while (bound := work.get()) is not None:
        count = primes_below(bound)
        with lock:
            totals[bound] = count
    with done:
        finished += 1
        done.notify_all()


for bound in range(10_000, 100_000, 5_000):
    work.put(bound)
threads = [threading.Thread(target=worker) for _ in range(8)]
for thread in threads:
    work.put(None)
    thread.start()
with done:
    done.wait_for(lambda: finished == len(threads))
for thread in threads:
    thread.join()
for bound, count in sorted(totals.items()):
    print(bound, count)
