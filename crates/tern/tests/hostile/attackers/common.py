"""What the attackers have in common."""
import fcntl, os


def sealed(content):
    """A memfd with this content, which nobody can change any more."""
    memory = os.memfd_create("program", os.MFD_ALLOW_SEALING)
    os.write(memory, content)
    fcntl.fcntl(memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE)
    return memory


def full_pipe():
    """Both ends of a pipe into which nothing more fits: a program that writes to it waits."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, bytes(4096))
    except BlockingIOError:
        os.set_blocking(writer, True)
    return reader, writer
