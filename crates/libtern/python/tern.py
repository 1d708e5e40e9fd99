"""The C library of tern for Python: lists of nodes and processes, and programs on many nodes.

Failures are raised as OSError with the number of libtern(3).
"""

import ctypes
import os

_NAME_BYTES = 64
_MOST = 4096


class Node(ctypes.Structure):
    """A node of the cluster."""

    _fields_ = [
        ("_name", ctypes.c_char * _NAME_BYTES),
        ("state", ctypes.c_int),
        ("is_here", ctypes.c_int),
        ("cores", ctypes.c_int),
        ("runnable_milli", ctypes.c_int),
        ("owner", ctypes.c_uint),
        ("group", ctypes.c_uint),
        ("mode", ctypes.c_uint),
    ]

    @property
    def name(self):
        return self._name.decode()


class Process(ctypes.Structure):
    """A process of this home that is away."""

    _fields_ = [
        ("pid", ctypes.c_int),
        ("uid", ctypes.c_int),
        ("state", ctypes.c_int),
        ("threads", ctypes.c_int),
        ("_node", ctypes.c_char * _NAME_BYTES),
    ]

    @property
    def node(self):
        return self._node.decode()


_library = ctypes.CDLL(os.environ.get("TERN_LIBRARY", "libtern.so.0"), use_errno=True)


def _done(result):
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def _listed(kind, function):
    rows = (kind * _MOST)()
    return list(rows[: _done(function(rows, _MOST))])


def _words(words):
    encoded = [os.fsencode(word) for word in words]
    return (ctypes.c_char_p * (len(encoded) + 1))(*encoded, None)


def nodes():
    """The nodes of the cluster."""
    return _listed(Node, _library.tern_nodes)


def processes():
    """Processes of this home that are away."""
    return _listed(Process, _library.tern_processes)


def choose(text):
    """Names of the nodes that a text such as n[2-4] or all stands for."""
    names = ((ctypes.c_char * _NAME_BYTES) * _MOST)()
    count = _done(_library.tern_choose(os.fsencode(text), names, _MOST))
    return [name.value.decode() for name in names[:count]]


def move(node):
    """Moves this process to a node, or home."""
    _done(_library.tern_move(os.fsencode(node)))


def dump(fd, pid=None, flags=0):
    """Writes this process, or another one, to a descriptor; False in a process made from the dump."""
    if pid is None:
        return _done(_library.tern_dump(fd, flags)) == 1
    _done(_library.tern_dump_pid(pid, fd, flags))
    return True


def undump(fd, flags=0):
    """Becomes the process that was written to a descriptor."""
    _done(_library.tern_undump(fd, flags))


def vexecmove(nodes, path, argv, env=None):
    """Starts a program on each node; its PIDs, and negative error numbers for nodes that failed."""
    environment = os.environ if env is None else env
    pids = (ctypes.c_int * len(nodes))()
    envp = _words(f"{name}={value}" for name, value in environment.items())
    _done(_library.tern_vexecmove(len(nodes), _words(nodes), pids, os.fsencode(path), _words(argv), envp))
    return list(pids)
