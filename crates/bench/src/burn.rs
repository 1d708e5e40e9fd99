//! Work for a processor alone.

use std::hint::black_box;
use std::time::Instant;

/// Computes, and does nothing else.
pub fn burn(rounds: u64) -> std::io::Result<f64> {
    let start = Instant::now();
    let mut state = 1u64;
    for _ in 0..rounds {
        // The generator of Knuth's MMIX.
        state = black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407));
    }
    Ok(start.elapsed().as_nanos() as f64 / rounds as f64)
}
