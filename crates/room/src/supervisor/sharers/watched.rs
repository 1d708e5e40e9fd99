//! A descriptor that an epoll instance watches.

use image::Watched;

/// A descriptor is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    /// PID of the process that watches.
    pub pid: i32,
    /// The number of the epoll instance in that process.
    pub epoll: i32,
    /// The events that are watched for.
    pub watched: Watched,
}
