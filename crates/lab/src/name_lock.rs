//! The right to a lab's name.

use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::error::{Context, Error, Result};
use crate::options::LabName;
use crate::state::LabState;

/// Takes the exclusive right to make or remove the lab of this name: an abstract socket, which ends
/// with its holder whatever happens.
pub fn lock(name: &LabName, limit: Duration) -> Result<UnixListener> {
    let address = SocketAddr::from_abstract_name(format!("tern-lab/{name}")).context(|| "name the lab's lock")?;
    let end = Instant::now() + limit;
    loop {
        match UnixListener::bind_addr(&address) {
            Ok(lock) => return Ok(lock),
            Err(e) if e.kind() != ErrorKind::AddrInUse => return Err(e).context(|| "take the lab's lock"),
            Err(_) if LabState::load(name).is_ok() || Instant::now() >= end => {
                return Err(Error::AlreadyUp(name.to_string()));
            }
            Err(_) => sleep(Duration::from_millis(10)),
        }
    }
}
