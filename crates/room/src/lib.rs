//! The hosting side: warden and porter.

mod porter;
mod usage;
pub mod warden;
