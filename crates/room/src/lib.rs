//! The hosting side: warden and porter.
