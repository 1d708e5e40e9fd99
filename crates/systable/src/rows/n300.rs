//! Numbers 300 to the end.

use super::{Row, go_home, local, special, unused_range, why};
use crate::arg::{Arg::*, Len::*};
use crate::class::Special;
use crate::errno::{EINVAL, ENOSYS, EOPNOTSUPP, EPERM};
use crate::filter::MARK;
use crate::when::{Cmp, When};

/// Descriptors that may be stand-ins, as the first argument; or the tracer has seen that it is one.
const STDIO_OR_SHOWN: When = When::If(&[&[Cmp::Below(0, 3)], &[Cmp::Marked(0, MARK)]]);
/// The same as the first or third argument.
const STDIO_FROM_TO: When = When::If(&[&[Cmp::Below(0, 3)], &[Cmp::Below(2, 3)]]);
/// Limits are set, or another process' limits are asked for.
const SETS_OR_OTHER: When = When::Unless(&[&[Cmp::Is(0, 0), Cmp::Null(2)]]);

pub(super) const ROWS: &[Row] = &[
    go_home(300, "fanotify_init", ENOSYS, &[Flags, Flags], why::WATCH),
    go_home(301, "fanotify_mark", ENOSYS, &[Fd, Flags, Flags, Fd, Path], why::WATCH),
    special(302, "prlimit64", Special::Limits, &[Pid, Int, In(Fixed(16)), Out(Fixed(16))], why::LIMIT)
        .when(SETS_OR_OTHER),
    go_home(303, "name_to_handle_at", EOPNOTSUPP, &[Fd, Path, Opaque, Out(Fixed(4)), Flags], why::HANDLE),
    go_home(304, "open_by_handle_at", EPERM, &[Fd, Opaque, Flags], why::HANDLE),
    go_home(305, "clock_adjtime", EPERM, &[Int, InOut(Fixed(208))], why::ADMIN),
    local(306, "syncfs", &[Fd], why::STREAM),
    special(307, "sendmmsg", Special::Socket, &[Fd, Opaque, Int, Flags], why::SOCKET_DATA),
    go_home(308, "setns", EPERM, &[Fd, Flags], why::MOUNT),
    local(309, "getcpu", &[Out(Fixed(4)), Out(Fixed(4)), Address], why::MACHINE),
    go_home(310, "process_vm_readv", EPERM, &[Pid, IovOut(2), Int, Opaque, Int, Flags], why::TRACE),
    go_home(311, "process_vm_writev", EPERM, &[Pid, IovIn(2), Int, Opaque, Int, Flags], why::TRACE),
    go_home(312, "kcmp", EPERM, &[Pid, Pid, Int, Int, Int], why::TRACE),
    go_home(313, "finit_module", EPERM, &[Fd, CStr(4096), Flags], why::MODULE),
    local(314, "sched_setattr", &[Pid, Opaque, Flags], why::SCHED),
    local(315, "sched_getattr", &[Pid, Out(Arg(2)), Int, Flags], why::SCHED),
    local(316, "renameat2", &[Fd, Path, Fd, Path, Flags], why::PATH),
    go_home(317, "seccomp", EINVAL, &[Int, Flags, Opaque], why::FILTER),
    local(318, "getrandom", &[Out(Result(1)), Int, Flags], why::RANDOM),
    local(319, "memfd_create", &[CStr(250), Flags], why::MEMORY),
    go_home(320, "kexec_file_load", EPERM, &[Fd, Fd, Int, CStr(4096), Flags], why::MODULE),
    go_home(321, "bpf", EPERM, &[Int, Opaque, Int], why::MODULE),
    local(322, "execveat", &[Fd, Path, Opaque, Opaque, Flags], why::EXEC),
    go_home(323, "userfaultfd", EPERM, &[Flags], why::FAULTS),
    local(324, "membarrier", &[Int, Flags, Int], why::FUTEX),
    local(325, "mlock2", &[Address, Int, Flags], why::MEMORY),
    special(
        326,
        "copy_file_range",
        Special::Splice,
        &[Fd, InOut(Fixed(8)), Fd, InOut(Fixed(8)), Int, Flags],
        why::STAND_IN,
    )
    .when(STDIO_FROM_TO),
    local(327, "preadv2", &[Fd, IovOut(2), Int, Int, Int, Flags], why::STREAM),
    local(328, "pwritev2", &[Fd, IovIn(2), Int, Int, Int, Flags], why::STREAM),
    local(329, "pkey_mprotect", &[Address, Int, Flags, Int], why::MEMORY),
    local(330, "pkey_alloc", &[Flags, Flags], why::MEMORY),
    local(331, "pkey_free", &[Int], why::MEMORY),
    special(332, "statx", Special::Stat, &[Fd, Path, Flags, Flags, Out(Fixed(256))], why::STAND_IN)
        .when(STDIO_OR_SHOWN),
    local(
        333,
        "io_pgetevents",
        &[Address, Int, Int, Out(ResultElements { count: 2, size: 32 }), In(Fixed(16)), Opaque],
        why::AIO,
    ),
    local(334, "rseq", &[Address, Int, Flags, Int], why::THREAD),
    local(335, "uretprobe", &[], why::PROBE),
    local(336, "uprobe", &[], why::PROBE),
    unused_range(337, 423),
    special(424, "pidfd_send_signal", Special::Signal, &[Fd, Signal, In(Fixed(128)), Flags], why::SIGNAL),
    go_home(425, "io_uring_setup", ENOSYS, &[Int, Opaque], why::RING),
    go_home(426, "io_uring_enter", ENOSYS, &[Fd, Int, Int, Flags, Opaque, Int], why::RING),
    go_home(427, "io_uring_register", ENOSYS, &[Fd, Int, Opaque, Int], why::RING),
    go_home(428, "open_tree", EPERM, &[Fd, Path, Flags], why::MOUNT),
    go_home(429, "move_mount", EPERM, &[Fd, Path, Fd, Path, Flags], why::MOUNT),
    go_home(430, "fsopen", EPERM, &[CStr(4096), Flags], why::MOUNT),
    go_home(431, "fsconfig", EPERM, &[Fd, Int, CStr(256), Opaque, Int], why::MOUNT),
    go_home(432, "fsmount", EPERM, &[Fd, Flags, Flags], why::MOUNT),
    go_home(433, "fspick", EPERM, &[Fd, Path, Flags], why::MOUNT),
    special(434, "pidfd_open", Special::Signal, &[Pid, Flags], why::SIGNAL),
    special(435, "clone3", Special::Clone, &[Opaque, Int], why::CLONE),
    local(436, "close_range", &[Fd, Fd, Flags], why::DESCRIPTOR),
    local(437, "openat2", &[Fd, Path, In(Arg(3)), Int], why::PATH),
    go_home(438, "pidfd_getfd", EPERM, &[Fd, Fd, Flags], why::TRACE),
    local(439, "faccessat2", &[Fd, Path, Flags, Flags], why::PATH),
    local(440, "process_madvise", &[Fd, Opaque, Int, Int, Flags], why::MEMORY),
    local(
        441,
        "epoll_pwait2",
        &[Fd, Out(ResultElements { count: 2, size: 12 }), Int, In(Fixed(16)), In(Arg(5)), Int],
        why::READY,
    ),
    go_home(442, "mount_setattr", EPERM, &[Fd, Path, Flags, In(Arg(4)), Int], why::MOUNT),
    go_home(443, "quotactl_fd", EPERM, &[Fd, Int, Id, Opaque], why::ADMIN),
    go_home(444, "landlock_create_ruleset", ENOSYS, &[In(Arg(1)), Int, Flags], why::SANDBOX),
    go_home(445, "landlock_add_rule", ENOSYS, &[Fd, Int, Opaque, Flags], why::SANDBOX),
    go_home(446, "landlock_restrict_self", ENOSYS, &[Fd, Flags], why::SANDBOX),
    local(447, "memfd_secret", &[Flags], why::MEMORY),
    local(448, "process_mrelease", &[Fd, Flags], why::MEMORY),
    local(449, "futex_waitv", &[In(Elements { count: 1, size: 24 }), Int, Flags, In(Fixed(16)), Int], why::FUTEX),
    local(450, "set_mempolicy_home_node", &[Address, Int, Int, Flags], why::NUMA),
    local(451, "cachestat", &[Fd, In(Fixed(16)), Out(Fixed(40)), Flags], why::CACHE),
    local(452, "fchmodat2", &[Fd, Path, Int, Flags], why::PATH),
    local(453, "map_shadow_stack", &[Address, Int, Flags], why::MEMORY),
    local(454, "futex_wake", &[Address, Int, Int, Flags], why::FUTEX),
    local(455, "futex_wait", &[Address, Int, Int, Flags, In(Fixed(16)), Int], why::FUTEX),
    local(456, "futex_requeue", &[In(Fixed(48)), Flags, Int, Int], why::FUTEX),
    go_home(457, "statmount", ENOSYS, &[Opaque, Out(Arg(2)), Int, Flags], why::MOUNT_TABLE),
    go_home(
        458,
        "listmount",
        ENOSYS,
        &[Opaque, Out(ResultElements { count: 2, size: 8 }), Int, Flags],
        why::MOUNT_TABLE,
    ),
    go_home(459, "lsm_get_self_attr", ENOSYS, &[Int, Opaque, InOut(Fixed(4)), Flags], why::LABEL),
    go_home(460, "lsm_set_self_attr", ENOSYS, &[Int, Opaque, Int, Flags], why::LABEL),
    go_home(461, "lsm_list_modules", ENOSYS, &[Out(Pointed(1)), InOut(Fixed(4)), Flags], why::LABEL),
    local(462, "mseal", &[Address, Int, Flags], why::MEMORY),
    local(463, "setxattrat", &[Fd, Path, Flags, CStr(256), Opaque, Int], why::PATH),
    local(464, "getxattrat", &[Fd, Path, Flags, CStr(256), Opaque, Int], why::PATH),
    local(465, "listxattrat", &[Fd, Path, Flags, Out(Result(4)), Int], why::PATH),
    local(466, "removexattrat", &[Fd, Path, Flags, CStr(256)], why::PATH),
    go_home(467, "open_tree_attr", EPERM, &[Fd, Path, Flags, In(Arg(4)), Int], why::MOUNT),
    local(468, "file_getattr", &[Fd, Path, Out(Arg(3)), Int, Flags], why::PATH),
    local(469, "file_setattr", &[Fd, Path, In(Arg(3)), Int, Flags], why::PATH),
    go_home(470, "listns", ENOSYS, &[Opaque, Out(ResultElements { count: 2, size: 8 }), Int, Flags], why::MOUNT_TABLE),
];
