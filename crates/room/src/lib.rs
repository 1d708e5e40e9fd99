//! The hosting side: warden and porter.

mod calls;
mod files;
mod sandbox;
mod state;
mod supervisor;
pub mod warden;

#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub use crate::warden::fuzz;
