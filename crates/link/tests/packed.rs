//! Compressed frames over a real link, and malformed ones.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use common::pair;
use link::{Bulk, LinkError};
use room_protocol::{Kind, packed};

#[test]
fn compressible_frames_are_compressed_and_arrive_whole() {
    let (sender, mut receiver) = pair();
    let text: Vec<u8> = (0..100_000u32).flat_map(|n| (n / 100).to_le_bytes()).collect();
    let mut bulk = Bulk::new(migration_plan::Pace { rate: Some(10_000_000), ..Default::default() });
    let bytes = bulk.send(&sender, Kind::Pages, &[b"head", &text]).unwrap();
    assert!(bytes < 40_000, "{bytes}");
    let mut body = Vec::new();
    let head = receiver.receive(&mut body).unwrap();
    assert_eq!((head.kind, u64::from(head.body_bytes)), (Kind::Pages, bytes));
    assert!(body[..4] == *b"head" && body[4..] == text);
    // Frames of other kinds are sent as before.
    sender.send(Kind::Message, 0, 7, &[b"words"]).unwrap();
    let head = receiver.receive(&mut body).unwrap();
    assert_eq!((head.kind, head.seq, &body[..]), (Kind::Message, 7, &b"words"[..]));
}

#[test]
fn malformed_compressed_frames_are_refused() {
    let packed_of = |bytes: &[u8]| zstd::bulk::compress(bytes, -1).unwrap();
    let zeros = packed_of(&[0; 8 << 20]);
    let bad = [
        vec![],
        packed::head(Kind::Pages, 10).to_vec(),
        [&packed::head(Kind::Pages, 10)[..], b"no such format"].concat(),
        [&packed::head(Kind::Message, 3)[..], &packed_of(b"abc")].concat(),
        [&packed::head(Kind::Pages, 2)[..], &packed_of(b"abc")].concat(),
        [&packed::head(Kind::Pages, 4)[..], &packed_of(b"abc")].concat(),
        // The content is larger than the header says, and than any frame may be.
        [&packed::head(Kind::Pushed, 1 << 20)[..], &zeros].concat(),
    ];
    for body in bad {
        let (sender, mut receiver) = pair();
        sender.send(Kind::Packed, 0, 0, &[&body]).unwrap();
        assert!(matches!(receiver.receive(&mut Vec::new()), Err(LinkError::Packed)), "{body:?}");
    }
}
