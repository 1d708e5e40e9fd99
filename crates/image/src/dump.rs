//! The stream of a dump: a whole process on its way through a file, a pipe or a socket.
//!
//! ```text
//! magic | Origin | Identities | Image | Vdso | Pages, Zeros ... | End
//! ```
//!
//! Behind the magic come frames, each with its kind, version and length. The reader never seeks,
//! takes no byte behind the last frame, and keeps at most one frame in memory. Everything in it may
//! come from a hostile user: each kind of frame has a largest length, comes in its turn, and is
//! checked before it is given out.

mod frame;
mod reader;
mod writer;

pub use frame::{DumpError, Frame, Identity, Kind, Origin, PAGES_BYTES_MAX, Run, Totals};
pub use reader::DumpReader;
pub use writer::DumpWriter;
