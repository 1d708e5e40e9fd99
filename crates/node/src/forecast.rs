//! What moving a process of this home would cost: bytes, and for how long it would stand still.

use ctl::moves::Wish;
use os::pages::Own;
use strategy::Costs;

/// In words; nothing of one whose memory cannot be looked at.
pub(crate) fn forecast(pid: i32, costs: &Costs) -> Option<String> {
    let own_bytes = own_bytes(pid).filter(|bytes| *bytes > 0)?;
    let wish = Wish::default();
    let stop_us = costs.freeze_us(own_bytes, 0);
    Some(words(own_bytes, stop_us, costs.choose(own_bytes, wish.max_freeze_us), wish))
}

fn own_bytes(pid: i32) -> Option<u64> {
    let areas = os::areas::read(pid).ok()?;
    let private: Vec<(u64, u64)> =
        areas.iter().filter(|a| !a.shared && !a.name.starts_with(b"[v")).map(|a| (a.start, a.end)).collect();
    let ranges = Own::of(pid).ok()?.within(&private).ok()?;
    Some(ranges.iter().map(|(start, end)| end - start).sum())
}

fn words(own_bytes: u64, stop_us: u64, way: strategy::Way, wish: Wish) -> String {
    let size = match own_bytes >> 20 {
        0 => format!("{} KiB", own_bytes >> 10),
        mib => format!("{mib} MiB"),
    };
    let still = format!("about {:.1} ms", stop_us as f64 / 1e3);
    match way {
        strategy::Way::Stop => format!("moving it would send {size}, and it would stand still for {still}"),
        strategy::Way::Pre => format!(
            "moving it would send at least {size}, while it runs, so that it stands still for at most {} ms if it writes slower than the link carries ({still} at once: --how stop)",
            wish.max_freeze_us / 1000
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large() {
        let wish = Wish::default();
        assert!(
            words(160 << 10, 1900, strategy::Way::Stop, wish)
                .contains("160 KiB, and it would stand still for about 1.9 ms")
        );
        assert!(words(1 << 30, 2_600_000, strategy::Way::Pre, wish).contains("at most 100 ms"));
        assert!(forecast(std::process::id() as i32, &Costs::default()).unwrap().contains("would send"));
    }
}
