//! Processors that do not go to sleep, for moments in which threads wait for each other: a processor that sleeps takes longer to wake up than what is waited for takes.

use std::fs::File;
use std::io::Write;

/// Where a process says how long its wake-ups may take, for as long as it has it open (Documentation/power/pm_qos_interface.rst).
pub const PATH: &str = "/dev/cpu_dma_latency";

/// While it lives, idle processors of this machine wait awake. For milliseconds: it costs power.
#[derive(Debug)]
pub struct Awake {
    _asked: File,
}

impl Awake {
    /// From now on; `None` where that may not be asked for: everybody can do without.
    pub fn now() -> Option<Awake> {
        let mut file = File::options().write(true).open(PATH).ok()?;
        // Microseconds, as the kernel's own integer.
        file.write_all(&0i32.to_ne_bytes()).ok()?;
        Some(Awake { _asked: file })
    }
}
