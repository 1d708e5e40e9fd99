//! Frames that nobody waits for.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use room_protocol::Kind;
use std::sync::Arc;

/// Posted frames arrive though nothing follows them, and keep their order among all frames.
#[test]
fn posted_frames_arrive_in_their_order() {
    let (sender, mut receiver) = common::pair();
    let sender = Arc::new(sender);
    sender.write_posts().unwrap();
    let mut body = Vec::new();
    for round in 0..20u64 {
        for n in 0..50 {
            sender.post(Kind::Behind, 1, n, &[&n.to_le_bytes()]).unwrap();
        }
        if round % 2 == 0 {
            sender.send(Kind::Message, 0, 50, &[b"after"]).unwrap();
        }
        for n in 0..50u64 {
            let head = receiver.receive(&mut body).unwrap();
            assert_eq!((head.kind, head.seq, &body[..]), (Kind::Behind, n, &n.to_le_bytes()[..]));
        }
        if round % 2 == 0 {
            assert_eq!(receiver.receive(&mut body).unwrap().kind, Kind::Message);
        }
    }
    drop(sender);
    assert!(receiver.receive(&mut body).is_err(), "the thread that writes holds no link open");
}
