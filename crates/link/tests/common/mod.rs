//! A link in this process.

use link::{Receiver, Sender};
use std::net::{TcpListener, TcpStream};

/// Gives one direction of a link over loopback.
pub fn pair() -> (Sender, Receiver) {
    let dir = tempfile::tempdir().unwrap();
    let name = identity::NodeName::new("n1").unwrap();
    let node = identity::init(dir.path(), &name).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let server = node.server_config();
    let accepting = std::thread::spawn(move || link::accept(listener.accept().unwrap().0, server).unwrap());
    let (sender, _, _) = link::connect(socket, node.client_config(), identity::server_name(&name).unwrap()).unwrap();
    (sender, accepting.join().unwrap().1)
}
