//! Decoders take any bytes: they answer or refuse, and what they accept encodes to the same bytes
//! again.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use control_protocol::codec::{decode, encode};
use control_protocol::tool::{Answer, Assembly, Request, packets};
use proptest::collection::vec;
use proptest::num::u8::ANY as BYTE;

fn accepts_or_refuses<T: serde::Serialize + serde::de::DeserializeOwned>(bytes: &[u8]) {
    let mut versioned = vec![control_protocol::codec::VERSION];
    versioned.extend_from_slice(bytes);
    let _ = decode::<T>(bytes).is_ok();
    if let Ok(message) = decode::<T>(&versioned) {
        assert!(encode(&message, 1 << 24).is_ok());
    }
}

proptest::proptest! {
    #[test]
    fn any_bytes(bytes in vec(BYTE, 0..600)) {
        accepts_or_refuses::<Request>(&bytes);
        accepts_or_refuses::<Answer>(&bytes);
        accepts_or_refuses::<control_protocol::peer::PeerRequest>(&bytes);
        accepts_or_refuses::<control_protocol::peer::PeerAnswer>(&bytes);
        accepts_or_refuses::<control_protocol::peer::JoinRequest>(&bytes);
        accepts_or_refuses::<control_protocol::peer::JoinAnswer>(&bytes);
        accepts_or_refuses::<control_protocol::peer::Datagram>(&bytes);
        accepts_or_refuses::<control_protocol::steward::ToSteward>(&bytes);
        accepts_or_refuses::<control_protocol::steward::FromSteward>(&bytes);
        accepts_or_refuses::<control_protocol::steward::Program>(&bytes);
        let _ = Assembly::default().take(&bytes);
    }

    #[test]
    fn long_answers_travel_in_packets(lines in vec("[a-z]{0,2000}", 0..200)) {
        let answer = Answer::Log { lines };
        let encoded = encode(&answer, control_protocol::tool::ANSWER_BYTES).unwrap();
        let mut assembly = Assembly::default();
        let mut got = None;
        for packet in packets(&encoded) {
            proptest::prop_assert!(got.is_none() && packet.len() <= control_protocol::tool::PACKET_BYTES);
            got = assembly.take(&packet).unwrap();
        }
        proptest::prop_assert_eq!(got, Some(answer));
    }
}

#[test]
fn another_version_and_left_overs_are_refused() {
    let mut bytes = encode(&Request::Nodes, 100).unwrap();
    bytes.push(0);
    assert!(decode::<Request>(&bytes).is_err());
    bytes.pop();
    bytes[0] = 99;
    assert!(decode::<Request>(&bytes).unwrap_err().to_string().contains("version 99"));
}
