//! Signals that are told to a process before the room was told of it: while its room is still being
//! made.

use os::signals::{Signal, Waiting};

/// Those of one process, as long as the room does not know it.
#[derive(Debug, Default)]
pub struct EarlySignals(Option<Waiting>);

impl EarlySignals {
    /// The room does not know this process yet.
    pub fn begin(pid: i32) -> EarlySignals {
        EarlySignals(Some(Waiting::of(pid)))
    }

    /// Keeps a signal, unless it is one too many, as the kernel would; false if the room is to be
    /// told of it.
    pub fn keep(&mut self, signal: Signal) -> bool {
        let Some(kept) = self.0.as_mut() else { return false };
        kept.add(signal);
        true
    }

    /// The room knows the process: what it is to be told of first. When that is nothing, no more is
    /// kept.
    pub fn take(&mut self) -> Vec<Signal> {
        let kept = self.0.as_mut().map(Waiting::take).unwrap_or_default();
        if kept.is_empty() {
            self.0 = None;
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signal(number: u8) -> Signal {
        let mut info = [0; 128];
        info[0] = number;
        (None, info)
    }

    fn begin() -> EarlySignals {
        EarlySignals::begin(std::process::id() as i32)
    }

    #[test]
    fn the_room_is_told_in_order() {
        let mut early = begin();
        assert!(early.keep(signal(1)) && early.keep(signal(2)));
        assert_eq!(early.take(), [signal(1), signal(2)]);
        assert!(early.keep(signal(3)), "the room is being told of the others");
        assert_eq!(early.take(), [signal(3)]);
        assert!(early.take().is_empty());
        assert!(!early.keep(signal(4)) && !EarlySignals::default().keep(signal(4)));
    }

    /// A flood of one signal was kept 4096 times over.
    #[test]
    fn a_flood_of_a_standard_signal_is_one() {
        let mut early = begin();
        assert!((0..100_000).all(|_| early.keep(signal(10))));
        assert_eq!(early.take(), [signal(10)]);
    }
}
