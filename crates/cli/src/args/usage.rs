//! The arguments of `tern usage`.

use clap::Args;

use super::Output;

/// The arguments of `tern usage`.
#[derive(Clone, Debug, Args)]
pub struct Usage {
    /// Number of days, today included
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=400))]
    pub days: u32,
    /// The columns that get rows of their own, with commas between: day, user, host
    #[arg(long, value_enum, value_delimiter = ',', default_value = "user,host")]
    pub by: Vec<UsageBy>,
    /// How to show the result; JSON has all rows
    #[command(flatten)]
    pub output: Output,
}

/// A column of `tern usage` that gets rows of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum UsageBy {
    /// The day of use
    Day,
    /// The user's id
    User,
    /// The node where it was used
    Host,
}
