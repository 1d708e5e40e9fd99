//! How much of a process' memory goes at once over a link, how fast, and whether it is packed: from what was measured while it was sent.

use serde::{Deserialize, Serialize};

/// What goes at once, at most and at least, bytes.
const BATCH_BYTES: std::ops::RangeInclusive<u64> = (32 << 10)..=(512 << 10);
/// What goes at once should take no longer, microseconds: what others send on the same link waits so long behind it.
const BATCH_US: f64 = 10_000.0;
/// What may lie in a socket unsent: what others send waits behind it. Less than this has who sends wait for the link so often that fast ones run dry; ...
pub const UNSENT_BYTES: std::ops::RangeInclusive<u64> = (256 << 10)..=(2 << 20);
/// ... more, if it is gone as soon as this, microseconds.
const UNSENT_US: f64 = 1500.0;
/// With a given rate, what goes at once is what may go in this time, microseconds ...
const PACED_US: f64 = 50_000.0;
/// ... a page at least.
const PAGE_BYTES: u64 = 4096;
/// What may be wished to go at once, bytes; it does in pieces of the least of that.
pub const BUFFER_BYTES: std::ops::RangeInclusive<u64> = 1024..=(1 << 20);
/// The least rate that can be kept to, bytes per second: a page goes ten times in half a second.
pub const RATE_LEAST: u64 = 100_000;
/// Measurements weigh half of what one weighs that is so many bytes newer.
const MEMORY_BYTES: f64 = (2 << 20) as f64;
/// What packing is believed to take before it was tried, microseconds per byte (zstd at level -1, random bytes: 3 GB/s; a Python heap: 0.7 GB/s).
const PACK_US_AT_FIRST: f64 = 1.0 / 700.0;
/// Packing must save so much of the time.
const WORTH: f64 = 0.9;
/// After a try in vain so many batches go unpacked, at first and at most: random bytes cost less than 1% that way.
const SKIPPED: std::ops::RangeInclusive<u32> = 1..=64;

/// A link that takes longer for a byte than this is slow, microseconds: 200 MB/s. A page is hashed at 1 GB/s or more at either end, and not all of them will be the same.
const SLOW_US: f64 = 1.0 / 200.0;
/// That is no passing thing: who takes pages may stand still for a tenth of a second, while its kernel looks for memory, and the link looks slow. So those measurements last longer, bytes,
const LINK_MEMORY_BYTES: f64 = (64 << 20) as f64;
/// and say nothing before so much was sent, or sending took so long.
const KNOWN_AFTER_BYTES: f64 = (32 << 20) as f64;
const KNOWN_AFTER_US: f64 = 250_000.0;

/// Where packing took too long for a link that is so many times slower than it should be, so many batches go unpacked until it is tried again, at first and at most: what made it
/// slow may be over.
const SLOW_LINK: f64 = 50.0;
const DOUBTED: std::ops::RangeInclusive<u32> = 4..=1024;

/// A mean of costs per byte that forgets.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    us: f64,
    bytes: f64,
}

impl Mean {
    fn add(&mut self, us: f64, bytes: u64) {
        self.add_to(us, bytes, MEMORY_BYTES);
    }

    /// Among those of so many bytes.
    fn add_to(&mut self, us: f64, bytes: u64, memory_bytes: f64) {
        let kept = 0.5f64.powf(bytes as f64 / memory_bytes);
        (self.us, self.bytes) = (self.us * kept + us, self.bytes * kept + bytes as f64);
    }

    /// Microseconds per byte.
    fn cost(&self) -> Option<f64> {
        (self.bytes > 0.0).then(|| self.us / self.bytes)
    }
}

/// How pages shall go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pace {
    /// Bytes per second that they may take of the link, at most.
    pub rate: Option<u64>,
    /// Bytes that go at once; else as many as the link takes in 10 ms, from 32 to 512 KiB.
    pub buffer_bytes: Option<u64>,
}

impl Pace {
    /// Bytes that go at once, within what can: it may have come from another machine.
    pub fn buffer_bytes(&self) -> Option<u64> {
        let least = *BUFFER_BYTES.start();
        let wanted = self.buffer_bytes.map(|bytes| bytes.clamp(least, *BUFFER_BYTES.end()));
        wanted.map(|bytes| bytes - bytes % if bytes < PAGE_BYTES { least } else { PAGE_BYTES })
    }
}

/// One stream of pages over a link.
#[derive(Clone, Debug)]
pub struct Flow {
    rate: Option<u64>,
    buffer_bytes: Option<u64>,
    /// When the next byte may go, at the given rate.
    due_us: u64,
    /// Of bytes on the wire.
    sending: Mean,
    /// The same, for long.
    link: Mean,
    /// Of bytes of pages, with packing and waiting.
    whole: Mean,
    packing: Mean,
    /// Bytes on the wire of a byte of pages, when last tried.
    packed_to: f64,
    skip: u32,
    skipped: u32,
    doubts: u32,
    doubted: u32,
}

impl Flow {
    /// One that goes so.
    pub fn new(pace: Pace) -> Flow {
        Flow {
            rate: pace.rate.map(|rate| rate.max(RATE_LEAST)),
            buffer_bytes: pace.buffer_bytes(),
            due_us: 0,
            sending: Mean::default(),
            link: Mean::default(),
            whole: Mean::default(),
            packing: Mean::default(),
            packed_to: 0.5,
            skip: 0,
            skipped: 0,
            doubts: *DOUBTED.start(),
            doubted: 0,
        }
    }

    /// Bytes of pages that should go at once: whole pages, but where less is wished.
    pub fn batch_bytes(&self) -> u64 {
        let paced = self.rate.map_or(u64::MAX, |rate| (rate as f64 * PACED_US / 1e6) as u64);
        let paced = paced.max(PAGE_BYTES) & !(PAGE_BYTES - 1);
        self.buffer_bytes.unwrap_or_else(|| self.fitting_bytes()).min(paced)
    }

    /// What the link takes soon enough.
    fn fitting_bytes(&self) -> u64 {
        let batch = self.whole.cost().map_or(*BATCH_BYTES.end(), |cost| (BATCH_US / cost) as u64);
        batch.clamp(*BATCH_BYTES.start(), *BATCH_BYTES.end()) & !(PAGE_BYTES - 1)
    }

    /// What may lie in the socket unsent, bytes: a power of two, for to change it is a system call.
    pub fn unsent_bytes(&self) -> u64 {
        let gone_soon = self.sending.cost().map_or(0, |cost| (UNSENT_US / cost) as u64);
        let power = gone_soon.clamp(*UNSENT_BYTES.start(), *UNSENT_BYTES.end());
        1 << power.ilog2()
    }

    /// Shall the next batch be packed?
    pub fn packs(&mut self) -> bool {
        // With a given rate the link is as slow as that.
        let paced = self.rate.map_or(0.0, |rate| 1e6 / rate as f64);
        let sending = self.sending.cost().unwrap_or(0.0).max(paced);
        let packing = self.packing.cost().unwrap_or(PACK_US_AT_FIRST);
        if self.skipped < self.skip {
            self.skipped += 1;
            return false;
        }
        if packing + sending * self.packed_to < sending * WORTH {
            self.doubts = *DOUBTED.start();
            return true;
        }
        // Pieces of a wished size may be so small that it is they that take long.
        let is_slow = self.buffer_bytes.is_none() && sending > SLOW_LINK * PACK_US_AT_FIRST;
        self.doubted += u32::from(is_slow);
        self.doubted > self.doubts
    }

    /// A batch was packed, in this time; whether that was worth it.
    pub fn packed(&mut self, plain_bytes: u64, packed_bytes: u64, took_us: f64) -> bool {
        if self.doubted > self.doubts {
            self.packing = Mean::default();
            self.doubts = (self.doubts * 2).min(*DOUBTED.end());
        }
        self.doubted = 0;
        self.packing.add(took_us, plain_bytes);
        let to = packed_bytes as f64 / plain_bytes.max(1) as f64;
        let worth = to < WORTH;
        if worth {
            (self.packed_to, self.skip) = (to, 0);
        } else {
            self.skip = (self.skip * 2).clamp(*SKIPPED.start(), *SKIPPED.end());
        }
        self.skipped = 0;
        worth
    }

    /// Whether it is worth while to find out what need not be sent: the link takes longer than hashing a page at both ends and keeping it. `None`: it is not known yet.
    pub fn is_slow(&self) -> Option<bool> {
        let is_paced = self.rate.is_some_and(|rate| 1e6 / rate as f64 > SLOW_US);
        let Mean { us, bytes } = self.link;
        let is_known = us >= KNOWN_AFTER_US || bytes >= KNOWN_AFTER_BYTES;
        if is_paced { Some(true) } else { is_known.then_some(us > bytes * SLOW_US) }
    }

    /// For how long so many bytes must wait at `now_us`, at the given rate.
    pub fn wait_us(&mut self, wire_bytes: u64, now_us: u64) -> u64 {
        let Some(rate) = self.rate else { return 0 };
        let begin = self.due_us.max(now_us.saturating_sub(PACED_US as u64));
        self.due_us = begin + wire_bytes.saturating_mul(1_000_000) / rate;
        begin.saturating_sub(now_us)
    }

    /// A batch was sent: bytes of pages, bytes on the wire, for how long the link took them, and how long all of it took.
    pub fn sent(&mut self, plain_bytes: u64, wire_bytes: u64, sending_us: f64, whole_us: f64) {
        self.sending.add(sending_us, wire_bytes);
        self.link.add_to(sending_us, wire_bytes, LINK_MEMORY_BYTES);
        self.whole.add(whole_us, plain_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACK_US: f64 = 1.0 / 700.0;
    const TRY_US: f64 = 1.0 / 3000.0;

    fn at(rate: u64) -> Pace {
        Pace { rate: Some(rate), ..Pace::default() }
    }

    /// Microseconds for so many bytes over a link of so many bytes per microsecond, packed to this part if at all; and the part of batches that were packed.
    fn simulate(flow: &mut Flow, bytes: u64, link: f64, packed_to: f64) -> (f64, f64) {
        let (mut now, mut left, mut batches, mut packed) = (0.0, bytes, 0, 0);
        while left > 0 {
            let plain = flow.batch_bytes().min(left);
            let (begun, mut wire) = (now, plain);
            if flow.packs() {
                let us = plain as f64 * if packed_to < 0.9 { PACK_US } else { TRY_US };
                now += us;
                if flow.packed(plain, (plain as f64 * packed_to) as u64, us) {
                    wire = (plain as f64 * packed_to) as u64;
                    packed += 1;
                }
            }
            now += flow.wait_us(wire, now as u64) as f64;
            let us = wire as f64 / link;
            now += us;
            flow.sent(plain, wire, us, now - begun);
            (left, batches) = (left - plain, batches + 1);
        }
        (now, f64::from(packed) / f64::from(batches))
    }

    #[test]
    fn slow_is_what_was_measured_or_wished() {
        let mut flow = Flow::new(Pace::default());
        assert_eq!(flow.is_slow(), None);
        flow.sent(1 << 20, 1 << 20, 80_000.0, 80_000.0);
        assert_eq!(flow.is_slow(), None);
        flow.sent(4 << 20, 4 << 20, 320_000.0, 320_000.0);
        assert_eq!(flow.is_slow(), Some(true));
        assert_eq!([100_000_000, 500_000_000].map(|rate| Flow::new(at(rate)).is_slow()), [Some(true), None]);
    }

    /// Who receives has stood still for a tenth of a second, now and then: that is not the link's.
    #[test]
    fn a_fast_link_that_stops_for_a_moment_is_not_slow() {
        let mut flow = Flow::new(Pace::default());
        for mib in 0..256 {
            let us = if mib % 64 == 8 { 100_000.0 } else { 1000.0 };
            flow.sent(1 << 20, 1 << 20, us, us);
            assert_ne!(flow.is_slow(), Some(true), "after {mib} MiB");
        }
        assert_eq!(flow.is_slow(), Some(false));
    }

    #[test]
    fn slow_links_are_packed_and_fast_ones_are_not() {
        const MIB: u64 = 1 << 20;
        // 100 Mbit/s, 1 Gbit/s, 10 Gbit/s; a heap that packs to a third.
        for (link, gains) in [(12.5, true), (125.0, true), (1250.0, false)] {
            let (us, part) = simulate(&mut Flow::new(Pace::default()), 256 * MIB, link, 0.3);
            let plain = 256.0 * MIB as f64 / link;
            assert_eq!((part > 0.9, us < 0.6 * plain), (gains, gains), "{link}: {us} of {plain}, {part}");
            assert!(us < 1.001 * plain, "{link}: {us} of {plain}");
        }
    }

    /// A compressor that got no processor once, or for a while, is not given up.
    #[test]
    fn a_slow_try_is_not_the_last() {
        let mut flow = Flow::new(Pace::default());
        let plain = flow.batch_bytes();
        let mut tries = 0;
        for _ in 0..32 {
            flow.sent(plain, plain, plain as f64 / 3.0, plain as f64 / 3.0);
            if flow.packs() {
                assert!(flow.packed(plain, plain / 6, plain as f64));
                tries += 1;
            }
        }
        assert!((3..=8).contains(&tries), "{tries}");
        let (_, part) = simulate(&mut flow, 64 << 20, 3.0, 0.16);
        assert!(part > 0.9, "{part}");
    }

    #[test]
    fn random_bytes_cost_little() {
        for link in [1.0, 12.5, 125.0, 500.0, 1250.0] {
            for mib in [16, 1024] {
                let bytes = mib << 20;
                let (us, part) = simulate(&mut Flow::new(Pace::default()), bytes, link, 1.0);
                assert!(part == 0.0 && us < 1.02 * bytes as f64 / link, "{link}: {us}");
            }
        }
    }

    #[test]
    fn a_rate_is_kept_to() {
        for rate in [100_000u64, 5_000_000, 100_000_000] {
            let mut flow = Flow::new(at(rate));
            let bytes = rate * 4;
            let (us, _) = simulate(&mut flow, bytes, 1000.0, 1.0);
            assert!((3.9e6..4.3e6).contains(&us), "{rate}: {us}");
        }
        assert_eq!(Flow::new(at(1)).batch_bytes(), PAGE_BYTES);
    }

    #[test]
    fn what_is_wished_to_go_at_once_does_within_bounds() {
        let wished = |bytes| Flow::new(Pace { buffer_bytes: Some(bytes), ..Pace::default() }).batch_bytes();
        assert_eq!([1024, 4096, 65536, 1 << 20].map(wished), [1024, 4096, 65536, 1 << 20]);
        assert_eq!([0, 1, 3500, 5000, (1 << 20) + 1, u64::MAX].map(wished), [1024, 1024, 3072, 4096, 1 << 20, 1 << 20]);
        let both = Pace { rate: Some(1_000_000), buffer_bytes: Some(1 << 20) };
        assert_eq!(Flow::new(both).batch_bytes(), 49152);
    }

    #[test]
    fn what_lies_unsent_is_gone_soon() {
        assert_eq!(Flow::new(Pace::default()).unsent_bytes(), 256 << 10);
        for (link, unsent) in [(3000.0, 2 << 20), (800.0, 1 << 20), (125.0, 256 << 10), (0.1, 256 << 10)] {
            let mut flow = Flow::new(Pace::default());
            simulate(&mut flow, 64 << 20, link, 1.0);
            assert_eq!(flow.unsent_bytes(), unsent, "{link}");
        }
    }

    #[test]
    fn what_goes_at_once_takes_no_longer_than_others_may_wait() {
        for (link, least, most) in
            [(3000.0, 512 << 10, 512 << 10), (12.5, 64 << 10, 128 << 10), (0.1, 32 << 10, 32 << 10)]
        {
            let mut flow = Flow::new(Pace::default());
            simulate(&mut flow, 64 << 20, link, 1.0);
            assert!((least..=most).contains(&flow.batch_bytes()), "{link}: {}", flow.batch_bytes());
        }
    }
}
