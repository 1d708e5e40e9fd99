//! Invitations: tokens that work once and expire. The inviting node keeps only a hash of each
//! secret.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::{Error, NodeName, store::Store};

/// The prefix of a token, which tells the version of the format.
const PREFIX: &str = "tern1-";
/// The longest token that is accepted, characters.
const TOKEN_MAX: usize = 2048;
/// The most addresses in a token.
const ADDRESSES_MAX: usize = 16;
/// Directory of open invitations in the state directory.
pub(crate) const DIR: &str = "invites";

/// The invitation that the joining node is given, as text.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// The node that issued the invitation. Only this node can redeem it.
    pub inviter: NodeName,
    /// Addresses of that node, the most likely one first.
    pub addresses: Vec<SocketAddr>,
    /// Id of the invitation.
    pub id: [u8; 8],
    /// Secret that proves the invitation.
    pub secret: [u8; 16],
    /// SHA-256 of the authority's certificate, by which the joining node verifies its peer.
    pub fingerprint: [u8; 32],
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Token({} at {:?})", self.inviter, self.addresses)
    }
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes = postcard::to_allocvec(self).map_err(|_| std::fmt::Error)?;
        write!(f, "{PREFIX}{}", data_encoding::BASE32_NOPAD.encode(&bytes).to_ascii_lowercase())
    }
}

impl std::str::FromStr for Token {
    type Err = Error;

    fn from_str(text: &str) -> Result<Token, Error> {
        let malformed = |why| Error::Token { why };
        let text = text.trim();
        if text.len() > TOKEN_MAX {
            return Err(malformed("it is too long"));
        }
        let body = text.strip_prefix(PREFIX).ok_or(malformed("it does not begin with tern1-"))?;
        let bytes = data_encoding::BASE32_NOPAD
            .decode(body.to_ascii_uppercase().as_bytes())
            .map_err(|_| malformed("it is cut short or mistyped"))?;
        let (token, rest): (Token, _) =
            postcard::take_from_bytes(&bytes).map_err(|_| malformed("it is cut short or mistyped"))?;
        if !rest.is_empty() || token.addresses.len() > ADDRESSES_MAX {
            return Err(malformed("it is mistyped"));
        }
        Ok(token)
    }
}

/// An open invitation, as the inviting node keeps it (`invites/ID.json`).
#[derive(Serialize, Deserialize)]
struct Open {
    secret_sha256: String,
    expires_s: u64,
    authority: bool,
}

/// The rights that an invitation grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The joining node also gets the authority's key, so that it can invite others.
    pub authority: bool,
}

/// The invitations that a node has issued.
pub struct Invitations<'a> {
    store: &'a Store,
}

impl<'a> Invitations<'a> {
    pub(crate) fn new(store: &'a Store) -> Self {
        Invitations { store }
    }

    /// Stores a new invitation, and returns its id and secret.
    ///
    /// # Errors
    /// [`Error::File`] if the state directory cannot be written.
    pub fn open(&self, valid: Duration, grant: Grant, now: SystemTime) -> Result<([u8; 8], [u8; 16]), Error> {
        self.forget_expired(now)?;
        self.store.create(DIR)?;
        let (id, secret) = (crate::random::<8>(), crate::random::<16>());
        let open = Open {
            secret_sha256: hex(&crate::fingerprint(&secret)),
            expires_s: seconds(now) + valid.as_secs(),
            authority: grant.authority,
        };
        let json = serde_json::to_vec(&open).map_err(|_| Error::Malformed { what: "invitation" })?;
        self.store.write(&file(&id), &json)?;
        Ok((id, secret))
    }

    /// Gives the rights that the invitation grants, without using it up.
    ///
    /// # Errors
    /// [`Error::Token`] if the invitation is unknown, used or expired, or the secret is wrong.
    pub fn check(&self, id: &[u8; 8], secret: &[u8; 16], now: SystemTime) -> Result<Grant, Error> {
        let refused = |why| Error::Token { why };
        if !self.store.exists(&file(id)) {
            return Err(refused("it is unknown here, was used already, or has expired"));
        }
        let open: Open = serde_json::from_slice(&self.store.read_secret(&file(id))?)
            .map_err(|_| Error::Malformed { what: "stored invitation" })?;
        let given = hex(&crate::fingerprint(secret));
        if aws_lc_rs::constant_time::verify_slices_are_equal(given.as_bytes(), open.secret_sha256.as_bytes()).is_err() {
            return Err(refused("its secret is wrong"));
        }
        if seconds(now) >= open.expires_s {
            self.store.remove(&file(id))?;
            return Err(refused("it has expired"));
        }
        Ok(Grant { authority: open.authority })
    }

    /// Uses the invitation up. Of two concurrent attempts one succeeds, because the kernel removes
    /// a file once.
    ///
    /// # Errors
    /// Those of [`check`](Self::check).
    pub fn redeem(&self, id: &[u8; 8], secret: &[u8; 16], now: SystemTime) -> Result<Grant, Error> {
        let grant = self.check(id, secret, now)?;
        if self.store.remove(&file(id))? { Ok(grant) } else { Err(Error::Token { why: "it was used already" }) }
    }

    fn forget_expired(&self, now: SystemTime) -> Result<(), Error> {
        for name in self.store.list(DIR)? {
            let path = format!("{DIR}/{name}");
            let expired = self
                .store
                .read(&path)
                .ok()
                .and_then(|b| serde_json::from_slice::<Open>(&b).ok())
                .is_some_and(|open| seconds(now) >= open.expires_s);
            if expired {
                self.store.remove(&path)?;
            }
        }
        Ok(())
    }
}

fn file(id: &[u8; 8]) -> String {
    format!("{DIR}/{}.json", hex(id))
}

fn hex(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(bytes)
}

fn seconds(t: SystemTime) -> u64 {
    t.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}
