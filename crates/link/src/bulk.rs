//! A sender of bulk data: pages. It compresses where that is quicker, keeps to a rate, and lets
//! other threads' frames pass.

use crate::setup::UNSENT_BYTES;
use crate::{LinkError, Sender};
use migration_plan::{Flow, Pace};
use room_protocol::{Kind, packed};
use std::time::{Duration, Instant};
use zstd::bulk::Compressor;

/// The zstd level. At this level a Python heap is compressed at 0.7 GB/s, to a tenth.
const LEVEL: i32 = -1;

/// A stream of pages over a link.
pub struct Bulk {
    pace: Pace,
    flow: Flow,
    begun: Instant,
    /// The compressor, created on first use.
    compressor: Option<Compressor<'static>>,
    plain: Vec<u8>,
    packed: Vec<u8>,
}

impl Bulk {
    /// Creates a stream with this pace; the rate counts compressed bytes.
    pub fn new(pace: Pace) -> Bulk {
        Bulk {
            pace,
            flow: Flow::new(pace),
            begun: Instant::now(),
            compressor: None,
            plain: Vec::new(),
            packed: Vec::new(),
        }
    }

    /// Gives the pace of the stream.
    pub fn pace(&self) -> Pace {
        self.pace
    }

    /// Gives the number of bytes of pages to send at once ([`Flow::batch_bytes`]).
    pub fn batch_bytes(&self) -> u64 {
        self.flow.batch_bytes()
    }

    /// Tells whether the link is slow ([`Flow::is_slow`]).
    pub fn is_slow(&self) -> Option<bool> {
        self.flow.is_slow()
    }

    /// Sends a frame of pages, and gives its size on the wire, bytes. Blocks while the network is
    /// slower, or as long as the rate demands.
    pub fn send(&mut self, link: &Sender, kind: Kind, parts: &[&[u8]]) -> Result<u64, LinkError> {
        let begun = Instant::now();
        let plain_bytes = parts.iter().map(|p| p.len() as u64).sum();
        let is_packed = self.flow.packs() && self.pack(kind, parts);
        let wire_bytes = if is_packed { self.packed.len() as u64 } else { plain_bytes };
        let wait_us = self.flow.wait_us(wire_bytes, micros(self.begun) as u64);
        if wait_us > 0 {
            std::thread::sleep(Duration::from_micros(wait_us));
        }
        let sending = Instant::now();
        // A missing page may be requested while pages that nobody requested are in flight, so these
        // may not fill the socket.
        let unsent_bytes = if kind == Kind::Pushed { UNSENT_BYTES } else { self.flow.unsent_bytes() as u32 };
        if is_packed {
            link.send_patiently(Kind::Packed, &[&self.packed], unsent_bytes)
        } else {
            link.send_patiently(kind, parts, unsent_bytes)
        }?;
        self.flow.sent(plain_bytes, wire_bytes, micros(sending), micros(begun));
        Ok(wire_bytes)
    }

    /// Compresses the parts. Returns whether that was worth its time.
    fn pack(&mut self, kind: Kind, parts: &[&[u8]]) -> bool {
        let begun = Instant::now();
        if self.compressor.is_none() {
            self.compressor = Compressor::new(LEVEL).ok();
        }
        let Some(compressor) = &mut self.compressor else { return false };
        self.plain.clear();
        parts.iter().for_each(|part| self.plain.extend_from_slice(part));
        let head = packed::head(kind, self.plain.len() as u32);
        self.packed.resize(head.len() + zstd::zstd_safe::compress_bound(self.plain.len()), 0);
        let (start, rest) = self.packed.split_at_mut(head.len());
        start.copy_from_slice(&head);
        let Ok(bytes) = compressor.compress_to_buffer(&self.plain, rest) else { return false };
        self.packed.truncate(head.len() + bytes);
        self.flow.packed(self.plain.len() as u64, self.packed.len() as u64, micros(begun))
    }
}

fn micros(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e6
}
