//! The binary: daemon, tool and roles.
fn main() {}
