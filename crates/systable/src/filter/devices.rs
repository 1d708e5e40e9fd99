//! A filter beside the guests' own, for processes that have run elsewhere and their children: calls
//! for attributes stop for the tracer, which puts home's device numbers in the place of this
//! machine's at their ends. Programs compare these numbers with what they have seen before (tar(1),
//! rm(1), find(1), git(1)).

use super::emit::{AT_NR, IF_EQ, LOAD, RETURN};
use super::{Action, Insn};

/// stat, fstat, lstat, newfstatat, statx
const CALLS: [u32; 5] = [4, 5, 6, 262, 332];

/// Gives the instructions of the filter.
pub fn devices() -> [Insn; CALLS.len() + 3] {
    let insn = |code, jt, jf, k| Insn { code, jt, jf, k };
    let mut all = [insn(RETURN, 0, 0, Action::Trace.code()); CALLS.len() + 3];
    all[0] = insn(LOAD, 0, 0, AT_NR);
    for (at, nr) in CALLS.into_iter().enumerate() {
        // Over what follows, and over the return that lets all others through.
        let to_trace = (CALLS.len() - at) as u8;
        all[1 + at] = insn(IF_EQ, to_trace, 0, nr);
    }
    all[1 + CALLS.len()] = insn(RETURN, 0, 0, Action::Allow.code());
    all
}

/// Tells whether the call is one of these.
pub fn tells_devices(nr: u32) -> bool {
    CALLS.contains(&nr)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the filter says of a call, as the kernel runs it.
    fn run(nr: u32) -> u32 {
        let program = devices();
        let mut at = 1;
        loop {
            let Insn { code, jt, jf, k } = program[at];
            match code {
                RETURN => return k,
                _ => at += 1 + usize::from(if nr == k { jt } else { jf }),
            }
        }
    }

    #[test]
    fn calls_for_attributes_stop() {
        for nr in 0..=crate::LAST.into() {
            let stops = run(nr) == Action::Trace.code();
            let name = crate::name(nr).unwrap_or_default();
            assert_eq!(stops, ["stat", "fstat", "lstat", "newfstatat", "statx"].contains(&name), "{nr} {name}");
            assert_eq!(stops, tells_devices(nr));
        }
    }
}
