//! Home files: FUSE protocol, the server at home, the client in the room.

pub mod client;
pub mod invalidation;
pub mod proto;
pub mod server;
