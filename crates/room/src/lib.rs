//! The hosting side: warden and porter.

mod guest_memory;
mod ids;
mod porter;
mod usage;
pub mod warden;

#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub use warden::fuzz;
