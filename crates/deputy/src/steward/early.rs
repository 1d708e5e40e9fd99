//! Signals that are told to a process before the room was told of it: while its room is still being made.

/// A signal, and for which thread if it is for one.
pub type Signal = (Option<i32>, [u8; 128]);

/// The most that are kept of one process.
const SIGNALS_MAX: usize = 4096;

/// Those of one process, as long as the room does not know it.
#[derive(Debug, Default)]
pub struct Early(Option<Vec<Signal>>);

impl Early {
    /// The room does not know it yet.
    pub fn begin() -> Early {
        Early(Some(Vec::new()))
    }

    /// Keeps a signal; false if the room is to be told of it.
    pub fn keep(&mut self, signal: Signal) -> bool {
        let kept = self.0.as_mut();
        kept.map(|kept| {
            if kept.len() < SIGNALS_MAX {
                kept.push(signal)
            }
        })
        .is_some()
    }

    /// The room knows the process: what it is to be told of first. When that is nothing, no more is kept.
    pub fn take(&mut self) -> Vec<Signal> {
        let kept = self.0.take().unwrap_or_default();
        if !kept.is_empty() {
            self.0 = Some(Vec::new());
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_room_is_told_in_order() {
        let signal = |number| (None, [number; 128]);
        let mut early = Early::begin();
        assert!(early.keep(signal(1)) && early.keep(signal(2)));
        assert_eq!(early.take(), [signal(1), signal(2)]);
        assert!(early.keep(signal(3)), "the room is being told of the others");
        assert_eq!(early.take(), [signal(3)]);
        assert!(early.take().is_empty());
        assert!(!early.keep(signal(4)) && !Early::default().keep(signal(4)));
    }
}
