//! Pages of a process that comes home, as they came: they are written from where they lie.

use checkpoint::Run;
use link::Body;

/// A frame of them.
#[derive(Debug)]
pub struct Pages {
    /// Where they belong.
    pub runs: Vec<Run>,
    body: Body,
    at: usize,
}

impl Pages {
    /// Of this body of a frame, and whose they are; if it is one.
    pub fn of(body: Body) -> Option<(i32, Pages)> {
        let pages = room_protocol::page_frames::pages(&body)?;
        let (pid, at, runs) = (pages.pid, body.len() - pages.bytes.len(), pages.runs);
        Some((pid, Pages { runs, body, at }))
    }

    /// The same of pages that come in advance, and for which order.
    pub fn advance(body: Body) -> Option<(i32, u32, Pages)> {
        let (number, pages) = room_protocol::page_frames::advance(&body)?;
        let (pid, at, runs) = (pages.pid, body.len() - pages.bytes.len(), pages.runs);
        Some((pid, number, Pages { runs, body, at }))
    }

    /// What is in them.
    pub fn bytes(&self) -> &[u8] {
        &self.body[self.at..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_they_came() {
        let body = [&room_protocol::page_frames::pages_head(7, &[(0x3000, 4096)])[..], &[5; 4096]].concat().into();
        let (pid, pages) = Pages::of(body).unwrap();
        assert_eq!((pid, &pages.runs[..], pages.bytes()), (7, &[(0x3000, 4096)][..], &[5; 4096][..]));
        assert!(Pages::of(vec![7; 9].into()).is_none());
    }
}
