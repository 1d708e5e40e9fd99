import os

# Four processes fork at once; every child's number and status must be its parent's to see.
def work(n):
    for i in range(n):
        child = os.fork()
        if child == 0:
            os._exit(i % 100)
        seen, status = os.waitpid(child, 0)
        assert (seen, os.waitstatus_to_exitcode(status)) == (child, i % 100), (child, seen, status)

workers = []
for _ in range(4):
    worker = os.fork()
    if worker == 0:
        work(400)
        os._exit(0)
    workers.append(worker)
print([os.waitpid(w, 0)[1] for w in workers])
try:
    os.wait()
    print("a child is left")
except ChildProcessError:
    print("none left")
