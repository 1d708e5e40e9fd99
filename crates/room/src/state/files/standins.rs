//! Stand-ins: their device, the nodes of their file system, and what is known of regular files.

pub mod device;
pub mod file_table;
pub mod nodes;
pub mod requests;
