//! The cluster's authority: the key that makes a node a member.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256, PublicKeyData, SanType, SerialNumber, SignatureAlgorithm,
};
use rustls::pki_types::CertificateDer;

use crate::{Error, NodeId, NodeName};

/// The suffix of the second DNS name in a node's certificate, which carries the node's id.
const ID_SUFFIX: &str = ".id.tern";
/// Bytes of an uncompressed P-256 point.
const PUBLIC_KEY_BYTES: usize = 65;

/// The authority's key and certificate.
pub struct Authority {
    cluster: String,
    key: KeyPair,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Authority({})", self.cluster)
    }
}

/// The public key of a node that asks for a certificate.
struct Applicant<'a>(&'a [u8]);

impl PublicKeyData for Applicant<'_> {
    fn der_bytes(&self) -> &[u8] {
        self.0
    }
    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

impl Authority {
    /// Creates a new authority and its certificate.
    ///
    /// # Errors
    /// [`Error::Certificate`] if the key cannot be made.
    pub(crate) fn create(cluster: &str) -> Result<(Authority, CertificateDer<'static>), Error> {
        let key = new_key()?;
        let certificate = parameters(cluster).self_signed(&key)?;
        Ok((Authority { cluster: cluster.to_owned(), key }, certificate.der().clone()))
    }

    pub(crate) fn from_pem(cluster: &str, pem: &str) -> Result<Authority, Error> {
        Ok(Authority { cluster: cluster.to_owned(), key: KeyPair::from_pem(pem)? })
    }

    pub(crate) fn to_pem(&self) -> String {
        self.key.serialize_pem()
    }

    /// Certifies that the node `name` holds the private key of `public_key` (an uncompressed P-256
    /// point). A node that does not hold the key gains nothing by the certificate, so possession
    /// need not be proved here.
    ///
    /// # Errors
    /// [`Error::Certificate`] if the public key is invalid.
    pub fn certify(&self, name: &NodeName, id: NodeId, public_key: &[u8]) -> Result<CertificateDer<'static>, Error> {
        if public_key.len() != PUBLIC_KEY_BYTES || public_key[0] != 4 {
            return Err(Error::Malformed { what: "public key of the node" });
        }
        let mut params = base_parameters(name.as_str());
        params.subject_alt_names = vec![dns(name.as_str())?, dns(&format!("{id}{ID_SUFFIX}"))?];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let issuer = Issuer::new(parameters(&self.cluster), &self.key);
        Ok(params.signed_by(&Applicant(public_key), &issuer)?.der().clone())
    }
}

/// Creates a key pair for a node or an authority.
pub(crate) fn new_key() -> Result<KeyPair, Error> {
    Ok(KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?)
}

/// Reads the name and id from a node's certificate, which the caller has verified against the
/// authority.
pub(crate) fn node_of(certificate: &CertificateDer<'_>) -> Result<(NodeName, NodeId), Error> {
    let malformed = || Error::Malformed { what: "certificate of the peer" };
    let parsed = webpki::EndEntityCert::try_from(certificate).map_err(|_| malformed())?;
    let mut name = None;
    let mut id = None;
    for dns in parsed.valid_dns_names() {
        match dns.strip_suffix(ID_SUFFIX) {
            Some(hex) => id = u64::from_str_radix(hex, 16).ok(),
            None => name = NodeName::new(dns).ok(),
        }
    }
    Ok((name.ok_or_else(malformed)?, NodeId(id.ok_or_else(malformed)?)))
}

fn dns(name: &str) -> Result<SanType, Error> {
    Ok(SanType::DnsName(name.to_owned().try_into()?))
}

/// Gives parameters of a certificate that is valid for ever (rcgen: 1975 to 4096). A node whose
/// clock is wrong must still be able to report that.
fn base_parameters(common_name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    let mut serial = crate::random::<16>();
    serial[0] &= 0x7f;
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    params
}

fn parameters(cluster: &str) -> CertificateParams {
    let mut params = base_parameters(&format!("tern cluster {cluster}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params
}
