//! Numbers 200 to 299.

use super::{HIGH_IDS_AT, ITS_OWN, Row, go_home, local, refused, special, unused, why};
use crate::arg::{Arg::*, Len::*};
use crate::class::Special;
use crate::errno::{ENOSYS, EPERM};
use crate::filter::MARK;
use crate::when::{Cmp, When};

/// Descriptors that may be stand-ins, as the first argument.
const STDIO: When = When::If(&[&[Cmp::Below(0, 3)]]);
/// The same, or the tracer has seen that it is one.
const STDIO_OR_SHOWN: When = When::If(&[&[Cmp::Below(0, 3), Cmp::Marked(0, 0)], &[Cmp::Marked(0, MARK)]]);
/// The same as the first or second argument.
const STDIO_EITHER: When = When::If(&[&[Cmp::Below(0, 3)], &[Cmp::Below(1, 3)]]);
/// The same as the first or third argument.
const STDIO_FROM_TO: When = When::If(&[&[Cmp::Below(0, 3)], &[Cmp::Below(2, 3)]]);

/// The operation is `EPOLL_CTL_ADD`.
const ADDS: When = When::If(&[&[Cmp::Is(1, 1)]]);
/// The flag `EFD_SEMAPHORE` is given.
const SEMAPHORE: When = When::If(&[&[Cmp::Bits(1, 1, 1)]]);

/// Of another thread than the caller's, as its first argument says.
const ANOTHER: When = When::Unless(&[&[Cmp::Is(0, 0)]]);

pub(super) const ROWS: &[Row] = &[
    special(200, "tkill", Special::Signal, &[Tid, Signal], why::SIGNAL),
    local(201, "time", &[Out(Fixed(8))], why::CLOCK),
    local(202, "futex", &[Address, Int, Int, Opaque, Address, Int], why::FUTEX),
    special(203, "sched_setaffinity", Special::Schedule, &[Pid, Int, In(Arg(1))], why::SCHED).when(ANOTHER),
    special(204, "sched_getaffinity", Special::Schedule, &[Pid, Int, Out(Result(1))], why::SCHED).when(ANOTHER),
    unused(205, "set_thread_area"),
    local(206, "io_setup", &[Int, InOut(Fixed(8))], why::AIO),
    local(207, "io_destroy", &[Address], why::AIO),
    local(
        208,
        "io_getevents",
        &[Address, Int, Int, Out(ResultElements { count: 2, size: 32 }), In(Fixed(16))],
        why::AIO,
    ),
    local(209, "io_submit", &[Address, Int, Opaque], why::AIO),
    local(210, "io_cancel", &[Address, Opaque, Out(Fixed(32))], why::AIO),
    unused(211, "get_thread_area"),
    unused(212, "lookup_dcookie"),
    local(213, "epoll_create", &[Int], why::READY),
    unused(214, "epoll_ctl_old"),
    unused(215, "epoll_wait_old"),
    local(216, "remap_file_pages", &[Address, Int, Flags, Int, Flags], why::MEMORY),
    local(217, "getdents64", &[Fd, Out(Result(2)), Int], why::STREAM),
    local(218, "set_tid_address", &[Address], why::THREAD),
    local(219, "restart_syscall", &[], why::THREAD),
    special(220, "semtimedop", Special::Ipc, &[Int, In(Elements { count: 2, size: 6 }), Int, In(Fixed(16))], why::IPC),
    special(221, "fadvise64", Special::Seek, &[Fd, Int, Int, Int], why::STAND_IN).when(STDIO),
    local(222, "timer_create", &[Int, Opaque, Out(Fixed(4))], why::TIMER),
    local(223, "timer_settime", &[Int, Flags, In(Fixed(32)), Out(Fixed(32))], why::TIMER),
    local(224, "timer_gettime", &[Int, Out(Fixed(32))], why::TIMER),
    local(225, "timer_getoverrun", &[Int], why::TIMER),
    local(226, "timer_delete", &[Int], why::TIMER),
    go_home(227, "clock_settime", EPERM, &[Int, In(Fixed(16))], why::ADMIN),
    local(228, "clock_gettime", &[Int, Out(Fixed(16))], why::CLOCK),
    local(229, "clock_getres", &[Int, Out(Fixed(16))], why::CLOCK),
    local(230, "clock_nanosleep", &[Int, Flags, In(Fixed(16)), Out(Fixed(16))], why::CLOCK),
    local(231, "exit_group", &[Int], why::EXIT),
    local(232, "epoll_wait", &[Fd, Out(ResultElements { count: 2, size: 12 }), Int, Int], why::READY),
    special(233, "epoll_ctl", Special::Watch, &[Fd, Int, Fd, In(Fixed(12))], why::NOT_WATCHED).when(ADDS),
    special(234, "tgkill", Special::Signal, &[Pid, Tid, Signal], why::SIGNAL),
    local(235, "utimes", &[Path, In(Fixed(32))], why::PATH),
    unused(236, "vserver"),
    local(237, "mbind", &[Address, Int, Int, Opaque, Int, Flags], why::NUMA),
    local(238, "set_mempolicy", &[Int, Opaque, Int], why::NUMA),
    local(239, "get_mempolicy", &[Out(Fixed(4)), Opaque, Int, Address, Flags], why::NUMA),
    go_home(240, "mq_open", ENOSYS, &[CStr(256), Flags, Int, In(Fixed(64))], why::IPC),
    go_home(241, "mq_unlink", ENOSYS, &[CStr(256)], why::IPC),
    go_home(242, "mq_timedsend", ENOSYS, &[Fd, In(Arg(2)), Int, Int, In(Fixed(16))], why::IPC),
    go_home(243, "mq_timedreceive", ENOSYS, &[Fd, Out(Result(2)), Int, Out(Fixed(4)), In(Fixed(16))], why::IPC),
    go_home(244, "mq_notify", ENOSYS, &[Fd, Opaque], why::IPC),
    go_home(245, "mq_getsetattr", ENOSYS, &[Fd, In(Fixed(64)), Out(Fixed(64))], why::IPC),
    go_home(246, "kexec_load", EPERM, &[Int, Int, Opaque, Flags], why::MODULE),
    special(247, "waitid", Special::Wait, &[Int, Pid, Out(Fixed(128)), Flags, Out(Fixed(144))], why::CHILDREN),
    go_home(248, "add_key", ENOSYS, &[CStr(32), CStr(4096), In(Arg(3)), Int, Int], why::KEYS),
    go_home(249, "request_key", ENOSYS, &[CStr(32), CStr(4096), CStr(4096), Int], why::KEYS),
    go_home(250, "keyctl", ENOSYS, &[Int, Opaque, Opaque, Opaque, Opaque], why::KEYS),
    special(251, "ioprio_set", Special::Schedule, &[Int, Pid, Int], why::SCHEDULED),
    special(252, "ioprio_get", Special::Schedule, &[Int, Pid], why::SCHEDULED),
    special(253, "inotify_init", Special::Socket, &[], why::WATCH),
    special(254, "inotify_add_watch", Special::Socket, &[Fd, Path, Flags], why::WATCH),
    special(255, "inotify_rm_watch", Special::Socket, &[Fd, Int], why::WATCH),
    local(256, "migrate_pages", &[Pid, Int, Opaque, Opaque], why::NUMA),
    local(257, "openat", &[Fd, Path, Flags, Int], why::PATH),
    local(258, "mkdirat", &[Fd, Path, Int], why::PATH),
    local(259, "mknodat", &[Fd, Path, Int, Int], why::PATH),
    special(260, "fchownat", Special::Owner, &[Fd, Path, Id, Id, Flags], why::OWNER).when(HIGH_IDS_AT),
    local(261, "futimesat", &[Fd, Path, In(Fixed(32))], why::PATH),
    special(262, "newfstatat", Special::Stat, &[Fd, Path, Out(Fixed(144)), Flags], why::STAND_IN).when(STDIO_OR_SHOWN),
    local(263, "unlinkat", &[Fd, Path, Flags], why::PATH),
    local(264, "renameat", &[Fd, Path, Fd, Path], why::PATH),
    local(265, "linkat", &[Fd, Path, Fd, Path, Flags], why::PATH),
    local(266, "symlinkat", &[Path, Fd, Path], why::PATH),
    local(267, "readlinkat", &[Fd, Path, Out(Result(3)), Int], why::PATH),
    local(268, "fchmodat", &[Fd, Path, Int], why::PATH),
    local(269, "faccessat", &[Fd, Path, Flags], why::PATH),
    local(270, "pselect6", &[Int, Opaque, Opaque, Opaque, InOut(Fixed(16)), Opaque], why::READY),
    local(271, "ppoll", &[InOut(Elements { count: 1, size: 8 }), Int, InOut(Fixed(16)), In(Arg(4)), Int], why::READY),
    go_home(272, "unshare", EPERM, &[Flags], why::MOUNT),
    local(273, "set_robust_list", &[Address, Int], why::THREAD),
    local(274, "get_robust_list", &[Tid, Out(Fixed(8)), Out(Fixed(8))], why::THREAD),
    special(275, "splice", Special::Splice, &[Fd, InOut(Fixed(8)), Fd, InOut(Fixed(8)), Int, Flags], why::STAND_IN)
        .when(STDIO_FROM_TO),
    special(276, "tee", Special::Splice, &[Fd, Fd, Int, Flags], why::STAND_IN).when(STDIO_EITHER),
    local(277, "sync_file_range", &[Fd, Int, Int, Flags], why::STREAM),
    special(278, "vmsplice", Special::Splice, &[Fd, Opaque, Int, Flags], why::STAND_IN).when(STDIO),
    local(279, "move_pages", &[Pid, Int, Opaque, Opaque, Opaque, Flags], why::NUMA),
    local(280, "utimensat", &[Fd, Path, In(Fixed(32)), Flags], why::PATH),
    local(281, "epoll_pwait", &[Fd, Out(ResultElements { count: 2, size: 12 }), Int, Int, In(Arg(5)), Int], why::READY),
    special(282, "signalfd", Special::SignalFd, &[Fd, In(Arg(2)), Int], why::SIGNALFD),
    local(283, "timerfd_create", &[Int, Flags], why::TIMER),
    local(284, "eventfd", &[Int], why::EVENTFD),
    local(285, "fallocate", &[Fd, Flags, Int, Int], why::STREAM),
    local(286, "timerfd_settime", &[Fd, Flags, In(Fixed(32)), Out(Fixed(32))], why::TIMER),
    local(287, "timerfd_gettime", &[Fd, Out(Fixed(32))], why::TIMER),
    special(288, "accept4", Special::Socket, &[Fd, Out(Pointed(2)), InOut(Fixed(4)), Flags], why::SOCKET),
    special(289, "signalfd4", Special::SignalFd, &[Fd, In(Arg(2)), Int, Flags], why::SIGNALFD),
    special(290, "eventfd2", Special::Semaphore, &[Int, Flags], why::SEMAPHORE).when(SEMAPHORE),
    local(291, "epoll_create1", &[Flags], why::READY),
    local(292, "dup3", &[Fd, Fd, Flags], why::DUPLICATE).duplicates(When::If(&[&[
        Cmp::Below(0, 3),
        Cmp::From(1, 3),
        ITS_OWN,
    ]])),
    local(293, "pipe2", &[Out(Fixed(8)), Flags], why::PIPE),
    special(294, "inotify_init1", Special::Socket, &[Flags], why::WATCH),
    local(295, "preadv", &[Fd, IovOut(2), Int, Int, Int], why::STREAM),
    local(296, "pwritev", &[Fd, IovIn(2), Int, Int, Int], why::STREAM),
    special(297, "rt_tgsigqueueinfo", Special::Signal, &[Pid, Tid, Signal, In(Fixed(128))], why::SIGNAL),
    refused(298, "perf_event_open", EPERM, &[Opaque, Pid, Int, Fd, Flags], why::TRACE),
    special(299, "recvmmsg", Special::Socket, &[Fd, Opaque, Int, Flags, InOut(Fixed(16))], why::SOCKET_DATA),
];
