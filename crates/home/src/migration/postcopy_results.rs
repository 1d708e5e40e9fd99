//! Pages that follow a process: whether that is over, as rooms say it. They may say it early (the
//! process has ended at once, or what was missing was brought while the body was made), when the
//! move waits for something else; and of a try that was given up they say it late.

use crate::room::event::RoomEvent;
use room_protocol::message::onward::Said;
use std::cell::RefCell;

/// How each loan went of which it was said that it is over: no more is sent, or nothing is missing
/// any more.
#[derive(Debug, Default)]
pub struct PostcopyResults(RefCell<Vec<(u32, Result<(), String>)>>);

impl PostcopyResults {
    /// Something was heard.
    pub fn note(&self, heard: &RoomEvent) {
        if let RoomEvent::Drained { loan, result } | RoomEvent::Onward(Said::Complete { loan, result }) = heard {
            self.0.borrow_mut().push((*loan, result.clone()));
        }
    }

    /// How this one went, if it is over.
    pub fn over(&self, loan: u32) -> Option<Result<(), String>> {
        self.0.borrow().iter().find(|(number, _)| *number == loan).map(|(_, result)| result.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_heard_early_is_not_forgotten_and_another_loan_is_another() {
        let loans = PostcopyResults::default();
        loans.note(&RoomEvent::Left);
        loans.note(&RoomEvent::Drained { loan: 3, result: Err("cut".into()) });
        loans.note(&RoomEvent::Onward(Said::Complete { loan: 5, result: Ok(()) }));
        assert_eq!((loans.over(3), loans.over(4), loans.over(5)), (Some(Err("cut".into())), None, Some(Ok(()))));
    }
}
