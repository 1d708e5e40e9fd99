//! A room from the connection of its warden until it is served.

use crate::agent::{StewardError, frames};
use crate::proxy::clocks::{clocks, told_clocks};
use crate::proxy::files::{Hosted, ToTheRoom};
use crate::proxy::mounts;
use crate::room::state::Room;
use homefs::server::{ExportPath, Server};
use link::Receiver;
use room_protocol::message::{Home, Mount};
use room_protocol::{Kind, ToHome, ToRoom};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

/// The warden's connection came: TLS, introductions, and from then on the room is served.
pub fn connect(room: &Arc<Room>, socket: TcpStream) -> Result<(), String> {
    if room.link.downlink().is_some() {
        return Err("the room has its warden already".into());
    }
    os::fault::at("connect").map_err(|e| e.to_string())?;
    let identity = identity::Identity::load(&room.args.state).map_err(|e| e.to_string())?;
    let (downlink, mut uplink, certificates) =
        link::accept(socket, identity.server_config()).map_err(|e| e.to_string())?;
    downlink.lose_after(Duration::from_millis(room.args.lost_after_ms.into())).map_err(|e| e.to_string())?;
    let peer = identity::peer_node(Some(&certificates)).map_err(|e| e.to_string())?;
    if peer.as_str() != room.args.host {
        return Err(format!("node {peer} came instead of {}", room.args.host));
    }
    let hello = first_message(&downlink, &mut uplink);
    match hello {
        Some(ToHome::Hello { version }) if version == room_protocol::VERSION => {}
        Some(ToHome::Hello { version }) => {
            return Err(format!(
                "it speaks version {version} of the room protocol, this node {}: upgrade one of them",
                room_protocol::VERSION
            ));
        }
        _ => return Err("it did not introduce itself".into()),
    }
    room.link.connect(downlink)?;
    open(room).map_err(|e| e.to_string())?;
    frames::receive(room, uplink)
}

/// Clock readings that a room may ask for before it introduces itself.
const CLOCKS_MAX: usize = 100;

/// The message with which the room introduces itself; before it, the room reads our clocks.
fn first_message(downlink: &link::Sender, uplink: &mut Receiver) -> Option<ToHome> {
    let mut body = Vec::new();
    for _ in 0..CLOCKS_MAX {
        uplink.receive(&mut body).ok().filter(|head| head.kind == Kind::Message)?;
        match postcard::from_bytes(&body).ok()? {
            ToHome::Clock => {
                let answer = postcard::to_stdvec(&told_clocks()).ok()?;
                downlink.send(Kind::Message, 0, 0, &[&answer]).ok()?;
            }
            other => return Some(other),
        }
    }
    None
}

/// Serves the files, and says what the home looks like.
fn open(room: &Arc<Room>) -> Result<(), StewardError> {
    let (seen, devices) = (mounts::seen_now()?, mounts::devices_now()?);
    let mounts = seen.iter().map(|s| Mount { path: mounts::bytes(&s.path), read_only: s.read_only }).collect();
    let exports: Vec<ExportPath> = seen.into_iter().map(|s| ExportPath { path: s.path }).collect();
    let files = Server::start(&exports, Arc::new(Hosted(Arc::downgrade(room))), Arc::new(ToTheRoom(room.clone())))?;
    room.link.serve(files);
    let uname = rustix::system::uname();
    let (monotonic_ns, boottime_ns) = clocks();
    let home = Home {
        version: room_protocol::VERSION,
        hostname: uname.nodename().to_bytes().to_vec(),
        domainname: uname.domainname().to_bytes().to_vec(),
        monotonic_ns,
        boottime_ns,
        vdso: os::vdso::own(),
        lost_after_ms: room.args.lost_after_ms,
        mounts,
        devices,
    };
    room.tell(&ToRoom::Open(home));
    Ok(())
}
