//! The accounts of one direction of a stream. Pure: time is an argument.

use crate::{OutOfOrder, TELL_AFTER};
use std::time::Duration;

/// The sender's account: bytes that were sent, and bytes that the receiver's program has taken.
#[derive(Clone, Copy, Debug)]
pub struct Sending {
    sent: u64,
    taken: u64,
    window: u64,
}

impl Sending {
    /// Starts with nothing sent. At most `window` bytes are under way.
    pub fn new(window: u32) -> Sending {
        Sending { sent: 0, taken: 0, window: u64::from(window) }
    }

    /// Gives the most bytes under way.
    pub fn window(&self) -> u32 {
        u32::try_from(self.window).unwrap_or(u32::MAX)
    }

    /// Goes on after others have sent for a while: the receiver has `received` bytes that this
    /// account does not know, and its program took `taken` of these for certain.
    pub fn resume(&mut self, received: u64, taken: u64) {
        self.sent = self.sent.saturating_add(received);
        self.taken = self.taken.saturating_add(taken).min(self.sent);
    }

    /// Gives the number of bytes that may be sent now.
    pub fn credit(&self) -> usize {
        usize::try_from(self.window.saturating_sub(self.under_way())).unwrap_or(usize::MAX)
    }

    /// Gives the number of bytes that were sent and that the receiver's program has not taken.
    pub fn under_way(&self) -> u64 {
        self.sent - self.taken
    }

    /// Gives the offset of the next byte: the number of bytes sent so far.
    pub fn offset(&self) -> u64 {
        self.sent
    }

    /// Counts bytes that are sent, and gives the offset of the first.
    pub fn send(&mut self, bytes: usize) -> u64 {
        let offset = self.sent;
        self.sent += bytes as u64;
        offset
    }

    /// Notes that the receiver's program has taken all bytes before `upto`, and gives how many of
    /// these are news.
    ///
    /// # Errors
    /// The receiver cannot have taken what was not sent, nor take anything back.
    pub fn taken(&mut self, upto: u64) -> Result<u64, OutOfOrder> {
        if upto < self.taken || upto > self.sent {
            return Err(OutOfOrder::Taken { upto, taken: self.taken, sent: self.sent });
        }
        let news = upto - self.taken;
        self.taken = upto;
        Ok(news)
    }
}

/// The receiver's account: bytes that came, that its program has taken, and of which the sender was
/// told so.
#[derive(Clone, Copy, Debug)]
pub struct Receiving {
    received: u64,
    taken: u64,
    told: u64,
    window: u64,
    is_ended: bool,
    /// When the sender is to be told at the latest.
    due: Option<Duration>,
}

impl Receiving {
    /// Starts with nothing received. The sender has at most `window` bytes under way.
    pub fn new(window: u32) -> Receiving {
        Receiving { received: 0, taken: 0, told: 0, window: u64::from(window), is_ended: false, due: None }
    }

    /// Goes on after others have sent for a while, who kept the account `meanwhile`.
    pub fn resume(&mut self, meanwhile: &Receiving) {
        self.received += meanwhile.received;
        self.taken += meanwhile.taken;
        self.told += meanwhile.told;
        self.is_ended |= meanwhile.is_ended;
        self.due = meanwhile.due;
    }

    /// Gives the number of bytes of which the sender was told that they are taken.
    pub fn told(&self) -> u64 {
        self.told
    }

    /// Accepts bytes that came.
    ///
    /// # Errors
    /// The bytes do not follow those before, exceed the credit, or come behind the end.
    pub fn receive(&mut self, offset: u64, bytes: usize) -> Result<(), OutOfOrder> {
        let credit = self.window - (self.received - self.told);
        match () {
            () if self.is_ended => Err(OutOfOrder::Ended),
            () if offset != self.received => Err(OutOfOrder::Offset { offset, expected: self.received }),
            () if bytes as u64 > credit => Err(OutOfOrder::Credit { bytes: bytes as u64, credit }),
            () => {
                self.received += bytes as u64;
                Ok(())
            }
        }
    }

    /// Accepts bytes that the sender sends whatever the credit is: the last ones, which `limit`
    /// bounds. No bytes come behind them.
    ///
    /// # Errors
    /// As [`Receiving::receive`].
    pub fn receive_last(&mut self, offset: u64, bytes: usize, limit: u64) -> Result<(), OutOfOrder> {
        self.window = self.window.saturating_add(limit);
        self.receive(offset, bytes)
    }

    /// Accepts the end of the stream.
    ///
    /// # Errors
    /// The end is not behind the last byte, or came already.
    pub fn end(&mut self, offset: u64) -> Result<(), OutOfOrder> {
        self.receive(offset, 0)?;
        self.is_ended = true;
        Ok(())
    }

    /// Tells whether the sender said that no more bytes come.
    pub fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Notes that the program has taken all bytes before `upto`.
    pub fn take(&mut self, upto: u64, now: Duration) {
        self.taken = upto.clamp(self.taken, self.received);
        if self.taken > self.told && self.due.is_none() {
            self.due = Some(now + TELL_AFTER);
        }
    }

    /// Tells whether the sender was told of all bytes that came that they are taken.
    pub fn is_told(&self) -> bool {
        self.told == self.received
    }

    /// Gives the number of bytes that came so far.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Gives the number to tell the sender if it is worth a frame of its own: a quarter of the
    /// window, or news that are old.
    pub fn tell(&mut self, now: Duration) -> Option<u64> {
        let is_much = (self.taken - self.told) * 4 >= self.window;
        if is_much || self.due.is_some_and(|due| due <= now) { self.tell_along() } else { None }
    }

    /// Gives the number to tell the sender, if there is any news: beside a frame that is sent
    /// anyway.
    pub fn tell_along(&mut self) -> Option<u64> {
        self.due = None;
        let is_news = self.taken > self.told;
        self.told = self.taken;
        is_news.then_some(self.taken)
    }

    /// Gives the time at which [`Receiving::tell`] is to be asked again.
    pub fn due(&self) -> Option<Duration> {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        /// A window is never exceeded, and a stream never stalls, in whatever order its two ends
        /// act.
        #[test]
        fn ends_agree(window in 1_u32..2000, steps in proptest::collection::vec((0_u8..3, 1_usize..700), 1..300)) {
            let (mut sender, mut receiver) = (Sending::new(window), Receiving::new(window));
            let (mut there, mut back) = (VecDeque::new(), VecDeque::new());
            let mut now = Duration::ZERO;
            let mut take = 0_u64;
            let mut turn = |act: u8, bytes: usize, now: Duration| {
                match act {
                    0 => {
                        let bytes = bytes.min(sender.credit());
                        there.push_back((sender.send(bytes), bytes));
                    }
                    1 => if let Some((offset, bytes)) = there.pop_front() {
                        receiver.receive(offset, bytes).unwrap();
                    },
                    _ => {
                        take = (take + bytes as u64).min(receiver.received());
                        receiver.take(take, now);
                    }
                }
                back.extend(receiver.tell(now));
                if act != 1 && let Some(upto) = back.pop_front() {
                    sender.taken(upto).unwrap();
                }
                assert!(sender.under_way() <= u64::from(window));
                sender.credit()
            };
            for (act, bytes) in steps {
                now += Duration::from_micros(300);
                turn(act, bytes, now);
            }
            // All that is under way is taken in the end, and the sender hears of it.
            for _ in 0..1000 {
                now += TELL_AFTER;
                turn(1, 0, now);
                turn(2, 2000, now);
            }
            prop_assert_eq!(turn(2, 0, now), window as usize);
        }
    }

    #[test]
    fn a_peer_that_breaks_the_rules_is_refused() {
        let mut receiver = Receiving::new(10);
        receiver.receive(0, 4).unwrap();
        assert_eq!(receiver.receive(5, 1), Err(OutOfOrder::Offset { offset: 5, expected: 4 }));
        assert_eq!(receiver.receive(4, 7), Err(OutOfOrder::Credit { bytes: 7, credit: 6 }));
        receiver.end(4).unwrap();
        assert_eq!(receiver.receive(4, 1), Err(OutOfOrder::Ended));
        let mut sender = Sending::new(10);
        sender.send(5);
        assert_eq!(sender.taken(3), Ok(3));
        assert_eq!(sender.taken(2), Err(OutOfOrder::Taken { upto: 2, taken: 3, sent: 5 }));
        assert_eq!(sender.taken(6), Err(OutOfOrder::Taken { upto: 6, taken: 3, sent: 5 }));
    }

    #[test]
    fn the_last_bytes_may_exceed_the_credit() {
        let mut receiver = Receiving::new(4);
        receiver.receive(0, 4).unwrap();
        assert!(receiver.receive(4, 1).is_err());
        receiver.receive_last(4, 6, 8).unwrap();
    }
}
