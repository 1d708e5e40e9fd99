//! Flow of page memory over a link: batch size, rate, and whether to compress, from measurements
//! made while sending.

use serde::{Deserialize, Serialize};

/// Bounds of a batch, bytes.
const BATCH_BYTES: std::ops::RangeInclusive<u64> = (32 << 10)..=(512 << 10);
/// The longest time that a batch should take, microseconds. Other messages on the same link wait
/// for it.
const BATCH_US: f64 = 10_000.0;
/// Bounds of unsent bytes in a socket. Other messages wait behind them; with fewer, the sender
/// waits for the link so often that a fast link runs dry.
pub const UNSENT_BYTES: std::ops::RangeInclusive<u64> = (256 << 10)..=(2 << 20);
/// Unsent bytes may exceed the lower bound if the link sends them within this time, microseconds.
const UNSENT_US: f64 = 1500.0;
/// At a given rate, a batch is what may be sent in this time, microseconds.
const PACED_US: f64 = 50_000.0;
/// The least size of a batch, bytes.
const PAGE_BYTES: u64 = 4096;
/// Bounds of the batch size that a user may ask for, bytes.
pub const BUFFER_BYTES: std::ops::RangeInclusive<u64> = 1024..=(1 << 20);
/// The least rate that can be kept, bytes per second: ten pages take less than half a second.
pub const RATE_LEAST: u64 = 100_000;
/// A measurement loses half of its weight when this many bytes have been sent after it.
const MEMORY_BYTES: f64 = (2 << 20) as f64;
/// The assumed time of compression before the first try, microseconds per byte (zstd at level -1,
/// random bytes: 3 GB/s; a Python heap: 0.7 GB/s).
const PACK_US_AT_FIRST: f64 = 1.0 / 700.0;
/// Compression must reduce the time to this share.
const WORTH: f64 = 0.9;
/// Number of batches sent uncompressed after a useless try, at first and at most. Random bytes then
/// cost less than 1%.
const SKIPPED: std::ops::RangeInclusive<u32> = 1..=64;

/// A link is slow if a byte takes longer than this, microseconds: 200 MB/s. Hashing runs at 1 GB/s
/// or more at either end, and only some pages will be the same.
const SLOW_US: f64 = 1.0 / 200.0;
/// The measurement that tells whether the link is slow loses half of its weight after this many
/// bytes. A receiver may pause for a tenth of a second while its kernel reclaims memory, so this
/// measurement lasts longer.
const LINK_MEMORY_BYTES: f64 = (64 << 20) as f64;
/// The measurement of the link counts after this many bytes ...
const KNOWN_AFTER_BYTES: f64 = (32 << 20) as f64;
/// ... or after sending has taken this long, microseconds.
const KNOWN_AFTER_US: f64 = 250_000.0;

/// On a link that is this many times slower than compression is assumed to be, a compression that
/// took too long was probably slowed by something temporary.
const SLOW_LINK: f64 = 50.0;
/// Number of batches sent uncompressed after such a try, at first and at most.
const DOUBTED: std::ops::RangeInclusive<u32> = 4..=1024;

/// A mean cost per byte that forgets old measurements.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    us: f64,
    bytes: f64,
}

impl Mean {
    fn add(&mut self, us: f64, bytes: u64) {
        self.add_to(us, bytes, MEMORY_BYTES);
    }

    /// Adds a measurement that weighs half after `memory_bytes`.
    fn add_to(&mut self, us: f64, bytes: u64, memory_bytes: f64) {
        let kept = 0.5f64.powf(bytes as f64 / memory_bytes);
        (self.us, self.bytes) = (self.us * kept + us, self.bytes * kept + bytes as f64);
    }

    /// Gives the mean, microseconds per byte; `None` before the first measurement.
    fn cost(&self) -> Option<f64> {
        (self.bytes > 0.0).then(|| self.us / self.bytes)
    }
}

/// The rate and the batch size that a user asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pace {
    /// The most that the pages may take of the link, bytes per second.
    pub rate: Option<u64>,
    /// Batch size, bytes. `None`: as many as the link takes in 10 ms, from 32 to 512 KiB.
    pub buffer_bytes: Option<u64>,
}

impl Pace {
    /// Gives the batch size, bounded to [`BUFFER_BYTES`], because the value may come from another
    /// machine.
    pub fn buffer_bytes(&self) -> Option<u64> {
        let least = *BUFFER_BYTES.start();
        let wanted = self.buffer_bytes.map(|bytes| bytes.clamp(least, *BUFFER_BYTES.end()));
        wanted.map(|bytes| bytes - bytes % if bytes < PAGE_BYTES { least } else { PAGE_BYTES })
    }
}

/// The flow control of one stream of pages.
#[derive(Clone, Debug)]
pub struct Flow {
    rate: Option<u64>,
    buffer_bytes: Option<u64>,
    /// Time at which the next byte may be sent at the given rate, microseconds.
    due_us: u64,
    /// Time of bytes on the wire.
    sending: Mean,
    /// Time of bytes on the wire, with a long memory.
    link: Mean,
    /// Time of bytes of pages, with compression and waiting.
    whole: Mean,
    packing: Mean,
    /// Compressed size as a share of the plain size, at the last try.
    packed_to: f64,
    skip: u32,
    skipped: u32,
    doubts: u32,
    doubted: u32,
}

impl Flow {
    /// Creates the flow control of a new stream.
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

    /// Gives the batch size, bytes of pages: whole pages, unless the user asks for less.
    pub fn batch_bytes(&self) -> u64 {
        let paced = self.rate.map_or(u64::MAX, |rate| (rate as f64 * PACED_US / 1e6) as u64);
        let paced = paced.max(PAGE_BYTES) & !(PAGE_BYTES - 1);
        self.buffer_bytes.unwrap_or_else(|| self.fitting_bytes()).min(paced)
    }

    /// Gives the bytes that the link sends within [`BATCH_US`].
    fn fitting_bytes(&self) -> u64 {
        let batch = self.whole.cost().map_or(*BATCH_BYTES.end(), |cost| (BATCH_US / cost) as u64);
        batch.clamp(*BATCH_BYTES.start(), *BATCH_BYTES.end()) & !(PAGE_BYTES - 1)
    }

    /// Gives the most bytes that may lie unsent in the socket. The value is a power of two, so that
    /// it changes rarely: each change is a system call.
    pub fn unsent_bytes(&self) -> u64 {
        let gone_soon = self.sending.cost().map_or(0, |cost| (UNSENT_US / cost) as u64);
        let power = gone_soon.clamp(*UNSENT_BYTES.start(), *UNSENT_BYTES.end());
        1 << power.ilog2()
    }

    /// Decides whether to compress the next batch.
    pub fn packs(&mut self) -> bool {
        // A given rate makes the link as slow as that rate.
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
        // Pieces of a size that the user chose may be so small that their overhead dominates.
        let is_slow = self.buffer_bytes.is_none() && sending > SLOW_LINK * PACK_US_AT_FIRST;
        self.doubted += u32::from(is_slow);
        self.doubted > self.doubts
    }

    /// Takes the measurement of a compressed batch. Returns whether compression was worth its time.
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

    /// Tells whether avoiding to send known pages is worth while: the link takes longer than
    /// hashing a page at both ends and storing it. `None` if too little was measured.
    pub fn is_slow(&self) -> Option<bool> {
        let is_paced = self.rate.is_some_and(|rate| 1e6 / rate as f64 > SLOW_US);
        let Mean { us, bytes } = self.link;
        let is_known = us >= KNOWN_AFTER_US || bytes >= KNOWN_AFTER_BYTES;
        if is_paced { Some(true) } else { is_known.then_some(us > bytes * SLOW_US) }
    }

    /// Gives the time for which `wire_bytes` must wait at `now_us` to keep the given rate,
    /// microseconds.
    pub fn wait_us(&mut self, wire_bytes: u64, now_us: u64) -> u64 {
        let Some(rate) = self.rate else { return 0 };
        let begin = self.due_us.max(now_us.saturating_sub(PACED_US as u64));
        self.due_us = begin + wire_bytes.saturating_mul(1_000_000) / rate;
        begin.saturating_sub(now_us)
    }

    /// Takes the measurement of a sent batch: bytes of pages, bytes on the wire, the time of the
    /// link, and the whole time, microseconds.
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

    /// Simulates sending `bytes` over a link of `link` bytes per microsecond, where compression
    /// reaches `packed_to`. Gives the time, microseconds, and the share of batches that were
    /// compressed.
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

    /// The receiver pauses for a tenth of a second now and then. The link is not slow for that.
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
        // Links of 100 Mbit/s, 1 Gbit/s and 10 Gbit/s, and a heap that compresses to a third.
        for (link, gains) in [(12.5, true), (125.0, true), (1250.0, false)] {
            let (us, part) = simulate(&mut Flow::new(Pace::default()), 256 * MIB, link, 0.3);
            let plain = 256.0 * MIB as f64 / link;
            assert_eq!((part > 0.9, us < 0.6 * plain), (gains, gains), "{link}: {us} of {plain}, {part}");
            assert!(us < 1.001 * plain, "{link}: {us} of {plain}");
        }
    }

    /// A compressor that once, or for a while, got no processor is tried again.
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
    fn wanted_batch_sizes_are_kept_within_bounds() {
        let wished = |bytes| Flow::new(Pace { buffer_bytes: Some(bytes), ..Pace::default() }).batch_bytes();
        assert_eq!([1024, 4096, 65536, 1 << 20].map(wished), [1024, 4096, 65536, 1 << 20]);
        assert_eq!([0, 1, 3500, 5000, (1 << 20) + 1, u64::MAX].map(wished), [1024, 1024, 3072, 4096, 1 << 20, 1 << 20]);
        let both = Pace { rate: Some(1_000_000), buffer_bytes: Some(1 << 20) };
        assert_eq!(Flow::new(both).batch_bytes(), 49152);
    }

    #[test]
    fn unsent_bytes_are_sent_soon() {
        assert_eq!(Flow::new(Pace::default()).unsent_bytes(), 256 << 10);
        for (link, unsent) in [(3000.0, 2 << 20), (800.0, 1 << 20), (125.0, 256 << 10), (0.1, 256 << 10)] {
            let mut flow = Flow::new(Pace::default());
            simulate(&mut flow, 64 << 20, link, 1.0);
            assert_eq!(flow.unsent_bytes(), unsent, "{link}");
        }
    }

    #[test]
    fn batches_take_no_longer_than_other_frames_may_wait() {
        for (link, least, most) in
            [(3000.0, 512 << 10, 512 << 10), (12.5, 64 << 10, 128 << 10), (0.1, 32 << 10, 32 << 10)]
        {
            let mut flow = Flow::new(Pace::default());
            simulate(&mut flow, 64 << 20, link, 1.0);
            assert!((least..=most).contains(&flow.batch_bytes()), "{link}: {}", flow.batch_bytes());
        }
    }
}
