//! Post-copy at the source: which pages are sent next. Requested pages go first, with their
//! neighbours; then the others, from the last request onwards, because most programs access memory
//! in ascending order.

use crate::Pace;
use crate::ranges::{Range, Ranges};
use std::collections::VecDeque;

/// Bytes sent for one request. More pages cost little beside the round trip (16 pages: 155 us, one
/// page: 60 us).
const AROUND_BYTES: u64 = 16 * 4096;
/// The largest batch that nobody requested, bytes.
const BATCH_BYTES_MAX: u64 = 256 << 10;
/// The least size of a batch, bytes.
const PAGE_BYTES: u64 = 4096;
/// Bounds of the bytes in flight. A requested page must not wait long behind them.
const WINDOW_BYTES: std::ops::RangeInclusive<u64> = (128 << 10)..=(8 << 20);
/// The most time until the newest bytes in flight are in place, microseconds. While they take less,
/// more bytes may be in flight.
const WAIT_US: u64 = 4000;
/// The most requests that are remembered. Pages of forgotten requests are sent anyway.
const ASKED_MAX: usize = 1024;

/// The pages that post-copy still has to send.
#[derive(Clone, Debug)]
pub struct Push {
    left: Ranges,
    /// The largest batch, bytes.
    batch_bytes: u64,
    asked: VecDeque<Range>,
    /// End of the last request, from which unrequested pages are sent.
    cursor: u64,
    on_the_way: VecDeque<(u64, u64)>,
    window_bytes: u64,
    all_bytes: u64,
    asked_bytes: u64,
}

impl Push {
    /// Creates the set of all pages to send. The stream itself keeps the rate of `pace`.
    pub fn new(left: Ranges, pace: Pace) -> Push {
        let (all_bytes, window_bytes) = (left.bytes(), 1 << 20);
        let batch_bytes = pace.buffer_bytes().unwrap_or(BATCH_BYTES_MAX).max(PAGE_BYTES);
        Push {
            left,
            batch_bytes,
            asked: VecDeque::new(),
            cursor: 0,
            on_the_way: VecDeque::new(),
            window_bytes,
            all_bytes,
            asked_bytes: 0,
        }
    }

    /// Restricts the pages in `part` to those in `there`. Returns the pages that are no longer
    /// sent.
    pub fn restrict(&mut self, part: &[Range], there: &[Range]) -> Vec<Range> {
        let mut vacant: Ranges = part.iter().flat_map(|range| self.left.remove(*range)).collect();
        let there: Vec<Range> = there.iter().flat_map(|range| vacant.remove(*range)).collect();
        there.into_iter().for_each(|range| self.left.insert(range));
        self.all_bytes -= vacant.bytes();
        vacant.iter().collect()
    }

    /// Notes that a thread waits for these pages. Pages in flight are not sent again.
    pub fn ask(&mut self, range: Range) {
        if self.asked.len() < ASKED_MAX && !self.left.within(range).is_empty() {
            self.asked.push_back(range);
        }
    }

    /// Gives the pages to send at `now_us`: ascending, at most one batch. Empty if the source must
    /// wait or everything is sent. `pushing`: send unrequested pages, too.
    pub fn next(&mut self, now_us: u64, pushing: bool) -> Vec<Range> {
        while let Some((start, end)) = self.asked.pop_front() {
            let around = start.saturating_add(AROUND_BYTES.min(self.batch_bytes));
            let until = end.max(around).min(start.saturating_add(self.batch_bytes));
            if until < end {
                self.asked.push_front((until, end));
            }
            let taken = self.take((start, until));
            if !taken.is_empty() {
                self.asked_bytes += bytes(&taken);
                return self.sent(taken, now_us);
            }
        }
        let batch = (self.window_bytes / 2).min(self.batch_bytes) & !4095;
        if !pushing || self.under_way() + batch > self.window_bytes {
            return Vec::new();
        }
        let (mut taken, mut room) = (Vec::new(), batch);
        while room > 0
            && let Some((start, end)) = self.left.next_from(self.cursor)
        {
            if taken.last().is_some_and(|(_, before)| start < *before) {
                break;
            }
            let end = end.min(start + room);
            self.left.remove((start, end));
            (self.cursor, room) = (end, room - (end - start));
            taken.push((start, end));
        }
        self.sent(taken, now_us)
    }

    fn take(&mut self, range: Range) -> Vec<Range> {
        let taken = self.left.remove(range);
        if let Some((_, end)) = taken.last() {
            self.cursor = *end;
        }
        taken
    }

    fn sent(&mut self, taken: Vec<Range>, now_us: u64) -> Vec<Range> {
        if !taken.is_empty() {
            self.on_the_way.push_back((bytes(&taken), now_us));
        }
        taken
    }

    /// Notes that the oldest batch in flight is in place.
    pub fn arrived(&mut self, now_us: u64) {
        let Some((_, sent_us)) = self.on_the_way.pop_front() else { return };
        let factor = if now_us.saturating_sub(sent_us) > 2 * WAIT_US { 0.7 } else { 1.2 };
        if factor < 1.0 || now_us.saturating_sub(sent_us) < WAIT_US {
            let wanted = (self.window_bytes as f64 * factor) as u64 & !4095;
            self.window_bytes = wanted.clamp(*WINDOW_BYTES.start(), *WINDOW_BYTES.end());
        }
    }

    fn under_way(&self) -> u64 {
        self.on_the_way.iter().map(|(bytes, _)| bytes).sum()
    }

    /// Gives the total bytes, the bytes not sent yet, and the bytes that were requested (with their
    /// neighbours).
    pub fn progress(&self) -> (u64, u64, u64) {
        (self.all_bytes, self.left.bytes(), self.asked_bytes)
    }
}

fn bytes(ranges: &[Range]) -> u64 {
    ranges.iter().map(|(start, end)| end - start).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 4096;
    const MIB: u64 = 1 << 20;

    fn push(mib: u64) -> Push {
        Push::new([(0, mib * MIB)].into_iter().collect(), Pace::default())
    }

    #[test]
    fn requests_come_first_with_their_neighbours_and_the_rest_follows() {
        let mut push = push(64);
        assert_eq!(push.next(0, true)[0].0, 0);
        push.ask((10 * MIB, 10 * MIB + PAGE));
        assert_eq!(push.next(0, true), [(10 * MIB, 10 * MIB + AROUND_BYTES)]);
        assert_eq!(push.next(0, true)[0].0, 10 * MIB + AROUND_BYTES);
        // A page in flight is not sent twice.
        push.ask((10 * MIB, 10 * MIB + PAGE));
        push.ask((MIB * 64, MIB * 65));
        assert!(push.next(0, false).is_empty());
    }

    #[test]
    fn everything_is_sent_once_whatever_is_asked() {
        let mut push = push(16);
        let (mut seen, mut now) = (Ranges::default(), 0);
        for n in 0u64.. {
            push.ask(((n * 7919) % 4096 * PAGE, (n * 7919) % 4096 * PAGE + PAGE));
            for range in push.next(now, true) {
                assert!(seen.within(range).is_empty());
                assert_eq!((range.0 % PAGE, range.1 % PAGE), (0, 0));
                seen.insert(range);
            }
            now += 100;
            push.arrived(now);
            if seen.bytes() == 16 * MIB {
                break;
            }
        }
        assert_eq!(push.progress().1, 0);
    }

    #[test]
    fn batches_are_bounded_and_requests_are_served_completely() {
        for (wished, most) in [(0, PAGE), (16 << 10, 16 << 10), (u64::MAX, MIB)] {
            let pace = Pace { buffer_bytes: Some(wished), ..Pace::default() };
            let mut push = Push::new([(0, 8 * MIB)].into_iter().collect(), pace);
            push.window_bytes = *WINDOW_BYTES.end();
            push.ask((MIB, 3 * MIB));
            let mut asked = Ranges::default();
            loop {
                let sent = push.next(0, false);
                assert!(bytes(&sent) <= most);
                if sent.is_empty() {
                    break;
                }
                sent.into_iter().for_each(|range| asked.insert(range));
            }
            assert_eq!(asked.within((MIB, 3 * MIB)), [(MIB, 3 * MIB)]);
            assert_eq!(bytes(&push.next(0, true)), most);
        }
    }

    #[test]
    fn absent_pages_are_not_sent() {
        let mut push = push(1);
        // The page that was requested meanwhile has been sent.
        push.ask((0, PAGE));
        assert_eq!(push.next(0, false), [(0, 16 * PAGE)]);
        assert_eq!(
            push.restrict(&[(0, 64 * PAGE)], &[(0, PAGE), (18 * PAGE, 19 * PAGE)]),
            [(16 * PAGE, 18 * PAGE), (19 * PAGE, 64 * PAGE)]
        );
        // Unrequested pages do not count as requested.
        assert_eq!(push.progress(), (MIB - 47 * PAGE, MIB - 63 * PAGE, 16 * PAGE));
        assert_eq!(push.restrict(&[(64 * PAGE, MIB)], &[]), [(64 * PAGE, MIB)]);
        assert_eq!(push.next(0, true), [(18 * PAGE, 19 * PAGE)]);
        assert_eq!(push.progress(), (17 * PAGE, 0, 16 * PAGE));
    }

    #[test]
    fn the_window_follows_the_link() {
        for (us_per_mib, bound) in [(1000, 2 * MIB..=8 * MIB), (80_000, 64 << 10..=192 << 10)] {
            let (mut push, mut now, mut free) = (push(1024), 0, 0);
            for _ in 0..2000 {
                while !push.next(now, true).is_empty() {}
                let Some((bytes, sent)) = push.on_the_way.front().copied() else { break };
                free = free.max(sent) + bytes * us_per_mib / MIB;
                now = now.max(free);
                push.arrived(now);
            }
            assert!(bound.contains(&push.window_bytes), "{us_per_mib}: {}", push.window_bytes);
        }
    }
}
