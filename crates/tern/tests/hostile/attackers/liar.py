"""A process that pretends to be a deputy, and lies. An ordinary user runs it at home.

liar.py MODE REQUEST PROGRAM [VICTIM]: REQUEST and PROGRAM are in hexadecimal, as `tern run` would send them; VICTIM is the number of
another user's process. What the packets mean: crates/abi. Prints `ready PID` before it says that it is a deputy, `rejected` when the
steward closes its channel.
"""
import array, ctypes, os, random, signal, socket, struct, subprocess, sys, time
from common import full_pipe, sealed

READY, REPLY, SIGNAL = 0x0DE90003, 0x0DE90001, 0x0DE90002
OP_CALL, OP_THREAD, OP_FORK, OP_TAKE, OP_EXIT, OP_DIE, OP_THREAD_EXIT = 1, 2, 7, 9, 4, 5, 3
SYS_SETUID = 105
mode, request, program = sys.argv[1], bytes.fromhex(sys.argv[2]), bytes.fromhex(sys.argv[3])
victim = int(sys.argv[4]) if len(sys.argv) > 4 else 1


def blob_of(pid):
    """Address and bytes of the blob in an honest deputy."""
    for line in open(f"/proc/{pid}/maps"):
        place, rights, _, _, inode = line.split()[:5]
        if rights == "r-xp" and inode == "0" and "[" not in line:
            start, end = (int(word, 16) for word in place.split("-"))
            with open(f"/proc/{pid}/mem", "rb") as memory:
                memory.seek(start)
                return start, memory.read(end - start)
    return None


def borrow_blob():
    """Puts the blob into this process, where an honest deputy has it: whoever only looks for it finds it."""
    honest = subprocess.Popen(["tern", "run", "--on", "n2", "--", "sleep", "1000"])
    while not (found := blob_of(honest.pid)):
        assert honest.poll() is None, "the honest deputy has ended"
        time.sleep(0.02)
    honest.kill()
    honest.wait()
    start, code = found
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    assert libc.mmap(start, len(code), 3, 0x100022, -1, 0) == start, ctypes.get_errno()
    ctypes.memmove(start, code, len(code))
    assert libc.mprotect(start, len(code), 5) == 0


def say(text):
    print(text, flush=True)


def packet(kind, result, data=b""):
    return struct.pack("<IIq", kind, len(data), result) + data


def reply(result, data=b""):
    channel.send(packet(REPLY, result, data))


def receive():
    data, control, _, _ = channel.recvmsg(1 << 18, 256)
    if len(data) < 88:
        say("rejected")
        sys.exit(0)
    for level, kind, content in control:
        if kind == socket.SCM_RIGHTS:
            [received.append(fd) for fd in array.array("i", content[: len(content) // 4 * 4])]
    words = struct.unpack("<II6Q8I", data[:88])
    return words[0], words[1], words[2:8], words[10], data[88:]


def become_privileged():
    """Becomes a set-user-ID program that waits for ever: it writes to a full pipe. A child keeps the channel."""
    reader, writer = full_pipe()
    keeper = os.fork()
    if keeper == 0:
        own = os.getppid()
        while open(f"/proc/{own}/comm").read() != "passwd\n":
            time.sleep(0.01)
        return own
    os.set_inheritable(channel.fileno(), True)
    os.set_inheritable(reader, True)
    os.dup2(writer, 1)
    os.execvp("passwd", ["passwd", "-S", "nobody"])


def a_privileged_child():
    """A child that runs a set-user-ID program, which waits for ever."""
    reader, writer = full_pipe()
    os.set_inheritable(reader, True)
    child = subprocess.Popen(["passwd", "-S", "nobody"], stdout=writer, pass_fds=[reader])
    while open(f"/proc/{child.pid}/comm").read() != "passwd\n":
        time.sleep(0.01)
    return child.pid


def garbage():
    """Packets of every kind, most of them nonsense, and lies about what was never asked for."""
    chance = random.Random(7)
    lies = [packet(kind, result) for kind in (READY, REPLY, SIGNAL) for result in (0, -1, victim, victim << 32 | victim, 1 << 62)]
    lies += [packet(SIGNAL, 9, struct.pack("<i", number) + bytes(124)) for number in (1, 10, 17, 18, 64)]
    lies += [packet(REPLY, 5, bytes(100000)), packet(REPLY, victim, bytes(3))]
    for _ in range(300):
        channel.send(chance.choice(lies))
    # Until here it could still be a deputy; from here on it is none.
    for _ in range(20):
        channel.send(chance.randbytes(chance.randrange(1, 4000)))


received = []
if mode not in ("naked",):
    borrow_blob()
channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
channel.connect("/run/tern/ternd.sock")
channel.sendmsg([request], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [sealed(program)]))])
answer = channel.recv(1 << 16)
if answer[:1] != b"\xc0" or b"cannot" in answer:
    say(f"refused {answer!r}")
    sys.exit(0)
first = packet(READY, os.getpid() | channel.fileno() << 32)
# Before it speaks: who is found out is killed at once.
say(f"ready {os.getpid()}")
if mode == "foreign":
    if os.fork() == 0:
        channel.send(first)
        os._exit(0)
    os.wait()
else:
    channel.send(first)
try:
    if mode == "garbage":
        garbage()
    if mode == "gone":
        # Its body has begun when nothing has been asked for a while.
        channel.settimeout(1)
    while True:
        op, nr, args, out_bytes, data = receive()
        if op == OP_FORK and mode == "child":
            reply(victim)
        elif op == OP_FORK and mode == "privileged-child":
            child = a_privileged_child()
            say(f"child {child}")
            reply(child)
        elif op == OP_THREAD and mode == "thread":
            reply(victim | channel.fileno() << 32)
        elif op == OP_CALL and nr == SYS_SETUID and mode == "ids":
            become_privileged()
            # The keeper: the process that was asked runs with root's rights now.
            reply(0)
        elif op in (OP_EXIT, OP_DIE, OP_THREAD_EXIT):
            break
        elif op == OP_TAKE:
            reply(received[-1])
        elif op in (OP_FORK, OP_THREAD):
            reply(-11)
        else:
            reply(0, bytes(out_bytes))
except TimeoutError:
    channel.settimeout(None)
    become_privileged()
    while channel.recv(1 << 18):
        pass
    os._exit(0)
except (BrokenPipeError, ConnectionResetError):
    say("rejected")
