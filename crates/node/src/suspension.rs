//! Whether this node is suspended (`tern suspend`).

use std::sync::Mutex;
use std::time::{Duration, Instant};

use control_protocol::tool::Suspension;

use crate::locks::lock;
use crate::members::Spell;

/// Whether this node is suspended, or about to be.
#[derive(Default)]
pub(crate) struct Suspending(Mutex<State>);

#[derive(Default)]
struct State {
    /// How often this has changed.
    changes: u64,
    under_way: Option<Spell>,
}

impl Suspending {
    /// Tells whether this node is suspended, or about to be.
    pub(crate) fn is_under_way(&self) -> bool {
        lock(&self.0).under_way.is_some()
    }

    /// Gives how long it has been suspended.
    pub(crate) fn shown(&self) -> Option<Suspension> {
        lock(&self.0).under_way.map(shown)
    }

    /// Begins or ends a suspension. Gives the number of the change.
    pub(crate) fn set(&self, spell: Option<Spell>) -> u64 {
        let mut state = lock(&self.0);
        state.changes += 1;
        state.under_way = spell;
        state.changes
    }

    /// Gives the spell that began with this change, if it lasts.
    pub(crate) fn lasts(&self, change: u64) -> Option<Spell> {
        let state = lock(&self.0);
        state.under_way.filter(|_| state.changes == change)
    }

    /// Gives the number of the last change.
    pub(crate) fn change(&self) -> u64 {
        lock(&self.0).changes
    }
}

/// Shows a suspension as it stands now.
pub(crate) fn shown(spell: Spell) -> Suspension {
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    Suspension {
        since_ms: ms(spell.since.elapsed()),
        left_ms: ms(spell.until.saturating_duration_since(Instant::now())),
    }
}
