//! The thread that looks twice a second how busy this node is.

use std::sync::Arc;
use std::time::Duration;

use os::share::Share;

use crate::daemon::Daemon;
use crate::load::calibrate;

/// Time between two looks.
const EVERY: Duration = Duration::from_millis(500);
/// Speed until it is measured.
const REFERENCE_MILLI: u32 = 1000;

/// Measures until the daemon ends.
pub(crate) fn start(daemon: Arc<Daemon>) -> std::io::Result<()> {
    // The first reading is there before anybody asks.
    let share = Share::find();
    daemon.meter.look(daemon.uptime_ms(), &share, REFERENCE_MILLI);
    let work = move || {
        let speed_milli = calibrate();
        loop {
            if daemon.meter.look(daemon.uptime_ms(), &share, speed_milli) {
                daemon.swim.news();
            }
            std::thread::sleep(daemon.paced(EVERY));
        }
    };
    std::thread::Builder::new().name("load".into()).stack_size(256 << 10).spawn(work).map(drop)
}
