//! Makes a way to another room of the same home ([`crate::supervisor::transfer::direct_link`]).

use crate::state::shared::Shared;
use crate::state::transfer::direct_links::{DirectLink, DirectLinkError};
use control_protocol::steward::{Preamble, RoomId};
use room_protocol::Kind;
use room_protocol::message::onward::{Hello, Lane, Purpose};
use std::io::Write;
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long another node may take to be reached.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);

/// Connects to another room, and says what the way is for.
///
/// # Errors
/// The node, or its room, is out of reach.
pub fn reach(room: &Shared, purpose: Purpose, lane: &Lane) -> Result<DirectLink, DirectLinkError> {
    os::fault::at("connect there")?;
    let identity = room.direct_links.identity()?;
    let mut socket = TcpStream::connect_timeout(&lane.address, CONNECT_WITHIN)?;
    socket.write_all(&Preamble::Lane(RoomId(lane.room)).encode())?;
    let name = identity::server_name(&identity::NodeName::new(lane.node.as_str())?)?;
    let kept = socket.try_clone()?;
    let (link, back, _) = link::connect(socket, identity.client_config(), name)?;
    let hello = Hello { version: room_protocol::VERSION, purpose, ticket: lane.ticket };
    let hello = postcard::to_stdvec(&hello).map_err(|_| DirectLinkError::Odd("the use of the way cannot be said"))?;
    link.send(Kind::Message, 0, 0, &[&hello])?;
    Ok(DirectLink { link: Arc::new(link), socket: Arc::new(kept), back: Arc::new(Mutex::new(Some(back))) })
}
