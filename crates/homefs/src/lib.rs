//! Home files: FUSE protocol, the server at home, the client in the room.

pub mod proto;
