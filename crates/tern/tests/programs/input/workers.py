# Workers that are forked, spawned, and made by a server, which is passed their pipes through a socket; pools of them, what they have in common, and the tracker
# that the spawned ones have: killed at once, waited for, begun anew.
import concurrent.futures
import multiprocessing
import os
import signal
import time
import warnings
from multiprocessing import resource_tracker


def square(n):
    return n * n


def sleep():
    time.sleep(100)


def put(queue, lock, n):
    with lock:
        queue.put(n * n)


def common(context):
    queue, lock = context.Queue(), context.Lock()
    workers = [context.Process(target=put, args=(queue, lock, n)) for n in range(4)]
    for worker in workers:
        worker.start()
    found = sorted(queue.get() for _ in workers)
    for worker in workers:
        worker.join()
    return found, [worker.exitcode for worker in workers]


def ends(context):
    workers = [context.Process(target=sleep) for _ in range(4)]
    for worker in workers:
        worker.start()
    for number, worker in enumerate(workers):
        os.kill(worker.pid, signal.SIGTERM if number % 2 else signal.SIGKILL)
    for worker in workers:
        worker.join()
    return [worker.exitcode for worker in workers]


def trackers():
    tracker = resource_tracker._resource_tracker
    seen = []
    for _ in range(4):
        tracker.ensure_running()
        os.kill(tracker._pid, signal.SIGKILL)
        seen.append(os.waitpid(tracker._pid, 0)[1])
    return seen


def main():
    # It is said that a tracker was begun anew. One that is killed later forgets what it was told.
    warnings.simplefilter("ignore")
    print(trackers())
    for method in "fork", "spawn", "forkserver":
        context = multiprocessing.get_context(method)
        with context.Pool(3) as pool:
            print(method, pool.map(square, range(10)))
        print(method, ends(context))
        print(method, common(context))
        with concurrent.futures.ProcessPoolExecutor(3, mp_context=context) as executor:
            print(method, list(executor.map(square, range(10))))


if __name__ == "__main__":
    main()
