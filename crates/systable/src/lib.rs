//! The table of system calls.
