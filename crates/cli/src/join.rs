//! `tern init` and `tern join`: how a machine becomes a node.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use control_protocol::peer::{JoinAnswer, JoinRequest, MESSAGE_BYTES, Member};
use control_protocol::steward::Preamble;
use identity::{Applicant, Identity, Membership, NodeName, Token};
use rustls::{ClientConnection, StreamOwned};

use crate::{Error, Host, address, args, policy};

/// The time limit for connecting, and for each read and write.
const WITHIN: Duration = Duration::from_secs(10);

/// The most bytes that are read of an invitation on standard input.
const TOKEN_INPUT_BYTES: u64 = 4096;

/// Creates a cluster with this machine as its first node.
pub(crate) fn init(state: &Path, node: &args::Node, host: Host) -> Result<(Identity, SocketAddr), Error> {
    vacant(state)?;
    let (address, is_chosen) = match node.addr {
        Some(address) => (address, true),
        None => address::find(&(host.own_address)())?,
    };
    let identity = identity::init(state, &name(node)?)?;
    // An address that was not chosen is found again at each start, because it may have changed.
    if is_chosen {
        identity.write_note("listen", address.to_string().as_bytes())?;
    }
    if node.no_guests {
        policy::note_no_guests(&identity)?;
    }
    Ok((identity, address))
}

/// Checks that this machine is not a member yet.
fn vacant(state: &Path) -> Result<(), Error> {
    match Identity::load(state) {
        Ok(present) => {
            Err(identity::Error::Present { dir: state.to_path_buf(), node: present.node().to_string() }.into())
        }
        Err(_) => Ok(()),
    }
}

/// Joins a cluster with an invitation.
pub(crate) fn join(state: &Path, args: &args::Join) -> Result<Identity, Error> {
    let token: Token = given_token(&args.token)?.parse()?;
    vacant(state)?;
    let applicant = Applicant::new()?;
    let request = JoinRequest {
        id: token.id,
        secret: token.secret,
        name: name(&args.node)?.to_string(),
        public_key: applicant.public_key(),
    };
    match redeem(&token, &request)? {
        JoinAnswer::Refused { reason } => Err(Error::Refused {
            reason: format!("node {} refused: {reason}", token.inviter),
            hint: Some("`tern invite` makes a new invitation".into()),
        }),
        JoinAnswer::Admitted { membership, members } => {
            let membership: Membership =
                postcard::from_bytes(&membership).map_err(|_| identity::Error::Malformed { what: "membership" })?;
            let identity = applicant.admit(state, &membership)?;
            note_members(&identity, &members)?;
            note_address(&identity, &args.node)?;
            if args.node.no_guests {
                policy::note_no_guests(&identity)?;
            }
            Ok(identity)
        }
    }
}

/// Gives the token; `-` reads standard input, so that no process list shows it.
fn given_token(argument: &str) -> Result<String, Error> {
    let mut token = argument.to_owned();
    if argument == "-" {
        token.clear();
        let limit = io::stdin().take(TOKEN_INPUT_BYTES).read_to_string(&mut token);
        limit.map_err(|source| Error::Local { what: "read the invitation from standard input", source })?;
    }
    Ok(token)
}

fn name(node: &args::Node) -> Result<NodeName, Error> {
    match &node.name {
        Some(name) => Ok(name.clone()),
        None => {
            let host = rustix::system::uname().nodename().to_string_lossy().to_lowercase();
            Ok(NodeName::new(host.split('.').next().unwrap_or_default())?)
        }
    }
}

/// Tries the inviting node's addresses in turn.
fn redeem(token: &Token, request: &JoinRequest) -> Result<JoinAnswer, Error> {
    let mut last = None;
    for address in &token.addresses {
        match redeem_at(*address, token, request) {
            Ok(answer) => return Ok(answer),
            Err(source) => last = Some(Error::Join { address: address.to_string(), source }),
        }
    }
    Err(last.unwrap_or(identity::Error::Token { why: "it names no address" }.into()))
}

fn redeem_at(address: SocketAddr, token: &Token, request: &JoinRequest) -> io::Result<JoinAnswer> {
    let mut tcp = TcpStream::connect_timeout(&address, WITHIN)?;
    tcp.set_read_timeout(Some(WITHIN))?;
    tcp.set_write_timeout(Some(WITHIN))?;
    tcp.set_nodelay(true)?;
    tcp.write_all(&Preamble::Join.encode())?;
    let config = identity::admission_client(token.fingerprint).map_err(io::Error::other)?;
    let server = identity::server_name(&token.inviter).map_err(io::Error::other)?;
    let connection = ClientConnection::new(Arc::new(config), server).map_err(io::Error::other)?;
    let mut stream = StreamOwned::new(connection, tcp);
    let body = control_protocol::codec::encode(request, MESSAGE_BYTES).map_err(io::Error::other)?;
    let length = u32::try_from(body.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_le_bytes(), body.as_slice()].concat())?;
    stream.flush()?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
    if length > MESSAGE_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "answer is too large"));
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    control_protocol::codec::decode(&body).map_err(io::Error::other)
}

/// Stores the members to which the daemon connects when it starts.
fn note_members(identity: &Identity, members: &[Member]) -> Result<(), Error> {
    let json = serde_json::to_vec(members).map_err(|_| identity::Error::Malformed { what: "list of members" })?;
    Ok(identity.write_note("members.json", &json)?)
}

/// Stores the address at which the daemon listens by default.
fn note_address(identity: &Identity, node: &args::Node) -> Result<(), Error> {
    match node.addr {
        Some(address) => Ok(identity.write_note("listen", address.to_string().as_bytes())?),
        None => Ok(()),
    }
}
