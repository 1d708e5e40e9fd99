//! What moving a process of this home would cost: bytes, and for how long it would stand still.

use control_protocol::moves::{MoveOptions, Parts};
use migration_plan::{Experience, Route, Way, Whose};
use os::areas::Area;
use os::pages::Own;
use os::{process, sample};

/// Nodes for which it is said.
const NODES_MAX: usize = 4;

/// Of so many pages of a small process one is written while they are sent, about: most of all its
/// stack.
const WRITTEN_OF: u64 = 8;

/// What is known of a process that may be moved.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sight {
    whose: Whose,
    /// That would be sent, about.
    bytes: u64,
    parts: Parts,
}

/// In words: for each node to which any was moved, or for none by name; nothing of a process whose
/// memory cannot be looked at.
pub(crate) fn forecast(pid: i32, experience: &Experience) -> Vec<String> {
    let Some(sight) = look(pid).filter(|sight| sight.bytes > 0) else { return Vec::new() };
    let places = experience.places();
    match places[..] {
        [] => vec![words(sight, "", experience)],
        _ => places.into_iter().take(NODES_MAX).map(|to| words(sight, to, experience)).collect(),
    }
}

fn look(pid: i32) -> Option<Sight> {
    let areas = os::areas::read(pid).ok()?;
    let own = Own::of(pid).ok()?;
    let private = |a: &&Area| !a.shared && !a.name.starts_with(b"[v");
    let ranges = |of_file: bool| {
        let those = areas.iter().filter(private).filter(|a| (a.inode != 0) == of_file);
        own.within(&those.map(|a| (a.start, a.end)).collect::<Vec<_>>()).ok()
    };
    let copied: u64 = ranges(true)?.iter().map(|(start, end)| end - start).sum();
    let bytes = copied + sample::filled_bytes(pid, &ranges(false)?).ok()?;
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let (threads, descriptors) = (process::threads(pid).ok()?, process::descriptors(pid).ok()?);
    let parts =
        Parts { areas: count(areas.len()), threads: count(threads.len()), descriptors: count(descriptors.len()) };
    Some(Sight { whose: (pid, process::began(pid).ok()?), bytes, parts })
}

fn words(sight: Sight, to: &str, experience: &Experience) -> String {
    let wish = MoveOptions::default();
    let costs = experience.costs(Route { to, how: "stop" }, sight.parts);
    let freeze_us = |how: &str, bytes| experience.freeze_us(sight.whose, Route { to, how }, sight.parts, bytes);
    let freeze_ms = |how: &str, bytes| freeze_us(how, bytes) as f64 / 1e3;
    let (still_ms, ahead_ms) = (freeze_ms("stop", sight.bytes), freeze_ms("pre", sight.bytes / WRITTEN_OF));
    let to = if to.is_empty() { String::new() } else { format!(" to {to}") };
    let size = match sight.bytes >> 20 {
        0 => format!("{} KiB", sight.bytes >> 10),
        _ => format!("{:.1} MiB", sight.bytes as f64 / f64::from(1 << 20)),
    };
    let still = format!("about {still_ms:.1} ms");
    match costs.choose(sight.bytes, wish.max_freeze_us) {
        Way::Copy => format!(
            "moving it{to} would send {size} while it runs, and it would stand still for about {ahead_ms:.1} ms ({still} at once: --how stop)",
        ),
        Way::Stop => format!("moving it{to} would send {size}, and it would stand still for {still}"),
        Way::Pre => format!(
            "moving it{to} would send at least {size}, while it runs, so that it stands still for at most {} ms if it writes slower than the link carries ({still} at once: --how stop)",
            wish.max_freeze_us / 1000
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use migration_plan::Measured;

    #[test]
    fn small_and_large() {
        let mut experience = Experience::default();
        let (whose, parts) = ((7, 1), Parts { areas: 20, threads: 1, descriptors: 3 });
        assert_eq!(
            words(Sight { whose, bytes: 160 << 10, parts }, "", &experience),
            "moving it would send 160 KiB while it runs, and it would stand still for about 1.6 ms (about 2.0 ms at once: --how stop)"
        );
        let measured = Measured { parts, frozen_bytes: 1 << 20, freeze_us: 3000 };
        (0..20).for_each(|_| experience.moved(Route { to: "n2", how: "stop" }, measured));
        let large = words(Sight { whose, bytes: 1 << 30, parts }, "n2", &experience);
        assert!(
            large.starts_with("moving it to n2 would send at least 1024.0 MiB") && large.contains("at most 100 ms")
        );
        let me = std::process::id() as i32;
        assert!(forecast(me, &Experience::default())[0].starts_with("moving it would send"));
        experience.moved(Route { to: "n3", how: "stop" }, measured);
        assert_eq!(forecast(me, &experience).len(), 2);
    }
}
