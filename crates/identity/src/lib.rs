//! Membership: the cluster's authority, node certificates, invitations, and the TLS configurations
//! that follow from them.
//!
//! The state directory (`/var/lib/tern`, 0700; every file 0600) holds:
//!
//! - `node.json`: cluster, name and id of this node;
//! - `authority.pem`: the authority's certificate;
//! - `authority.key`: the authority's key, on nodes that may invite. These are the node of `tern
//!   init` and every node whose invitation granted it (the default: no node is special);
//! - `node.pem` and `node.key`: this node's certificate and key;
//! - `gossip.key`: 32 bytes that all members share, from which the keys of membership datagrams are
//!   derived;
//! - `invites/`: open invitations of this node.
//!
//! A node with the authority's key can make certificates for any name. Invite nodes that should not
//! have it with `tern invite --without-authority`.

mod authority;
mod invite;
mod name;
mod store;
mod tls;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ServerConfig};
use serde::{Deserialize, Serialize};

pub use authority::Authority;
pub use invite::{Grant, Invitations, Token};
pub use name::{NAME_MAX, NodeId, NodeName};
pub use store::DEFAULT_DIR;
pub use tls::{admission_client, peer, peer_node, server_name};

use store::Store;

/// Why an identity cannot be made, read or used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An operation on a file of the state directory failed.
    #[error("cannot {what} {}", path.display())]
    File {
        /// The operation, a verb.
        what: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// Other users may read a secret file.
    #[error("{} has mode {mode:o}: a key must be readable by its owner alone (chmod 600)", path.display())]
    Exposed {
        /// Path of the file.
        path: PathBuf,
        /// Permission bits of the file.
        mode: u32,
    },
    /// A text is not a node name.
    #[error("{name:?} is not a node name: {rule}")]
    Name {
        /// The text as given.
        name: String,
        /// The rule that the text breaks.
        rule: &'static str,
    },
    /// An invitation cannot be used.
    #[error("the invitation is not valid: {why}")]
    Token {
        /// The reason for the refusal.
        why: &'static str,
    },
    /// A file or message is malformed.
    #[error("malformed {what}")]
    Malformed {
        /// What the bytes should be.
        what: &'static str,
    },
    /// The directory holds no identity.
    #[error("no node identity in {}: this machine is in no cluster (tern init, or tern join TOKEN)", dir.display())]
    Absent {
        /// Path of the state directory.
        dir: PathBuf,
    },
    /// The directory already holds an identity.
    #[error("{} already holds the identity of node {node}", dir.display())]
    Present {
        /// Path of the state directory.
        dir: PathBuf,
        /// Name of that identity's node.
        node: String,
    },
    /// This node does not hold the authority's key, so it may not invite.
    #[error("this node does not hold the authority's key: invite from a node that does")]
    NoAuthority,
    /// A certificate cannot be made.
    #[error("cannot make a certificate")]
    Certificate(#[from] rcgen::Error),
    /// A TLS configuration cannot be made.
    #[error("cannot set up TLS")]
    Tls(#[from] rustls::Error),
}

impl Error {
    pub(crate) fn file(what: &'static str, path: &Path, source: std::io::Error) -> Error {
        Error::File { what, path: path.to_path_buf(), source }
    }
}

/// The identity of this node without its keys: `node.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Random name of the cluster (hex).
    pub cluster: String,
    /// Name of this node.
    pub node: NodeName,
    /// Id of this node.
    pub id: NodeId,
}

/// All that a joining node gets from the inviting node.
#[derive(Clone, Serialize, Deserialize)]
pub struct Membership {
    /// Cluster, name and id of the joining node.
    pub about: About,
    /// The authority's certificate, DER.
    pub authority: Vec<u8>,
    /// The joining node's certificate, DER.
    pub certificate: Vec<u8>,
    /// The authority's key, PEM, if granted.
    pub authority_key: Option<String>,
    /// The secret that all members share.
    pub gossip_key: [u8; 32],
}

/// A node's identity, loaded from the state directory.
pub struct Identity {
    store: Store,
    about: About,
    authority_certificate: CertificateDer<'static>,
    authority: Option<Authority>,
    gossip_key: [u8; 32],
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    admission: Arc<ServerConfig>,
}

/// A key that a joining node makes before it is admitted.
pub struct Applicant {
    key: rcgen::KeyPair,
}

impl Applicant {
    /// Makes a key.
    ///
    /// # Errors
    /// [`Error::Certificate`] if that fails.
    pub fn new() -> Result<Applicant, Error> {
        Ok(Applicant { key: authority::new_key()? })
    }

    /// Gives the public key for the authority to certify.
    pub fn public_key(&self) -> Vec<u8> {
        self.key.public_key_raw().to_vec()
    }

    /// Writes the identity that `membership` grants into `dir`.
    ///
    /// # Errors
    /// [`Error::Present`] if there is one, [`Error::File`] if it cannot be written.
    pub fn admit(&self, dir: &Path, membership: &Membership) -> Result<Identity, Error> {
        let store = vacant(dir)?;
        store.write("authority.pem", pem("CERTIFICATE", &membership.authority).as_bytes())?;
        store.write("node.pem", pem("CERTIFICATE", &membership.certificate).as_bytes())?;
        store.write("node.key", self.key.serialize_pem().as_bytes())?;
        store.write("gossip.key", &membership.gossip_key)?;
        if let Some(key) = &membership.authority_key {
            store.write("authority.key", key.as_bytes())?;
        }
        // This file comes last, because it makes the directory an identity.
        let about = serde_json::to_vec_pretty(&membership.about).map_err(|_| Error::Malformed { what: "node.json" })?;
        store.write("node.json", &about)?;
        Identity::load(dir)
    }
}

/// Makes a cluster whose only member is this node.
///
/// # Errors
/// [`Error::Present`] if `dir` holds an identity, [`Error::File`] if it cannot be written.
pub fn init(dir: &Path, node: &NodeName) -> Result<Identity, Error> {
    vacant(dir)?;
    let cluster = data_encoding::HEXLOWER.encode(&random::<8>());
    let (authority, certificate) = Authority::create(&cluster)?;
    let applicant = Applicant::new()?;
    let about = About { cluster, node: node.clone(), id: new_id() };
    let membership = Membership {
        certificate: authority.certify(node, about.id, &applicant.public_key())?.to_vec(),
        about,
        authority: certificate.to_vec(),
        authority_key: Some(authority.to_pem()),
        gossip_key: random(),
    };
    applicant.admit(dir, &membership)
}

impl Identity {
    /// Reads the identity in `dir`.
    ///
    /// # Errors
    /// [`Error::Absent`] if there is none; [`Error::File`], [`Error::Exposed`] or
    /// [`Error::Malformed`] if it cannot be used.
    pub fn load(dir: &Path) -> Result<Identity, Error> {
        let store = Store::new(dir);
        if !store.exists("node.json") {
            return Err(Error::Absent { dir: dir.to_path_buf() });
        }
        let about: About =
            serde_json::from_slice(&store.read("node.json")?).map_err(|_| Error::Malformed { what: "node.json" })?;
        let credentials = tls::Credentials {
            authority: certificate(&store, "authority.pem")?,
            node: certificate(&store, "node.pem")?,
            key: PrivateKeyDer::from_pem_slice(&store.read_secret("node.key")?)
                .map_err(|_| Error::Malformed { what: "node.key" })?,
        };
        let authority = match store.exists("authority.key") {
            true => {
                let pem = String::from_utf8(store.read_secret("authority.key")?)
                    .map_err(|_| Error::Malformed { what: "authority.key" })?;
                Some(Authority::from_pem(&about.cluster, &pem)?)
            }
            false => None,
        };
        let gossip_key = store
            .read_secret("gossip.key")?
            .try_into()
            .map_err(|_| Error::Malformed { what: "gossip.key (32 bytes expected)" })?;
        Ok(Identity {
            client: Arc::new(credentials.client()?),
            server: Arc::new(credentials.server()?),
            admission: Arc::new(credentials.admission_server()?),
            authority_certificate: credentials.authority,
            store,
            about,
            authority,
            gossip_key,
        })
    }

    /// Gives this node's name.
    pub fn node(&self) -> &NodeName {
        &self.about.node
    }

    /// Gives cluster, name and id.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Gives the state directory.
    pub fn dir(&self) -> &Path {
        self.store.dir()
    }

    /// Gives the configuration for connecting to a member; both ends are verified.
    pub fn client_config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.client)
    }

    /// Gives the configuration for accepting members; both ends are verified.
    pub fn server_config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.server)
    }

    /// Gives the configuration for accepting joining nodes with an invitation; only this end is
    /// verified.
    pub fn admission_config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.admission)
    }

    /// Gives the secret that all members share.
    pub fn gossip_key(&self) -> &[u8; 32] {
        &self.gossip_key
    }

    /// Computes the SHA-256 of the authority's certificate.
    pub fn authority_fingerprint(&self) -> [u8; 32] {
        fingerprint(&self.authority_certificate)
    }

    /// Gives the invitations issued by this node.
    ///
    /// # Errors
    /// [`Error::NoAuthority`] if this node may not invite.
    pub fn invitations(&self) -> Result<Invitations<'_>, Error> {
        self.authority.as_ref().map(|_| Invitations::new(&self.store)).ok_or(Error::NoAuthority)
    }

    /// Makes the membership of the joining node `node` with this public key.
    ///
    /// # Errors
    /// [`Error::NoAuthority`] if this node may not invite; [`Error::Malformed`] for a bad key.
    pub fn certify(&self, node: &NodeName, public_key: &[u8], grant: Grant) -> Result<Membership, Error> {
        let authority = self.authority.as_ref().ok_or(Error::NoAuthority)?;
        let about = About { cluster: self.about.cluster.clone(), node: node.clone(), id: new_id() };
        Ok(Membership {
            certificate: authority.certify(node, about.id, public_key)?.to_vec(),
            about,
            authority: self.authority_certificate.to_vec(),
            authority_key: grant.authority.then(|| authority.to_pem()),
            gossip_key: self.gossip_key,
        })
    }

    /// Reads a file that the daemon keeps beside the identity; `None` if absent.
    ///
    /// # Errors
    /// [`Error::File`] if the file cannot be read.
    pub fn read_note(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        if self.store.exists(name) { self.store.read(name).map(Some) } else { Ok(None) }
    }

    /// Writes a file beside the identity, 0600, completely or not at all.
    ///
    /// # Errors
    /// [`Error::File`] if the file cannot be written.
    pub fn write_note(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        self.store.write(name, bytes)
    }
}

/// Removes the identity in `dir` (after `tern leave`): keys, certificates, invitations and notes.
///
/// # Errors
/// [`Error::File`] if a file cannot be removed.
pub fn forget(dir: &Path) -> Result<(), Error> {
    let store = Store::new(dir);
    // This file goes first: without it the directory is no identity, whatever else remains.
    store.remove("node.json")?;
    for file in [
        "node.key",
        "authority.key",
        "gossip.key",
        "node.pem",
        "authority.pem",
        "members.json",
        "listen",
        "usage.json",
        "nodes.json",
    ] {
        store.remove(file)?;
    }
    for file in store.list(invite::DIR)? {
        store.remove(&format!("{}/{file}", invite::DIR))?;
    }
    Ok(())
}

fn vacant(dir: &Path) -> Result<Store, Error> {
    let store = Store::new(dir);
    if store.exists("node.json") {
        let node = Identity::load(dir).map_or_else(|_| "unknown".into(), |i| i.node().to_string());
        return Err(Error::Present { dir: dir.to_path_buf(), node });
    }
    store.create("")?;
    Ok(store)
}

fn certificate(store: &Store, name: &'static str) -> Result<CertificateDer<'static>, Error> {
    CertificateDer::from_pem_slice(&store.read(name)?).map_err(|_| Error::Malformed { what: name })
}

/// Encodes DER as RFC 7468 text.
fn pem(label: &str, der: &[u8]) -> String {
    let body = data_encoding::BASE64.encode(der);
    let lines: Vec<&str> = (0..body.len()).step_by(64).map(|i| &body[i..body.len().min(i + 64)]).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

/// Computes the SHA-256 of bytes.
pub(crate) fn fingerprint(bytes: &[u8]) -> [u8; 32] {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes);
    let mut out = [0; 32];
    out.copy_from_slice(digest.as_ref());
    out
}

#[expect(clippy::expect_used, reason = "aws-lc's generator fails only when the kernel has no randomness at all")]
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut out = [0; N];
    aws_lc_rs::rand::fill(&mut out).expect("the kernel gives random bytes");
    out
}

fn new_id() -> NodeId {
    NodeId(u64::from_le_bytes(random()))
}
