//! Describes a process of this machine, as a room can hold it: from the kernel's mouth, and never
//! from the process'.
//!
//! [`place`] describes a process that is about to become a deputy. [`snapshot`] describes one that
//! runs and is to move: memory areas, files, descriptors ([`descriptor_kind`]), and what other
//! processes have in common with it ([`others`], [`memory_group`], [`checkpoint::check_others`]).
//! State that cannot
//! be carried is refused here, before anything is done ([`confinement`], [`barred`]). [`picture`]
//! shows the result without moving anything.
//!
//! Imports `proxy` (its `mounts` alone) and `deputy`.

pub mod barred;
pub mod confinement;
pub mod descriptor_kind;
pub mod held_descriptors;
pub mod memory_group;
pub mod memory_sharing;
pub mod others;
pub mod picture;
pub mod place;
pub mod room_names;
pub mod snapshot;
