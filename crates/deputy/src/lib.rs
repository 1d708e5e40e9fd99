//! The home side of a process whose body is away.
