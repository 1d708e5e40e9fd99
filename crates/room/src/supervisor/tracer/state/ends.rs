//! Ends of children that their parents are to hear of when the bodies have ended.

use crate::state::orders::News;

/// The news for a parent when the body of its child has ended.
#[derive(Debug, Default)]
pub struct Ends {
    pub waiting: Vec<(i32, News)>,
}
