//! The rows and how they are written down.

mod n000;
mod n100;
mod n200;
mod n300;
mod node_local;
mod why;

use crate::arg::Arg;
use crate::class::{Class, Special};
use crate::errno::Errno;
use crate::when::{Cmp, When};

/// What happens with one call (or a range of numbers that are no calls).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Number, or the first of a range.
    pub nr: u16,
    /// The last of the range; the same as `nr` for a call.
    pub last: u16,
    /// Name as in the manual; empty for a range.
    pub name: &'static str,
    /// Where the call runs.
    pub class: Class,
    /// When that holds; otherwise the call is local.
    pub when: When,
    /// When it makes a duplicate of a descriptor that may be a stand-in: it stops in the tracer,
    /// which has the duplicate look as at home, too.
    pub duplicates: When,
    /// The arguments, in order.
    pub args: &'static [Arg],
    /// Why it is so.
    pub why: &'static str,
}

/// A duplicate of its first argument that a guest makes of its own accord: in what it is made to
/// make that has an upper half.
const ITS_OWN: Cmp = Cmp::Marked(0, 0);

/// Ids below this one are in every room's user namespace (`os::id_ranges`).
pub const LOW_IDS: u32 = 1 << 22;
/// chown(2) leaves what this names as it is.
const NO_ID: u32 = u32::MAX;

/// A user or group (the arguments `uid` and the next one) that may be in home's user namespace
/// alone.
macro_rules! high_ids {
    ($uid:literal) => {
        When::Unless(&[
            &[Cmp::Below($uid, LOW_IDS), Cmp::Below($uid + 1, LOW_IDS)],
            &[Cmp::Below($uid, LOW_IDS), Cmp::Is($uid + 1, NO_ID)],
            &[Cmp::Is($uid, NO_ID), Cmp::Below($uid + 1, LOW_IDS)],
            &[Cmp::Is($uid, NO_ID), Cmp::Is($uid + 1, NO_ID)],
        ])
    };
}

/// chown(2) and its like, but fchownat(2).
const HIGH_IDS: When = high_ids!(1);
/// The ids of fchownat(2) that no room has.
const HIGH_IDS_AT: When = high_ids!(2);

const fn row(nr: u16, name: &'static str, class: Class, args: &'static [Arg], why: &'static str) -> Row {
    assert!(args.len() <= 6);
    Row { nr, last: nr, name, class, when: When::Always, duplicates: When::NEVER, args, why }
}

const fn local(nr: u16, name: &'static str, args: &'static [Arg], why: &'static str) -> Row {
    row(nr, name, Class::Local, args, why)
}

const fn home(nr: u16, name: &'static str, args: &'static [Arg], why: &'static str) -> Row {
    let mut at = 0;
    while at < args.len() {
        assert!(args[at].is_declarative(), "an argument that cannot be forwarded by its description");
        at += 1;
    }
    row(nr, name, Class::Home, args, why)
}

const fn special(nr: u16, name: &'static str, of: Special, args: &'static [Arg], why: &'static str) -> Row {
    row(nr, name, Class::Special(of), args, why)
}

const fn go_home(nr: u16, name: &'static str, errno: Errno, args: &'static [Arg], why: &'static str) -> Row {
    row(nr, name, Class::GoHome(errno), args, why)
}

const fn refused(nr: u16, name: &'static str, errno: Errno, args: &'static [Arg], why: &'static str) -> Row {
    row(nr, name, Class::Refused(errno), args, why)
}

const fn unused(nr: u16, name: &'static str) -> Row {
    row(nr, name, Class::Unused, &[], why::GONE)
}

const fn unused_range(nr: u16, last: u16) -> Row {
    Row { last, ..row(nr, "", Class::Unused, &[], why::NEVER) }
}

impl Row {
    const fn when(self, when: When) -> Row {
        Row { when, ..self }
    }

    const fn duplicates(self, duplicates: When) -> Row {
        Row { duplicates, ..self }
    }
}

const PARTS: [&[Row]; 4] = [n000::ROWS, n100::ROWS, n200::ROWS, n300::ROWS];
const COUNT: usize = PARTS[0].len() + PARTS[1].len() + PARTS[2].len() + PARTS[3].len();

/// All rows, in the order of their numbers.
pub static TABLE: &[Row] = &ALL;

/// The last number that has a row. What is above is newer than the table.
pub const LAST: u16 = ALL[COUNT - 1].last;

static ALL: [Row; COUNT] = {
    let mut all = [unused(0, ""); COUNT];
    let (mut part, mut to) = (0, 0);
    while part < PARTS.len() {
        let mut at = 0;
        while at < PARTS[part].len() {
            all[to] = PARTS[part][at];
            to += 1;
            at += 1;
        }
        part += 1;
    }
    all
};

/// Every number has exactly one row, in order, without a hole.
const _: () = {
    let mut next = 0;
    let mut at = 0;
    while at < COUNT {
        assert!(ALL[at].nr == next, "a system-call number has no row, or two");
        assert!(ALL[at].last >= ALL[at].nr && (ALL[at].last == ALL[at].nr || ALL[at].name.is_empty()));
        next = ALL[at].last + 1;
        at += 1;
    }
    assert!(next == 471, "the table ends elsewhere than Linux 6.19's");
};
