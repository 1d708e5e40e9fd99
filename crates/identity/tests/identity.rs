//! Real handshakes between real identities, over a Unix socket pair.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use identity::{Applicant, Error, Grant, Identity, NodeName, Token};
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection};

fn name(s: &str) -> NodeName {
    NodeName::new(s).unwrap()
}

fn join(founder: &Identity, dir: &Path, node: &str, authority: bool) -> Identity {
    let applicant = Applicant::new().unwrap();
    let membership = founder.certify(&name(node), &applicant.public_key(), Grant { authority }).unwrap();
    applicant.admit(dir, &membership).unwrap()
}

/// Runs a handshake. Returns the names that the server and the client give for each other.
fn handshake(
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    to: &str,
) -> Result<(Option<NodeName>, NodeName), String> {
    let (mut a, mut b) = UnixStream::pair().unwrap();
    let serving = std::thread::spawn(move || {
        let mut connection = ServerConnection::new(server).unwrap();
        while connection.is_handshaking() {
            connection.complete_io(&mut b).map_err(|e| format!("server: {e}"))?;
        }
        Ok::<_, String>(connection.peer_certificates().map(|c| identity::peer_node(Some(c)).unwrap()))
    });
    let mut connection = ClientConnection::new(client, identity::server_name(&name(to)).unwrap()).unwrap();
    let result = (|| {
        while connection.is_handshaking() {
            connection.complete_io(&mut a).map_err(|e| format!("client: {e}"))?;
        }
        Ok::<_, String>(identity::peer_node(connection.peer_certificates()).unwrap())
    })();
    drop(a);
    let seen = serving.join().unwrap();
    Ok((seen?, result?))
}

#[test]
fn members_verify_each_other_and_nobody_else() {
    let dir = tempfile::tempdir().unwrap();
    let n1 = identity::init(&dir.path().join("1"), &name("n1")).unwrap();
    let n2 = join(&n1, &dir.path().join("2"), "n2", true);
    let n3 = join(&n2, &dir.path().join("3"), "n3", false);
    let seen = handshake(n3.client_config(), n1.server_config(), "n1").unwrap();
    assert_eq!(seen, (Some(name("n3")), name("n1")));
    assert!(handshake(n2.client_config(), n3.server_config(), "n3").is_ok());
    assert!(handshake(n2.client_config(), n3.server_config(), "n1").is_err(), "n3 cannot pass for n1");

    let foreign = identity::init(&dir.path().join("x"), &name("n1")).unwrap();
    assert!(handshake(foreign.client_config(), n2.server_config(), "n2").is_err(), "a foreign client");
    assert!(handshake(n2.client_config(), foreign.server_config(), "n1").is_err(), "a foreign server");

    assert!(n3.invitations().is_err() && n3.certify(&name("n4"), &[4; 65], Grant { authority: false }).is_err());
}

#[test]
fn newcomers_know_the_authority_by_its_fingerprint() {
    let dir = tempfile::tempdir().unwrap();
    let n1 = identity::init(&dir.path().join("1"), &name("n1")).unwrap();
    let foreign = identity::init(&dir.path().join("x"), &name("n1")).unwrap();
    let config = || Arc::new(identity::admission_client(n1.authority_fingerprint()).unwrap());
    assert_eq!(handshake(config(), n1.admission_config(), "n1").unwrap(), (None, name("n1")));
    assert!(handshake(config(), foreign.admission_config(), "n1").is_err());
    assert!(handshake(config(), n1.server_config(), "n1").is_err(), "no member without a certificate");
}

#[test]
fn invitations_are_used_once_and_expire() {
    let dir = tempfile::tempdir().unwrap();
    let n1 = identity::init(&dir.path().join("1"), &name("n1")).unwrap();
    let (now, minute) = (SystemTime::now(), Duration::from_secs(60));
    let book = n1.invitations().unwrap();
    let (id, secret) = book.open(minute, Grant { authority: true }, now).unwrap();
    assert!(matches!(book.redeem(&id, &[0; 16], now), Err(Error::Token { .. })), "forged");
    assert!(matches!(book.redeem(&[1; 8], &secret, now), Err(Error::Token { .. })), "unknown");
    assert_eq!(book.redeem(&id, &secret, now).unwrap(), Grant { authority: true });
    assert!(matches!(book.redeem(&id, &secret, now), Err(Error::Token { .. })), "used twice");
    let (id, secret) = book.open(minute, Grant { authority: true }, now).unwrap();
    assert!(matches!(book.redeem(&id, &secret, now + minute), Err(Error::Token { .. })), "expired");
}

#[test]
fn of_sixteen_that_redeem_at_once_one_succeeds() {
    let dir = tempfile::tempdir().unwrap();
    let n1 = identity::init(&dir.path().join("1"), &name("n1")).unwrap();
    let now = SystemTime::now();
    let (id, secret) = n1.invitations().unwrap().open(Duration::from_secs(60), Grant { authority: true }, now).unwrap();
    let successes: usize = std::thread::scope(|scope| {
        let tries: Vec<_> =
            (0..16).map(|_| scope.spawn(|| n1.invitations().unwrap().redeem(&id, &secret, now).is_ok())).collect();
        tries.into_iter().map(|t| usize::from(t.join().unwrap())).sum()
    });
    assert_eq!(successes, 1);
}

#[test]
fn keys_are_their_owners_alone() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("1");
    identity::init(&state, &name("n1")).unwrap();
    assert_eq!(std::fs::metadata(&state).unwrap().mode() & 0o777, 0o700);
    for entry in std::fs::read_dir(&state).unwrap() {
        assert_eq!(entry.unwrap().metadata().unwrap().mode() & 0o777, 0o600);
    }
    assert!(matches!(identity::init(&state, &name("n1")), Err(Error::Present { .. })));
    std::fs::set_permissions(state.join("node.key"), std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(matches!(Identity::load(&state), Err(Error::Exposed { .. })));
    identity::forget(&state).unwrap();
    assert!(matches!(Identity::load(&state), Err(Error::Absent { .. })));
    assert_eq!(std::fs::read_dir(&state).unwrap().count(), 0);
}

proptest::proptest! {
    #[test]
    fn tokens_decode_or_are_refused(text in ".{0,300}", bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
        let _ = text.parse::<Token>();
        let _ = format!("tern1-{}", data_encoding::BASE32_NOPAD.encode(&bytes)).parse::<Token>();
    }

    #[test]
    fn tokens_survive_text(id: [u8; 8], secret: [u8; 16], fingerprint: [u8; 32], port: u16) {
        let token = Token { inviter: name("n1"), addresses: vec![([127, 0, 0, 1], port).into()], id, secret, fingerprint };
        proptest::prop_assert_eq!(token.to_string().parse::<Token>().unwrap(), token);
    }
}
