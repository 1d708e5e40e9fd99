//! The order in which guests leave a node that is about to go, and which of them can leave before
//! its deadline.
//!
//! All guests leave over the node's one link, so how many have left at a time depends on their
//! order alone, and is most where the quickest go first.

/// Time of a guest's way whatever its memory, milliseconds.
const FIXED_MS: u64 = 100;

/// One guest's place in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Index of the guest in the list that was given.
    pub guest: usize,
    /// When the guest has left, milliseconds from now, if all before it went.
    pub ends_ms: u64,
    /// Whether that is before the deadline.
    pub fits: bool,
}

/// Plans in which order guests of these sizes (bytes) leave over a link that carries `bytes_per_s`,
/// and which of them have left within `by_ms`. Guests that do not fit come last, and take nobody's
/// time.
pub fn drain(sizes: &[u64], bytes_per_s: u64, by_ms: Option<u64>) -> Vec<Turn> {
    let takes_ms = |bytes: u64| {
        let ms = u128::from(bytes) * 1000 / u128::from(bytes_per_s.max(1));
        FIXED_MS.saturating_add(u64::try_from(ms).unwrap_or(u64::MAX))
    };
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by_key(|guest| (sizes[*guest], *guest));
    let mut now_ms: u64 = 0;
    let turn = |guest: usize| {
        let ends_ms = now_ms.saturating_add(takes_ms(sizes[guest]));
        let fits = by_ms.is_none_or(|by| ends_ms <= by);
        now_ms = if fits { ends_ms } else { now_ms };
        Turn { guest, ends_ms, fits }
    };
    order.into_iter().map(turn).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1_000_000;

    fn turns(sizes: &[u64], by_ms: Option<u64>) -> Vec<(usize, u64, bool)> {
        drain(sizes, 100 * MB, by_ms).into_iter().map(|turn| (turn.guest, turn.ends_ms, turn.fits)).collect()
    }

    #[test]
    fn the_quickest_go_first_and_the_plan_says_who_does_not_fit() {
        assert_eq!(turns(&[200 * MB, 0, 50 * MB], None), [(1, 100, true), (2, 700, true), (0, 2800, true)]);
        let by = Some(1000);
        assert_eq!(turns(&[200 * MB, 0, 50 * MB], by), [(1, 100, true), (2, 700, true), (0, 2800, false)]);
        let ten = [200 * MB; 10];
        assert_eq!(turns(&ten, Some(10_000)).iter().filter(|turn| turn.2).count(), 4, "2.1 s each");
        assert_eq!(turns(&[], by), []);
    }

    #[test]
    fn absurd_numbers_end() {
        let turns = drain(&[u64::MAX, u64::MAX, 0], 0, Some(u64::MAX));
        assert!(turns[0].fits && turns.iter().all(|turn| turn.ends_ms >= 100));
    }
}
