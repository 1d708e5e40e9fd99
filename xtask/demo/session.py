"""A person at a terminal: a shell placed on another node builds a C project, runs a pipeline, is interrupted by Ctrl-C."""
import os
import pty
import re
import select
import signal
import sys
import time

NODE = sys.argv[1]
PROMPT = b"placed$ "
LIMIT_S = 60


def project(files):
    """A C project of many files; the program prints the sum of what they say."""
    os.makedirs("project", exist_ok=True)
    for i in range(files):
        with open(f"project/m{i}.c", "w") as f:
            f.write(f"#include <stdio.h>\n#include <string.h>\nint m{i}(void) {{ char b[64];\n")
            f.write(f' snprintf(b, sizeof b, "module %d", {i}); return (int)strlen(b); }}\n')
    with open("project/main.c", "w") as f:
        f.write("#include <stdio.h>\n" + "".join(f"int m{i}(void);\n" for i in range(files)))
        f.write('int main(void) { printf("sum %d\\n", ' + " + ".join(f"m{i}()" for i in range(files)) + "); }\n")
    with open("project/Makefile", "w") as f:
        f.write("OBJECTS = main.o " + " ".join(f"m{i}.o" for i in range(files)) + "\n")
        f.write("program: $(OBJECTS)\n\t@gcc $(OBJECTS) -o $@\n%.o: %.c\n\t@gcc -O1 -c $< -o $@\n")


class Terminal:
    """The person's side of a terminal with a placed shell on it."""

    def __init__(self):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            # Whoever starts the demo in the background may have it ignore Ctrl-C, which every program would inherit.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            env = dict(os.environ, PS1=PROMPT.decode(), TERM="dumb")
            os.execvpe("tern", ["tern", "run", "--on", NODE, "--", "bash", "--norc", "--noprofile", "-i"], env)
        self.unread = b""

    def read_until(self, marker):
        """What appears on the screen up to the marker."""
        end = time.monotonic() + LIMIT_S
        while marker not in self.unread:
            ready, _, _ = select.select([self.fd], [], [], max(0, end - time.monotonic()))
            if not ready:
                sys.exit(f"waited in vain for {marker!r}; the screen: {self.unread!r}")
            self.unread += os.read(self.fd, 4096)
        shown, self.unread = self.unread.split(marker, 1)
        return shown

    def show(self, shown):
        """Without the terminal's control sequences."""
        text = re.sub(rb"\x1b\[[?0-9;]*[a-zA-Z]", b"", shown).replace(b"\r", b"")
        sys.stdout.write(text.decode() + PROMPT.decode())

    def command(self, line):
        os.write(self.fd, line.encode() + b"\n")
        self.show(self.read_until(PROMPT))


project(12)
terminal = Terminal()
terminal.show(terminal.read_until(PROMPT))
terminal.command("hostname")
terminal.command("make -j4 -C project --no-print-directory && project/program")
terminal.command("seq 1000 | sort -rn | head -3 | tr '\\n' ' '; echo")
os.write(terminal.fd, b"sleep 1000\n")
while "sleep" not in os.popen(f"ps -o comm= --ppid {terminal.pid}").read():
    time.sleep(0.01)
os.write(terminal.fd, b"\x03")
terminal.show(terminal.read_until(PROMPT))
terminal.command("echo the status was $?")
os.write(terminal.fd, b"exit 7\n")
_, status = os.waitpid(terminal.pid, 0)
print(f"\nthe shell's status, seen by its parent: {os.waitstatus_to_exitcode(status)}")
