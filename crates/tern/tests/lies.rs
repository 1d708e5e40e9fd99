//! A member of the cluster that tells lies: it holds the cluster's key, and says what it likes
//! about itself and others.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::fmt::Write as _;

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf;
use common::eventually;
use control_protocol::facts::Load;
use control_protocol::peer::{Datagram, Member, PulseEntry};
use lab::Lab;
use serde_json::Value;

/// A node that there is not.
const LIAR: u64 = 0xbad;

fn ok(lab: &Lab, args: &[&str]) -> String {
    let output = lab.exec("n1", [&["tern"], args].concat()).unwrap();
    assert!(output.status.success(), "tern {args:?}: {}", output.errors());
    String::from_utf8(output.stdout).unwrap()
}

fn nodes(lab: &Lab) -> Vec<Value> {
    serde_json::from_str::<Vec<Value>>(&ok(lab, &["nodes", "--json"])).unwrap()
}

struct Sixteen;

impl hkdf::KeyType for Sixteen {
    fn len(&self) -> usize {
        16
    }
}

/// A datagram as a daemon would send it (`node::seal` says how).
fn sealed(secret: &[u8], counter: u64, plain: &[u8]) -> Vec<u8> {
    let session = 1u64;
    let salt = [LIAR.to_le_bytes(), session.to_le_bytes()].concat();
    let mut key = [0; 16];
    let extracted = hkdf::Salt::new(hkdf::HKDF_SHA256, &salt).extract(secret);
    extracted.expand(&[b"tern datagram v1"], Sixteen).unwrap().fill(&mut key).unwrap();
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key).unwrap());
    let mut nonce = [0; NONCE_LEN];
    nonce[..8].copy_from_slice(&counter.to_le_bytes());
    let mut datagram = vec![1];
    [LIAR, session, counter].iter().for_each(|word| datagram.extend(word.to_le_bytes()));
    let mut body = plain.to_vec();
    let nonce = Nonce::assume_unique_for_key(nonce);
    key.seal_in_place_append_tag(nonce, Aad::from(&datagram), &mut body).unwrap();
    datagram.append(&mut body);
    datagram
}

/// What no machine is, and what one might be that is not so.
fn lies() -> Vec<(u32, Load)> {
    let most = Load {
        runnable_milli: u32::MAX,
        cores: u32::MAX,
        available_mib: u32::MAX,
        memory_mib: u32::MAX,
        rooms: u32::MAX,
        rooms_max: u32::MAX,
        capacity_milli: u32::MAX,
        speed_milli: u32::MAX,
        pressure_milli: u32::MAX,
        lag_ms: i32::MIN,
        unused_s: u32::MAX,
        ..Load::default()
    };
    let idle = Load { runnable_milli: 0, lag_ms: i32::MAX, ..most };
    let full = Load { available_mib: 0, rooms_max: 0, ..most };
    [most, idle, full, Load::default()].into_iter().flat_map(|load| [(0, load), (u32::MAX, load)]).collect()
}

#[test]
fn lies_are_bounded_said_and_outlived() {
    let lab = common::lab_of(&common::options(3));
    let measured = |row: &Value| (1..50_000).contains(&row["load"]["speed_milli"].as_u64().unwrap_or(0));
    let all = || nodes(&lab).into_iter().filter(|row| measured(row) && row["state"] == "alive").count() == 3;
    eventually("all are known", all);
    ok(&lab, &["policy", "set", "home=off"]);
    let running = || lab.exec("n1", ["tern", "run", "--", "true"]).unwrap().status.success();
    assert!(running());
    let log = ok(&lab, &["log", "--decisions"]);
    let placed: Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
    let candidates = placed["placement"]["candidates"].as_array().unwrap();
    let ids: Vec<u64> = candidates.iter().map(|c| c["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), 2);
    let daemon = || serde_json::from_str::<Value>(&ok(&lab, &["status", "--json"])).unwrap()["pid"].clone();
    let before = daemon();
    let target = nodes(&lab).iter().find(|row| row["here"] == true).unwrap()["address"].as_str().unwrap().to_owned();

    // Where a datagram comes from says nothing; this node has programs.
    let kept = format!("{}/gossip.key", lab.state().node("n1").unwrap().state_dir());
    let key = lab.exec("n1", ["cat", &kept]).unwrap();
    assert_eq!(key.stdout.len(), 32, "{}", key.errors());
    // It cannot be dialled, though every receiver of its pulses would like to compare lists.
    let me = Member { name: "liar".into(), id: LIAR, address: ([127, 0, 0, 1], 1).into(), generation: u64::MAX };
    let mut lines = String::new();
    for counter in 1..400u64 {
        let (age_ms, load) = lies()[counter as usize % lies().len()];
        let entries = ids.iter().map(|id| PulseEntry { id: *id, age_ms, load }).collect();
        let pulse = Datagram::Pulse { me: me.clone(), digest: counter, entries };
        let mut datagram = sealed(&key.stdout, counter, &control_protocol::codec::encode(&pulse, 1300).unwrap());
        if counter % 10 == 0 {
            // Damaged on the way.
            let at = counter as usize % datagram.len();
            datagram[at] ^= 1;
        }
        datagram.iter().for_each(|byte| write!(lines, "{byte:02x}").unwrap());
        lines.push('\n');
    }
    let script = "use IO::Socket::INET; my $to = IO::Socket::INET->new(Proto => 'udp', PeerAddr => shift) or die; \
                  while (<STDIN>) { chomp; $to->send(pack('H*', $_)); select(undef, undef, undef, 0.005) }";
    let sent = common::run_with_input(lab.in_node("n1", ["perl", "-e", script, &target]), lines.as_bytes());
    assert!(sent.status.success(), "{}", sent.errors());

    for row in nodes(&lab) {
        let told = |field: &str| row["load"][field].as_u64().unwrap_or(0);
        assert!(told("speed_milli") <= 50_000 && told("capacity_milli") <= 8_192_000 && told("cores") <= 8192, "{row}");
        assert!(told("available_mib") <= told("memory_mib") && told("pressure_milli") <= 1000, "{row}");
    }
    assert!(ok(&lab, &["log"]).contains("a load that no machine has"));
    eventually("the truth is heard again", all);
    eventually("programs are placed", running);
    assert_eq!(daemon(), before, "it has not died of it");
}
