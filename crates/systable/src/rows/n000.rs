//! Numbers 0 to 99.

use super::{HIGH_IDS, ITS_OWN, Row, local, special, why};
use crate::arg::{Arg::*, Len::*};
use crate::class::Special;
use crate::filter::MARK;
use crate::when::{Cmp, When};

/// Descriptors that may be stand-ins, as the first argument: by their number, or because the tracer
/// has seen that it is one.
const STDIO_OR_SHOWN: When = When::If(&[&[Cmp::Below(0, 3), Cmp::Marked(0, 0)], &[Cmp::Marked(0, MARK)]]);
/// `MAP_SHARED` or `MAP_SHARED_VALIDATE` without `MAP_ANONYMOUS`.
const MAP_SHARED_FILE: When = When::If(&[&[Cmp::Bits(3, 0x21, 0x01)]]);
/// The disposition is set, not only asked for.
const SETS_ACTION: When = When::Unless(&[&[Cmp::Null(1)]]);
/// Limits that the body has otherwise: `RLIMIT_NPROC`, `RLIMIT_MEMLOCK`.
const LIMITS_OF_HOME: When = When::If(&[&[Cmp::Is(0, 6)], &[Cmp::Is(0, 8)]]);
/// The argument is `RUSAGE_CHILDREN`.
const OF_CHILDREN: When = When::If(&[&[Cmp::Is(0, u32::MAX)]]);
/// All but `FIOCLEX` and `FIONCLEX`, which are about the descriptor alone.
const NOT_CLOEXEC: When = When::Unless(&[&[Cmp::Is(1, 0x5451)], &[Cmp::Is(1, 0x5450)]]);
/// `F_SETFL`, and `F_GETFL` of a stand-in, whose flags are those of home's open file; `F_SETOWN`,
/// `F_GETOWN`, `F_SETSIG`, `F_GETSIG`, `F_SETOWN_EX`, `F_GETOWN_EX`; `F_SETLEASE`, `F_GETLEASE`,
/// `F_NOTIFY`; `F_SETPIPE_SZ` and `F_GETPIPE_SZ` of a stand-in.
const FCNTL_OWNER: When = When::If(&[
    &[Cmp::Is(1, 3), Cmp::Below(0, 3), Cmp::Marked(0, 0)],
    &[Cmp::Is(1, 3), Cmp::Marked(0, MARK)],
    &[Cmp::Is(1, 4)],
    &[Cmp::Is(1, 8)],
    &[Cmp::Is(1, 9)],
    &[Cmp::Is(1, 10)],
    &[Cmp::Is(1, 11)],
    &[Cmp::Is(1, 15)],
    &[Cmp::Is(1, 16)],
    &[Cmp::Is(1, 1024)],
    &[Cmp::Is(1, 1025)],
    &[Cmp::Is(1, 1026)],
    &[Cmp::Is(1, 1031), Cmp::Below(0, 3)],
    &[Cmp::Is(1, 1032), Cmp::Below(0, 3)],
]);

/// The command is `F_DUPFD` or `F_DUPFD_CLOEXEC`.
const FCNTL_DUPFD: When =
    When::If(&[&[Cmp::Is(1, 0), Cmp::Below(0, 3), ITS_OWN], &[Cmp::Is(1, 1030), Cmp::Below(0, 3), ITS_OWN]]);

pub(super) const ROWS: &[Row] = &[
    local(0, "read", &[Fd, Out(Result(2)), Int], why::STREAM),
    local(1, "write", &[Fd, In(Arg(2)), Int], why::STREAM),
    local(2, "open", &[Path, Flags, Int], why::PATH),
    local(3, "close", &[Fd], why::DESCRIPTOR),
    local(4, "stat", &[Path, Out(Fixed(144))], why::PATH),
    special(5, "fstat", Special::Stat, &[Fd, Out(Fixed(144))], why::STAND_IN).when(STDIO_OR_SHOWN),
    local(6, "lstat", &[Path, Out(Fixed(144))], why::PATH),
    local(7, "poll", &[InOut(Elements { count: 1, size: 8 }), Int, Int], why::READY),
    special(8, "lseek", Special::Seek, &[Fd, Int, Int], why::STAND_IN).when(STDIO_OR_SHOWN),
    special(9, "mmap", Special::SharedMapping, &[Address, Int, Flags, Flags, Fd, Int], why::SHARED_MAPPING)
        .when(MAP_SHARED_FILE),
    local(10, "mprotect", &[Address, Int, Flags], why::MEMORY),
    local(11, "munmap", &[Address, Int], why::MEMORY),
    local(12, "brk", &[Address], why::MEMORY),
    special(13, "rt_sigaction", Special::Disposition, &[Signal, In(Fixed(32)), Out(Fixed(32)), Int], why::DISPOSITION)
        .when(SETS_ACTION),
    local(14, "rt_sigprocmask", &[Int, In(Arg(3)), Out(Arg(3)), Int], why::THREAD),
    local(15, "rt_sigreturn", &[], why::THREAD),
    special(16, "ioctl", Special::Ioctl, &[Fd, Int, Opaque], why::IOCTL).when(NOT_CLOEXEC),
    local(17, "pread64", &[Fd, Out(Result(2)), Int, Int], why::STREAM),
    local(18, "pwrite64", &[Fd, In(Arg(2)), Int, Int], why::STREAM),
    local(19, "readv", &[Fd, IovOut(2), Int], why::STREAM),
    local(20, "writev", &[Fd, IovIn(2), Int], why::STREAM),
    local(21, "access", &[Path, Flags], why::PATH),
    local(22, "pipe", &[Out(Fixed(8))], why::PIPE),
    local(23, "select", &[Int, Opaque, Opaque, Opaque, InOut(Fixed(16))], why::READY),
    local(24, "sched_yield", &[], why::SCHED),
    local(25, "mremap", &[Address, Int, Int, Flags, Address], why::MEMORY),
    local(26, "msync", &[Address, Int, Flags], why::MEMORY),
    local(27, "mincore", &[Address, Int, Opaque], why::MEMORY),
    local(28, "madvise", &[Address, Int, Int], why::MEMORY),
    special(29, "shmget", Special::Ipc, &[Int, Int, Flags], why::OBJECT),
    special(30, "shmat", Special::Ipc, &[Int, Opaque, Flags], why::OBJECT),
    special(31, "shmctl", Special::Ipc, &[Int, Int, Opaque], why::OBJECT),
    local(32, "dup", &[Fd], why::DUPLICATE).duplicates(When::If(&[&[Cmp::Below(0, 3), ITS_OWN]])),
    local(33, "dup2", &[Fd, Fd], why::DUPLICATE).duplicates(When::If(&[&[Cmp::Below(0, 3), Cmp::From(1, 3), ITS_OWN]])),
    local(34, "pause", &[], why::THREAD),
    local(35, "nanosleep", &[In(Fixed(16)), Out(Fixed(16))], why::CLOCK),
    local(36, "getitimer", &[Int, Out(Fixed(32))], why::TIMER),
    local(37, "alarm", &[Int], why::TIMER),
    local(38, "setitimer", &[Int, In(Fixed(32)), Out(Fixed(32))], why::TIMER),
    local(39, "getpid", &[], why::OWN_PID),
    special(40, "sendfile", Special::Splice, &[Fd, Fd, InOut(Fixed(8)), Int], why::COPY),
    special(41, "socket", Special::Socket, &[Int, Int, Int], why::SOCKET),
    special(42, "connect", Special::Socket, &[Fd, In(Arg(2)), Int], why::SOCKET),
    special(43, "accept", Special::Socket, &[Fd, Out(Pointed(2)), InOut(Fixed(4))], why::SOCKET),
    special(44, "sendto", Special::Socket, &[Fd, In(Arg(2)), Int, Flags, In(Arg(5)), Int], why::SOCKET_DATA),
    special(
        45,
        "recvfrom",
        Special::Socket,
        &[Fd, Out(Result(2)), Int, Flags, Out(Pointed(5)), InOut(Fixed(4))],
        why::SOCKET_DATA,
    ),
    special(46, "sendmsg", Special::Socket, &[Fd, Opaque, Flags], why::SOCKET_DATA),
    special(47, "recvmsg", Special::Socket, &[Fd, Opaque, Flags], why::SOCKET_DATA),
    special(48, "shutdown", Special::Socket, &[Fd, Int], why::SOCKET_DATA),
    special(49, "bind", Special::Socket, &[Fd, In(Arg(2)), Int], why::SOCKET),
    special(50, "listen", Special::Socket, &[Fd, Int], why::SOCKET),
    special(51, "getsockname", Special::Socket, &[Fd, Out(Pointed(2)), InOut(Fixed(4))], why::SOCKET_DATA),
    special(52, "getpeername", Special::Socket, &[Fd, Out(Pointed(2)), InOut(Fixed(4))], why::SOCKET_DATA),
    local(53, "socketpair", &[Int, Int, Int, Out(Fixed(8))], why::PAIR),
    special(54, "setsockopt", Special::Socket, &[Fd, Int, Int, In(Arg(4)), Int], why::SOCKET_DATA),
    special(55, "getsockopt", Special::Socket, &[Fd, Int, Int, Out(Pointed(4)), InOut(Fixed(4))], why::SOCKET_DATA),
    special(56, "clone", Special::Clone, &[Flags, Address, Out(Fixed(4)), Out(Fixed(4)), Address], why::CLONE),
    special(57, "fork", Special::Clone, &[], why::CLONE),
    special(58, "vfork", Special::Clone, &[], why::CLONE),
    local(59, "execve", &[Path, Opaque, Opaque], why::EXEC),
    local(60, "exit", &[Int], why::EXIT),
    special(61, "wait4", Special::Wait, &[Pid, Out(Fixed(4)), Flags, Out(Fixed(144))], why::CHILDREN),
    special(62, "kill", Special::Signal, &[Pid, Signal], why::SIGNAL),
    local(63, "uname", &[Out(Fixed(390))], why::UNAME),
    special(64, "semget", Special::Ipc, &[Int, Int, Flags], why::IPC),
    special(65, "semop", Special::Ipc, &[Int, In(Elements { count: 2, size: 6 }), Int], why::IPC),
    special(66, "semctl", Special::Ipc, &[Int, Int, Int, Opaque], why::IPC),
    local(67, "shmdt", &[Address], why::OBJECT),
    special(68, "msgget", Special::Ipc, &[Int, Flags], why::IPC),
    special(69, "msgsnd", Special::Ipc, &[Int, Opaque, Int, Flags], why::IPC),
    special(70, "msgrcv", Special::Ipc, &[Int, Opaque, Int, Int, Flags], why::IPC),
    special(71, "msgctl", Special::Ipc, &[Int, Int, Opaque], why::IPC),
    special(72, "fcntl", Special::Fcntl, &[Fd, Int, Opaque], why::FCNTL).when(FCNTL_OWNER).duplicates(FCNTL_DUPFD),
    local(73, "flock", &[Fd, Flags], why::LOCK),
    local(74, "fsync", &[Fd], why::STREAM),
    local(75, "fdatasync", &[Fd], why::STREAM),
    local(76, "truncate", &[Path, Int], why::PATH),
    local(77, "ftruncate", &[Fd, Int], why::STREAM),
    local(78, "getdents", &[Fd, Out(Result(2)), Int], why::STREAM),
    local(79, "getcwd", &[Out(Result(1)), Int], why::PATH),
    local(80, "chdir", &[Path], why::PATH),
    local(81, "fchdir", &[Fd], why::PATH),
    local(82, "rename", &[Path, Path], why::PATH),
    local(83, "mkdir", &[Path, Int], why::PATH),
    local(84, "rmdir", &[Path], why::PATH),
    local(85, "creat", &[Path, Int], why::PATH),
    local(86, "link", &[Path, Path], why::PATH),
    local(87, "unlink", &[Path], why::PATH),
    local(88, "symlink", &[Path, Path], why::PATH),
    local(89, "readlink", &[Path, Out(Result(2)), Int], why::PATH),
    local(90, "chmod", &[Path, Int], why::PATH),
    local(91, "fchmod", &[Fd, Int], why::STREAM),
    special(92, "chown", Special::Owner, &[Path, Id, Id], why::OWNER).when(HIGH_IDS),
    special(93, "fchown", Special::Owner, &[Fd, Id, Id], why::OWNER).when(HIGH_IDS),
    special(94, "lchown", Special::Owner, &[Path, Id, Id], why::OWNER).when(HIGH_IDS),
    local(95, "umask", &[Int], why::UMASK),
    local(96, "gettimeofday", &[Out(Fixed(16)), Out(Fixed(8))], why::CLOCK),
    special(97, "getrlimit", Special::Limits, &[Int, Out(Fixed(16))], why::LIMIT_READ).when(LIMITS_OF_HOME),
    special(98, "getrusage", Special::Usage, &[Int, Out(Fixed(144))], why::CHILDRENS_USAGE).when(OF_CHILDREN),
    local(99, "sysinfo", &[Out(Fixed(112))], why::MACHINE),
];
