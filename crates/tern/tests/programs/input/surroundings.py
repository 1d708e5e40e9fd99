"""What a program can ask about itself and its machine, where the answer does not change from run to run."""
import os
import pwd
import resource
import signal
import socket
import sys
import time

print(sys.argv, sys.executable, os.getcwd())
print(os.getresuid(), os.getresgid(), sorted(os.getgroups()))
print(socket.gethostname(), os.uname().nodename, os.uname().sysname, os.uname().machine)
print(sorted((k, v) for k, v in os.environ.items() if k not in ("TERN_STATE", "_")))
print([resource.getrlimit(getattr(resource, n)) for n in sorted(dir(resource)) if n.startswith("RLIMIT_")])
print(oct(os.umask(0)), os.nice(0), os.getpriority(os.PRIO_PROCESS, 0))
print([(s.name, signal.getsignal(s)) for s in sorted(signal.valid_signals()) if isinstance(s, signal.Signals)])
print(sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])))
print([pwd.getpwuid(u).pw_name for u in (0, 1, 65534)], time.strftime("%Z %z"))
print([os.isatty(fd) for fd in range(3)], sorted(int(fd) for fd in os.listdir("/proc/self/fd"))[:3])
clocks = [time.clock_gettime(c) for c in (time.CLOCK_REALTIME, time.CLOCK_MONOTONIC, time.CLOCK_BOOTTIME)]
print(all(c > 0 for c in clocks), len(open("/etc/passwd").readlines()))
