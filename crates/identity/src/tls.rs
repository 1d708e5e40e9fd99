//! TLS 1.3 between nodes, verified against the cluster's own authority alone.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme};

use crate::{Error, NodeId, NodeName, authority};

/// A member's certificate, its key, and the authority against which both ends are verified.
pub(crate) struct Credentials {
    pub(crate) authority: CertificateDer<'static>,
    pub(crate) node: CertificateDer<'static>,
    pub(crate) key: PrivateKeyDer<'static>,
}

impl Credentials {
    /// Makes the configuration for connecting to a member.
    pub(crate) fn client(&self) -> Result<ClientConfig, Error> {
        let config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(roots(&self.authority)?)
            .with_client_auth_cert(vec![self.node.clone()], self.key.clone_key())?;
        Ok(without_resumption(config))
    }

    /// Makes the configuration for accepting members.
    pub(crate) fn server(&self) -> Result<ServerConfig, Error> {
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(&self.authority)?), provider())
            .build()
            .map_err(|e| Error::Tls(rustls::Error::General(e.to_string())))?;
        let config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![self.node.clone()], self.key.clone_key())?;
        Ok(without_tickets(config))
    }

    /// Makes the configuration for accepting nodes without a certificate. The authority's
    /// certificate goes along, because a joining node knows only its fingerprint.
    pub(crate) fn admission_server(&self) -> Result<ServerConfig, Error> {
        let config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_single_cert(vec![self.node.clone(), self.authority.clone()], self.key.clone_key())?;
        Ok(without_tickets(config))
    }
}

/// Makes the configuration of a joining node, which knows the authority only by its fingerprint
/// (SHA-256 of its certificate).
///
/// # Errors
/// [`Error::Tls`] if the provider lacks TLS 1.3 (it does not).
pub fn admission_client(fingerprint: [u8; 32]) -> Result<ClientConfig, Error> {
    let config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(PinnedAuthority { fingerprint }))
        .with_no_client_auth();
    Ok(without_resumption(config))
}

/// Reads the name of the node at the other end of a finished handshake (`peer_certificates()` of
/// the connection), which rustls has verified.
///
/// # Errors
/// [`Error::Malformed`] if the certificate is absent or names no node.
pub fn peer_node(certificates: Option<&[CertificateDer<'_>]>) -> Result<NodeName, Error> {
    peer(certificates).map(|(name, _)| name)
}

/// Reads the name and id of the node at the other end of a finished handshake, as [`peer_node`]
/// does.
///
/// # Errors
/// Those of [`peer_node`].
pub fn peer(certificates: Option<&[CertificateDer<'_>]>) -> Result<(NodeName, NodeId), Error> {
    let first = certificates
        .and_then(<[_]>::first)
        .ok_or(Error::Malformed { what: "certificate of the peer (none was shown)" })?;
    authority::node_of(first)
}

/// Gives the name by which TLS verifies a node: its own.
///
/// # Errors
/// [`Error::Malformed`], which a valid node name never causes.
pub fn server_name(node: &NodeName) -> Result<ServerName<'static>, Error> {
    ServerName::try_from(node.as_str().to_owned()).map_err(|_| Error::Malformed { what: "node name as a DNS name" })
}

/// Gives the provider with AES-128-GCM first: the fastest cipher where the CPU has AES instructions
/// (DEPENDENCIES: 15 GB/s a core).
fn provider() -> Arc<CryptoProvider> {
    let mut provider = aws_lc_rs::default_provider();
    provider.cipher_suites = vec![
        aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256,
        aws_lc_rs::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        aws_lc_rs::cipher_suite::TLS13_AES_256_GCM_SHA384,
    ];
    provider.kx_groups = vec![aws_lc_rs::kx_group::X25519, aws_lc_rs::kx_group::SECP256R1];
    Arc::new(provider)
}

fn roots(authority: &CertificateDer<'static>) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    roots.add(authority.clone())?;
    Ok(roots)
}

/// Switches session resumption off, because links keep the session keys for themselves (crate
/// `link`).
fn without_resumption(mut config: ClientConfig) -> ClientConfig {
    config.enable_secret_extraction = true;
    config.resumption = Resumption::disabled();
    config
}

fn without_tickets(mut config: ServerConfig) -> ServerConfig {
    config.enable_secret_extraction = true;
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config
}

/// Accepts a server whose chain ends in the authority with this fingerprint.
#[derive(Debug)]
struct PinnedAuthority {
    fingerprint: [u8; 32],
}

impl ServerCertVerifier for PinnedAuthority {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let pinned = intermediates
            .iter()
            .find(|c| crate::fingerprint(c) == self.fingerprint)
            .ok_or(rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer))?;
        let mut roots = RootCertStore::empty();
        roots.add(pinned.clone().into_owned())?;
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider())
            .build()
            .map_err(|e| rustls::Error::General(e.to_string()))?
            .verify_server_cert(end_entity, &[], name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("only TLS 1.3 is spoken".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(
            message,
            certificate,
            signature,
            &provider().signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}
