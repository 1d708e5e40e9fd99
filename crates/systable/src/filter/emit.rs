//! Writes the program, from its end to its beginning: jumps go forwards only, so where they lead is
//! known, and equal returns near by are shared.

use super::{ARCH, Action, Insn, X32_BIT, by_arguments, by_class};
use crate::when::{Cmp, When};
use crate::{LAST, Row, errno, row};

/// Room for the program; the kernel's own limit is 4096 (`BPF_MAXINSNS`).
pub const MAX_INSNS: usize = 1024;

pub(super) const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
pub(super) const AND: u16 = 0x54; // BPF_ALU | BPF_AND | BPF_K
pub(super) const JUMP: u16 = 0x05; // BPF_JMP | BPF_JA
pub(super) const IF_EQ: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
/// BPF_JMP | BPF_JSET | BPF_K
pub(super) const IF_SET: u16 = 0x45;
pub(super) const IF_GE: u16 = 0x35; // BPF_JMP | BPF_JGE | BPF_K
pub(super) const RETURN: u16 = 0x06; // BPF_RET | BPF_K

/// How far before an equal return another one is put.
const SHARED_WITHIN: usize = 200;

/// Offsets in `struct seccomp_data`.
pub(super) const AT_NR: u32 = 0;
pub(super) const AT_ARCH: u32 = 4;
pub(super) const AT_ARGS: u32 = 16;

/// A finished filter.
#[derive(Clone, Debug)]
pub struct Program {
    insns: [Insn; MAX_INSNS],
    /// Where it begins.
    first: usize,
}

/// A place in the program.
#[derive(Clone, Copy, PartialEq)]
struct At(usize);

impl Program {
    /// Gives the instructions, to be installed as a `struct sock_fprog`.
    pub fn insns(&self) -> &[Insn] {
        &self.insns[self.first..]
    }

    fn put(&mut self, code: u16, k: u32) -> At {
        self.first -= 1;
        self.insns[self.first] = Insn { code, jt: 0, jf: 0, k };
        At(self.first)
    }

    /// Skipping so many leads there from the instruction that is put next.
    fn skip(&self, to: At) -> usize {
        to.0 - self.first
    }

    /// Gives a place that leads there and can be reached over `most` instructions.
    fn near(&mut self, to: At, most: usize) -> At {
        let skip = self.skip(to);
        if skip <= most { to } else { self.put(JUMP, skip as u32) }
    }

    fn branch(&mut self, code: u16, k: u32, yes: At, no: At) -> At {
        // The jump that the other one may need lies between.
        let yes = self.near(yes, usize::from(u8::MAX) - 1);
        let no = self.near(no, usize::from(u8::MAX));
        let (jt, jf) = (self.skip(yes) as u8, self.skip(no) as u8);
        let at = self.put(code, k);
        self.insns[at.0] = Insn { code, jt, jf, k };
        at
    }

    fn ret(&mut self, action: Action) -> At {
        let wanted = Insn { code: RETURN, jt: 0, jf: 0, k: action.code() };
        let near = self.insns().iter().take(SHARED_WITHIN).position(|insn| *insn == wanted);
        match near {
            Some(skip) => At(self.first + skip),
            None => self.put(RETURN, action.code()),
        }
    }
}

/// Gives the filter of the whole table.
pub fn program() -> Program {
    of(|row| *row)
}

/// Gives the filter of processes in node-local mode ([`Row::node_local`]).
pub fn node_local() -> Program {
    of(Row::node_local)
}

/// The table as a filter sees it.
type View = fn(&Row) -> Row;

fn of(view: View) -> Program {
    let mut p = Program { insns: [Insn { code: RETURN, jt: 0, jf: 0, k: 0 }; MAX_INSNS], first: MAX_INSNS };
    let tree = tree(&mut p, view, Numbers { first: 0, last: u32::from(LAST) + 1 });
    let foreign = p.ret(Action::Notify);
    if p.skip(tree) != 0 {
        p.near(tree, 0);
    }
    let native = p.put(LOAD, AT_NR);
    p.branch(IF_EQ, ARCH, native, foreign);
    p.put(LOAD, AT_ARCH);
    p
}

/// What a number leads to, with equal things merged: runs of equal leaves are one leaf.
#[derive(Clone, Copy, PartialEq)]
enum Leaf {
    Return(Action),
    /// Beyond the table.
    Above,
    /// By its arguments: the first that holds.
    Arguments([(When, Action); 2]),
}

fn leaf(nr: u32, view: View) -> Leaf {
    match row(nr).map(view) {
        None => Leaf::Above,
        Some(row) if row.when == When::Always && row.duplicates == When::NEVER => Leaf::Return(by_class(row.class)),
        Some(row) => Leaf::Arguments(by_arguments(&row)),
    }
}

/// The numbers from `first` to `last`; what is not below `last` counts as `last`.
#[derive(Clone, Copy)]
struct Numbers {
    first: u32,
    last: u32,
}

/// Numbers at which something else begins.
fn borders(of: Numbers, view: View) -> impl Iterator<Item = u32> {
    (of.first + 1..=of.last).filter(move |&nr| leaf(nr, view) != leaf(nr - 1, view))
}

/// Decides among these numbers.
fn tree(p: &mut Program, view: View, of: Numbers) -> At {
    let count = borders(of, view).count();
    match borders(of, view).nth(count / 2) {
        None => end(p, leaf(of.first, view)),
        Some(middle) => {
            let below = tree(p, view, Numbers { last: middle - 1, ..of });
            let above = tree(p, view, Numbers { first: middle, ..of });
            p.branch(IF_GE, middle, above, below)
        }
    }
}

fn end(p: &mut Program, leaf: Leaf) -> At {
    match leaf {
        Leaf::Return(action) => p.ret(action),
        Leaf::Above => {
            let (newer, x32) = (p.ret(Action::Notify), p.ret(Action::Fail(errno::ENOSYS)));
            p.branch(IF_GE, X32_BIT, x32, newer)
        }
        Leaf::Arguments(choices) => {
            let local = p.ret(Action::Allow);
            choices.into_iter().rev().fold(local, |otherwise, (when, action)| match when {
                When::Always => p.ret(action),
                When::If(lists) => any(p, lists, |p| p.ret(action), otherwise),
                When::Unless(lists) => {
                    let unless = p.ret(action);
                    any(p, lists, |_| otherwise, unless)
                }
            })
        }
    }
}

/// Leads to `then` if for any list every comparison holds, else to `otherwise`.
fn any(p: &mut Program, lists: &[&[Cmp]], then: impl Fn(&mut Program) -> At, otherwise: At) -> At {
    let mut next = otherwise;
    for list in lists.iter().rev() {
        let then = then(p);
        next = list.iter().rev().fold(then, |holds, cmp| compare(p, *cmp, holds, next));
    }
    next
}

fn compare(p: &mut Program, cmp: Cmp, yes: At, no: At) -> At {
    let low = AT_ARGS + 8 * u32::from(cmp.argument());
    match cmp {
        Cmp::Is(_, value) => p.branch(IF_EQ, value, yes, no),
        Cmp::Bits(_, mask, value) => {
            p.branch(IF_EQ, value, yes, no);
            p.put(AND, mask)
        }
        Cmp::Below(_, limit) => p.branch(IF_GE, limit, no, yes),
        Cmp::From(_, first) => p.branch(IF_GE, first, yes, no),
        Cmp::Null(_) => {
            p.branch(IF_EQ, 0, yes, no);
            let high = p.put(LOAD, low + 4);
            p.branch(IF_EQ, 0, high, no)
        }
        Cmp::Marked(_, mark) => {
            p.branch(IF_EQ, mark, yes, no);
            return p.put(LOAD, low + 4);
        }
    };
    p.put(LOAD, low)
}
