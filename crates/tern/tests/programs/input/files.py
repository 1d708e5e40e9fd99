"""What programs do to files: every call that changes or asks, and what it said."""
import errno
import fcntl
import mmap
import os
import stat

def tell(what, call):
    try:
        print(what, call())
    except OSError as e:
        print(what, errno.errorcode[e.errno])

os.mkdir("d", 0o751)
os.chdir("d")
print(os.path.basename(os.getcwd()), os.listdir("."))
with open("a", "w") as f:
    f.write("first\n")
for n in range(3):
    with open("a", "a") as f:
        f.write(f"line {n}\n")
print(open("a").read())
os.rename("a", "b")
os.link("b", "c")
os.symlink("b", "s")
print(os.stat("b").st_nlink, os.readlink("s"), os.path.samefile("b", "s"), sorted(os.listdir(".")))
tell("open gone", lambda: open("a"))
tell("mkdir again", lambda: os.mkdir("../d"))
tell("rmdir full", lambda: os.rmdir("../d"))
tell("open exclusive", lambda: os.open("b", os.O_CREAT | os.O_EXCL))
tell("directory as file", lambda: os.open(".", os.O_WRONLY))
tell("long name", lambda: open("x" * 300))
os.chmod("b", 0o4711)
os.utime("b", ns=(1_000_000_123, 2_000_000_456))
s = os.stat("c")
print(oct(s.st_mode), s.st_atime_ns, s.st_mtime_ns, s.st_size)
fd = os.open("sparse", os.O_RDWR | os.O_CREAT, 0o640)
os.pwrite(fd, b"end", 10_000_000)
print(os.fstat(fd).st_size, os.pread(fd, 8, 9_999_996))
os.posix_fallocate(fd, 0, 4096)
os.ftruncate(fd, 5_000)
print(os.fstat(fd).st_size, os.lseek(fd, 0, os.SEEK_END))
fcntl.flock(fd, fcntl.LOCK_EX)
fcntl.lockf(fd, fcntl.LOCK_EX, 100)
os.fsync(fd)
os.unlink("sparse")
os.pwrite(fd, b"still here", 0)
print(os.pread(fd, 10, 0), os.fstat(fd).st_nlink)
with open("b", "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as m:
    print(m[:5], m.find(b"line 2"))
with open("c", "r+b") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_COPY) as m:
    m[:5] = b"FIRST"
    print(m[:5], open("b").read(5))
os.setxattr("b", "user.colour", b"green")
print(os.listxattr("b"), os.getxattr("c", "user.colour"))
for n in range(500):
    os.close(os.open(f"many{n:03}", os.O_CREAT | os.O_WRONLY))
print(len(os.listdir(".")), sum(1 for e in os.scandir(".") if e.is_file(follow_symlinks=False)))
for n in range(500):
    os.unlink(f"many{n:03}")
os.mkfifo("pipe")
print(stat.S_ISFIFO(os.stat("pipe").st_mode), os.access("b", os.W_OK), os.access("nothing", os.F_OK))
os.replace("c", "s")
print(sorted(os.listdir(".")), os.statvfs(".").f_namemax, os.umask(0o22) == os.umask(0o22))
