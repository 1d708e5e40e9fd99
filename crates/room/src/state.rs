//! The state that a warden's threads share: [`shared::Shared`], and the registries that it holds,
//! one module per duty. A registry owns its type and the methods that need nothing but itself.
//!
//! What only one of the layers above uses is in a directory of that layer's name: `state/files`,
//! `state/calls`, `state/transfer`.
//!
//! Imports `sandbox`. `supervisor`, `files` and `calls` import it, and their threads act on what
//! lies here.

pub mod answers;
pub mod call_counts;
pub mod calls;
pub mod contain;
pub mod cpu_times;
pub mod device_numbers;
pub mod due_before_return;
pub mod exec_rights;
pub mod fences;
pub mod fifos;
pub mod file_locks;
pub mod files;
pub mod filtering;
pub mod foreign_vdso;
pub mod going_home;
pub mod guests;
pub mod home_files;
pub mod home_link;
pub mod home_mounts;
pub mod ledger;
pub mod listeners;
pub mod oom_score;
pub mod orders;
pub mod pending;
pub mod readiness;
pub mod restarting_calls;
pub mod shared;
pub mod signal_action;
pub mod socket_pairs;
pub mod streams;
pub mod suspension;
pub mod transfer;
pub mod unpassed;
pub mod wall;
pub mod ways;
