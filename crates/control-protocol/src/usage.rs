//! What `tern usage` is told: the accounts of a home.

pub use policy::accounts::{Hours, Row, Used};
use serde::{Deserialize, Serialize};

/// The accounts of a home, as far as they were asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageReport {
    /// Name of the home.
    pub home: String,
    /// Use by user, host and day. Users see their own rows, root all.
    pub rows: Vec<Row>,
    /// How the machine spent its time, by day.
    pub hours: Vec<DayHours>,
}

/// How a machine spent one day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DayHours {
    /// Day, counted from 1970-01-01.
    pub day: u32,
    /// For how long it was in each state.
    pub hours: Hours,
}
