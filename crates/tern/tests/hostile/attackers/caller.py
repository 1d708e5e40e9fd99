"""Has a set-user-ID program placed in its user's name. An ordinary user runs it at home.

caller.py MODE REQUEST PROGRAM: the request in hexadecimal, as `tern run` would send it. Prints the daemon's answer. Descriptor 3, where
the program writes, is the file `said`.
"""
import array, os, socket, sys, time
from common import full_pipe, sealed

mode, request, program = sys.argv[1], bytes.fromhex(sys.argv[2]), bytes.fromhex(sys.argv[3])


def ask():
    channel.sendmsg([request], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [sealed(program)]))])


said = os.open("said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
os.dup2(said, 3, inheritable=True)
channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
channel.connect("/run/tern/ternd.sock")
reader, writer = full_pipe()
parent = os.getpid()
if os.fork() == 0:
    # The socket's other holder: speaks while its parent runs with root's rights.
    while open(f"/proc/{parent}/comm").read() != "passwd\n":
        time.sleep(0.005)
    if mode == "child-asks":
        ask()
    channel.settimeout(10)
    try:
        answer = channel.recv(1 << 16)
        print(repr(answer), file=sys.stderr, flush=True)
        # READY in its parent's name.
        channel.send(b"\x03\x00\xe9\x0d" + bytes(4) + parent.to_bytes(4, "little") + bytes(4))
        time.sleep(3)
    except OSError as e:
        print(e, file=sys.stderr, flush=True)
    os.kill(parent, 0) if os.getuid() == 0 else None
    os.close(reader)
    os._exit(0)
if mode == "parent-asks":
    ask()
os.dup2(writer, 1)
os.close(writer)
# The child alone reads: when it ends, the program ends of SIGPIPE.
os.set_inheritable(reader, False)
os.execvp("passwd", ["passwd", "-S", "nobody"])
