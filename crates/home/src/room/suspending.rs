//! Suspends a room and wakes it: its bodies stand still meanwhile, and the link may be silent.

use crate::room::state::Room;
use crate::room::suspension::Stage;
use room_protocol::ToRoom;
use std::sync::Arc;
use std::time::Duration;

/// The room is given up so long after its own limit, so that it can say why it ends.
const LINK_MARGIN: Duration = Duration::from_secs(60);
/// How long a room may take until its bodies stand still.
const CONFIRMED_WITHIN: Duration = Duration::from_millis(1500);
/// How long a room may take to be heard after a suspension. A network that comes back takes longer
/// than one that is there.
const WOKEN_WITHIN: Duration = Duration::from_secs(600);

impl Room {
    /// Has the bodies stand still, and waits for the room without end for `for_ms`.
    ///
    /// # Errors
    /// There is no room, or it has not answered yet: its bodies may run on, and it is waited for
    /// all the same.
    pub fn suspend(&self, for_ms: u32) -> Result<(), String> {
        let downlink = self.link.downlink().filter(|_| !self.is_lost()).ok_or("there is no room")?;
        let within = Duration::from_millis(for_ms.into());
        downlink.lose_after(within + LINK_MARGIN).map_err(|e| e.to_string())?;
        self.suspension.enter(Stage::Told);
        tracing::info!("the room is suspended for at most {} s", for_ms / 1000);
        self.tell(&ToRoom::Suspend { for_ms });
        match self.suspension.leaves(Stage::Told, CONFIRMED_WITHIN) {
            Stage::Told => Err(format!("its room has not answered within {} ms", CONFIRMED_WITHIN.as_millis())),
            _ => Ok(()),
        }
    }

    /// Checks that the room's bodies run: nobody can come or leave while they stand still.
    ///
    /// # Errors
    /// The room is suspended.
    pub fn check_awake(&self) -> Result<(), String> {
        match self.suspension.is_under_way() {
            true => Err(format!("the room on {} is suspended (`tern resume` ends that)", self.args.host)),
            false => Ok(()),
        }
    }

    /// Notes that the bodies stand still.
    pub fn is_suspended(&self) {
        if self.suspension.stage() == Stage::Told {
            self.suspension.enter(Stage::Suspended);
        }
    }

    /// Has the bodies go on.
    pub fn wake(&self) {
        if self.suspension.is_under_way() {
            self.suspension.enter(Stage::Waking);
        }
        self.tell(&ToRoom::Wake);
    }

    /// Notes that the bodies go on: from now on, the room may be silent as long as ever.
    pub fn is_awake(&self) {
        if self.suspension.stage() != Stage::Waking {
            return;
        }
        self.suspension.enter(Stage::Awake);
        tracing::info!("the room is not suspended any more");
        let Some(link) = self.link.shared_downlink() else { return };
        let silence = Duration::from_millis(self.args.lost_after_ms.into());
        let restoring = std::thread::Builder::new().name("patience".into()).spawn(move || restore(&link, silence));
        if let Err(e) = restoring {
            tracing::warn!("the room is waited for too long: {e}");
        }
    }
}

fn restore(link: &Arc<link::Sender>, silence: Duration) {
    if let Err(e) = link.lose_after_contact(silence, WOKEN_WITHIN) {
        tracing::warn!("the room is waited for too long: {e}");
    }
}
