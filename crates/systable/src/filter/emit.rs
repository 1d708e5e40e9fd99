//! Writes the program.

use super::{ARCH, Action, Insn, X32_BIT, by_class};
use crate::when::{Cmp, When};
use crate::{LAST, errno, row};

/// Room for the program; the kernel's own limit is 4096 (`BPF_MAXINSNS`).
pub const MAX_INSNS: usize = 1024;

const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
const AND: u16 = 0x54; // BPF_ALU | BPF_AND | BPF_K
const JUMP: u16 = 0x05; // BPF_JMP | BPF_JA
const IF_EQ: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
const IF_GE: u16 = 0x35; // BPF_JMP | BPF_JGE | BPF_K
const RETURN: u16 = 0x06; // BPF_RET | BPF_K

/// Offsets in `struct seccomp_data`.
const AT_NR: u32 = 0;
const AT_ARCH: u32 = 4;
const AT_ARGS: u32 = 16;

/// A finished filter.
#[derive(Clone, Debug)]
pub struct Program {
    insns: [Insn; MAX_INSNS],
    len: usize,
}

impl Program {
    /// The instructions, to be installed as a `struct sock_fprog`.
    pub fn insns(&self) -> &[Insn] {
        &self.insns[..self.len]
    }

    fn put(&mut self, code: u16, k: u32) -> usize {
        let at = self.len;
        self.insns[at] = Insn { code, jt: 0, jf: 0, k };
        self.len += 1;
        at
    }

    fn ret(&mut self, action: Action) {
        self.put(RETURN, action.code());
    }

    /// Lets a jump of any length that was put at `at` land at the next instruction.
    fn land(&mut self, at: usize) {
        self.insns[at].k = (self.len - at - 1) as u32;
    }

    /// Goes on at the next instruction if the comparison holds; returns the jump that is taken if it does not.
    fn unless(&mut self, code: u16, k: u32) -> usize {
        let at = self.put(code, k);
        self.insns[at].jt = 1;
        self.put(JUMP, 0)
    }
}

/// The filter of the whole table.
pub fn program() -> Program {
    let mut p = Program { insns: [Insn { code: RETURN, jt: 0, jf: 0, k: 0 }; MAX_INSNS], len: 0 };
    p.put(LOAD, AT_ARCH);
    let foreign = p.unless(IF_EQ, ARCH);
    p.put(LOAD, AT_NR);
    tree(&mut p, 0, u32::from(LAST) + 1);
    p.land(foreign);
    p.ret(Action::Notify);
    p
}

/// What a number leads to, with equal things merged: runs of equal leaves are one leaf.
#[derive(Clone, Copy, PartialEq)]
enum Leaf {
    Return(Action),
    /// Beyond the table.
    Above,
    /// By its arguments.
    Arguments(When, Action),
}

fn leaf(nr: u32) -> Leaf {
    match row(nr) {
        None => Leaf::Above,
        Some(row) if row.when == When::Always => Leaf::Return(by_class(row.class)),
        Some(row) => Leaf::Arguments(row.when, by_class(row.class)),
    }
}

/// Numbers in `first..=last` at which something else begins.
fn borders(first: u32, last: u32) -> impl Iterator<Item = u32> {
    (first + 1..=last).filter(|&nr| leaf(nr) != leaf(nr - 1))
}

/// Decides among the numbers of `first..=last`; what is not below `last` counts as `last`.
fn tree(p: &mut Program, first: u32, last: u32) {
    let count = borders(first, last).count();
    match borders(first, last).nth(count / 2) {
        None => end(p, leaf(first)),
        Some(middle) => {
            let below = p.unless(IF_GE, middle);
            tree(p, middle, last);
            p.land(below);
            tree(p, first, middle - 1);
        }
    }
}

fn end(p: &mut Program, leaf: Leaf) {
    match leaf {
        Leaf::Return(action) => p.ret(action),
        Leaf::Above => {
            let newer = p.unless(IF_GE, X32_BIT);
            p.ret(Action::Fail(errno::ENOSYS));
            p.land(newer);
            p.ret(Action::Notify);
        }
        Leaf::Arguments(When::Always, action) => p.ret(action),
        Leaf::Arguments(When::If(lists), action) => any(p, lists, action, Action::Allow),
        Leaf::Arguments(When::Unless(lists), action) => any(p, lists, Action::Allow, action),
    }
}

/// `then` if for any list every comparison holds, else `otherwise`.
fn any(p: &mut Program, lists: &[&[Cmp]], then: Action, otherwise: Action) {
    for list in lists {
        let mut failed = [0; 8];
        let mut count = 0;
        for cmp in *list {
            count += compare(p, *cmp, &mut failed[count..]);
        }
        p.ret(then);
        failed[..count].iter().for_each(|&jump| p.land(jump));
    }
    p.ret(otherwise);
}

/// Goes on if the comparison holds; writes down the jumps that are taken if not, and returns how many.
fn compare(p: &mut Program, cmp: Cmp, failed: &mut [usize]) -> usize {
    let low = AT_ARGS + 8 * u32::from(cmp.argument());
    p.put(LOAD, low);
    match cmp {
        Cmp::Is(_, value) => failed[0] = p.unless(IF_EQ, value),
        Cmp::Bits(_, mask, value) => {
            p.put(AND, mask);
            failed[0] = p.unless(IF_EQ, value);
        }
        Cmp::Below(_, limit) => {
            let at = p.put(IF_GE, limit);
            p.insns[at].jf = 1;
            failed[0] = p.put(JUMP, 0);
        }
        Cmp::Null(_) => {
            failed[0] = p.unless(IF_EQ, 0);
            p.put(LOAD, low + 4);
            failed[1] = p.unless(IF_EQ, 0);
            return 2;
        }
    }
    1
}
