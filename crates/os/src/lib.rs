//! The one crate that makes ptrace, seccomp, namespace, mount and cgroup calls.
