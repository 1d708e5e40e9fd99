//! What the layer `calls` keeps between a forwarded call and home's answer: how memory is packed,
//! and what follows from the result. Imports nothing above `state`.

pub mod after;
pub mod compared;
pub mod marshal;
pub mod message;
pub mod scheduled;
