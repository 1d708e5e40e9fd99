//! The hosting side: warden and porter.

mod porter;
pub mod warden;
