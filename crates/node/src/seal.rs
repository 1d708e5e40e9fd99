//! Datagrams between daemons: encrypted and authenticated, each accepted at most once.
//!
//! `version (1) | sender's node id (8) | session (8) | counter (8) | AES-128-GCM ciphertext and
//! tag`, little-endian. The key is HKDF-SHA256 of the cluster's secret with sender and session as
//! salt; the counter is the nonce; the header is authenticated. A session is one start of a daemon
//! and only ever rises. A receiver that has just started accepts an old session until it has heard
//! a newer one: what SWIM says there is ordered by generation and incarnation, so that a replay is
//! outdated and corrected.

use std::collections::HashMap;

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf;

const VERSION: u8 = 1;
const HEADER_BYTES: usize = 25;
const TAG_BYTES: usize = 16;
/// What sealing adds, bytes.
pub(crate) const OVERHEAD_BYTES: usize = HEADER_BYTES + TAG_BYTES;
/// How far behind the newest counter a datagram may come.
const WINDOW: u64 = 64;
/// Most senders remembered.
const SENDERS_MAX: usize = 2 * control_protocol::peer::MEMBERS_MAX;

struct AesKey;

impl hkdf::KeyType for AesKey {
    fn len(&self) -> usize {
        16
    }
}

fn derive(secret: &[u8; 32], sender: u64, session: u64) -> Option<LessSafeKey> {
    let mut salt = [0; 16];
    salt[..8].copy_from_slice(&sender.to_le_bytes());
    salt[8..].copy_from_slice(&session.to_le_bytes());
    let mut key = [0; 16];
    let extracted = hkdf::Salt::new(hkdf::HKDF_SHA256, &salt).extract(secret);
    extracted.expand(&[b"tern datagram v1"], AesKey).ok()?.fill(&mut key).ok()?;
    Some(LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key).ok()?))
}

fn nonce(counter: u64) -> Nonce {
    let mut bytes = [0; NONCE_LEN];
    bytes[..8].copy_from_slice(&counter.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

/// Seals this daemon's datagrams.
pub(crate) struct Sealer {
    key: LessSafeKey,
    sender: u64,
    session: u64,
    counter: u64,
}

impl Sealer {
    /// `None` only if the cipher refuses a 16-byte key, which it does not.
    pub(crate) fn new(secret: &[u8; 32], sender: u64, session: u64) -> Option<Sealer> {
        Some(Sealer { key: derive(secret, sender, session)?, sender, session, counter: 0 })
    }

    pub(crate) fn seal(&mut self, plain: &[u8]) -> Option<Vec<u8>> {
        self.counter += 1;
        let mut header = [0; HEADER_BYTES];
        header[0] = VERSION;
        header[1..9].copy_from_slice(&self.sender.to_le_bytes());
        header[9..17].copy_from_slice(&self.session.to_le_bytes());
        header[17..].copy_from_slice(&self.counter.to_le_bytes());
        let mut body = plain.to_vec();
        self.key.seal_in_place_append_tag(nonce(self.counter), Aad::from(&header), &mut body).ok()?;
        let mut datagram = header.to_vec();
        datagram.append(&mut body);
        Some(datagram)
    }
}

/// What is known of one sender.
struct Sender {
    session: u64,
    key: LessSafeKey,
    newest: u64,
    /// Bit n: counter `newest - n` has come.
    seen: u64,
}

impl Sender {
    fn is_new(&self, counter: u64) -> bool {
        match self.newest.checked_sub(counter) {
            None => true,
            Some(behind) => behind < WINDOW && self.seen & (1 << behind) == 0,
        }
    }

    fn note(&mut self, counter: u64) {
        match self.newest.checked_sub(counter) {
            Some(behind) => self.seen |= 1 << behind,
            None => {
                let ahead = counter - self.newest;
                self.seen = if ahead < WINDOW { self.seen << ahead | 1 } else { 1 };
                self.newest = counter;
            }
        }
    }
}

/// Opens the others' datagrams.
pub(crate) struct Opener {
    secret: [u8; 32],
    me: u64,
    senders: HashMap<u64, Sender>,
}

impl Opener {
    pub(crate) fn new(secret: [u8; 32], me: u64) -> Opener {
        Opener { secret, me, senders: HashMap::new() }
    }

    /// The sender's node id and what it said; `None` for anything that is not a fresh datagram of a
    /// member.
    pub(crate) fn open(&mut self, datagram: &[u8]) -> Option<(u64, Vec<u8>)> {
        let (header, body) = datagram.split_at_checked(HEADER_BYTES)?;
        let word = |at: usize| header.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
        let (sender, session, counter) = (word(1)?, word(9)?, word(17)?);
        if header[0] != VERSION || sender == self.me {
            return None;
        }
        match self.senders.get_mut(&sender) {
            Some(known) if known.session == session => {
                if !known.is_new(counter) {
                    return None;
                }
                let plain = open_with(&known.key, header, counter, body)?;
                known.note(counter);
                Some((sender, plain))
            }
            Some(known) if known.session > session => None,
            _ => {
                let key = derive(&self.secret, sender, session)?;
                let plain = open_with(&key, header, counter, body)?;
                if self.senders.len() >= SENDERS_MAX && !self.senders.contains_key(&sender) {
                    return None;
                }
                self.senders.insert(sender, Sender { session, key, newest: counter, seen: 1 });
                Some((sender, plain))
            }
        }
    }
}

fn open_with(key: &LessSafeKey, header: &[u8], counter: u64, body: &[u8]) -> Option<Vec<u8>> {
    let mut body = body.to_vec();
    let plain = key.open_in_place(nonce(counter), Aad::from(header), &mut body).ok()?.len();
    body.truncate(plain);
    Some(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(session: u64) -> (Sealer, Opener) {
        (Sealer::new(&[7; 32], 1, session).unwrap(), Opener::new([7; 32], 2))
    }

    #[test]
    fn each_datagram_once_in_any_order() {
        let (mut sealer, mut opener) = pair(5);
        let sent: Vec<_> = (0..100u8).map(|i| sealer.seal(&[i]).unwrap()).collect();
        assert!(!sent[0].windows(3).any(|w| w == [0, 0, 7]));
        for i in [3, 1, 2, 0, 60, 99] {
            assert_eq!(opener.open(&sent[i]), Some((1, vec![u8::try_from(i).unwrap()])), "{i}");
            assert_eq!(opener.open(&sent[i]), None, "{i} again");
        }
        assert_eq!(opener.open(&sent[4]), None, "older than the window");
        assert!(opener.open(&sent[98]).is_some());
    }

    #[test]
    fn sessions_only_rise() {
        let (mut old, mut opener) = pair(5);
        let mut new = Sealer::new(&[7; 32], 1, 6).unwrap();
        assert!(opener.open(&old.seal(b"a").unwrap()).is_some());
        assert!(opener.open(&new.seal(b"b").unwrap()).is_some());
        assert_eq!(opener.open(&old.seal(b"c").unwrap()), None);
    }

    #[test]
    fn another_cluster_and_own_echo_are_refused() {
        let (mut sealer, _) = pair(5);
        let datagram = sealer.seal(b"secret words").unwrap();
        assert!(!datagram.windows(6).any(|w| w == b"secret"), "nothing in plain");
        assert_eq!(Opener::new([8; 32], 2).open(&datagram), None);
        assert_eq!(Opener::new([7; 32], 1).open(&datagram), None);
    }

    proptest::proptest! {
        #[test]
        fn damage_is_noticed(at: proptest::sample::Index, bit in 0u8..8) {
            let (mut sealer, mut opener) = pair(5);
            let mut datagram = sealer.seal(b"hello").unwrap();
            let at = at.index(datagram.len());
            datagram[at] ^= 1 << bit;
            proptest::prop_assert_eq!(opener.open(&datagram), None);
        }

        #[test]
        fn garbage_is_refused(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            proptest::prop_assert_eq!(pair(5).1.open(&bytes), None);
        }
    }
}
