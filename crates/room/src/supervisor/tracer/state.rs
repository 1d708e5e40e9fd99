//! What the tracer keeps of threads and bodies, one module per duty. A module here has a type and
//! the methods that need nothing else; it imports neither the tracer nor the room. What the tracer
//! does with its state is beside this directory, in the module of the same duty.

pub mod arriving;
pub mod arriving_groups;
pub mod births;
pub mod bodies;
pub mod departing;
pub mod dying;
pub mod ends;
pub mod entering;
pub mod injected;
pub mod interrupted_calls;
pub mod lost;
pub mod memory_group;
pub mod passing;
pub mod porter;
pub mod signals;
pub mod stale_stops;
pub mod stops;
pub mod suspension;
pub mod unsupported_clone;
