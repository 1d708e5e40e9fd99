//! From the command line to a steward that serves, and to its end.

use crate::agent::{StewardError, control, event_loop, watchdog_keeper};
use crate::deputy::watchdog::Watchdog;
use crate::room::args::StewardArgs;
use crate::room::poller::Poller;
use crate::room::state::Room;
use std::sync::Arc;

/// Runs the steward until its room is gone and its last deputy has ended.
pub fn run(args: StewardArgs) -> Result<(), StewardError> {
    // For the heir, which tells the guests.
    os::last_words::keep()?;
    os::stray::outlive()?;
    // SAFETY: the threads of this process are started below.
    let heir = unsafe { Watchdog::beget(&args.host)? };
    let rooms = args.run_dir.join("rooms");
    std::fs::create_dir_all(&rooms).map_err(|e| os::Error::new(format!("making {}", rooms.display()), e))?;
    let path = args.socket();
    let listener = os::socket::listen(&path)?;
    let room = Arc::new(Room::new(args, Poller::new()?, heir));
    let serving = room.clone();
    std::thread::Builder::new()
        .name("socket".into())
        .spawn(move || control::serve(&serving, &listener))
        .map_err(|e| os::Error::new("starting a thread", e))?;
    let watching = room.clone();
    std::thread::Builder::new()
        .name("heirs".into())
        .spawn(move || watchdog_keeper::keep(&watching))
        .map_err(|e| os::Error::new("starting a thread", e))?;
    event_loop::run(room);
    let _ = std::fs::remove_file(path);
    Ok(())
}
