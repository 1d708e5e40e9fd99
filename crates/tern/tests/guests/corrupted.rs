//! That the matrix sees a wrong bit: the guest `corruption` is spoilt from outside at its point,
//! once in each register and in some pages of every kind, as a move could spoil it. Each time its
//! outcome must differ.

use std::path::Path;
use std::process::Command;

use gossip::Draw;
use os::areas::Area;
use os::inject::Memory;
use os::ptrace::{Event, HostTid, Stopped, interrupt, seize_gently, wait_for};

use crate::moved::run_with_points;
use crate::placed::difference;
use crate::program::{self, Program};
use crate::run::{Outcome, Scratch};

/// The threads of the guest, in the order of their numbers.
const COMPUTING: usize = 1;
const WAITING: usize = 2;

/// What is spoilt.
#[derive(Clone, Copy, Debug)]
enum Spot {
    Nothing,
    /// A word of `struct user_regs_struct` (sys/user.h): this bit of it.
    Register {
        thread: usize,
        word: usize,
        bit: u32,
    },
    /// A byte of the extended state (the standard form of XSAVE).
    Extended {
        thread: usize,
        at: usize,
    },
    /// A word that carries its own address, in the memory area of this number among those that hold
    /// such: this bit of it.
    Word {
        area: usize,
        bit: u32,
    },
    /// A byte that nobody wrote.
    Empty,
}

/// Numbers of words: r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi, and others.
const GENERAL: std::ops::Range<usize> = 0..15;
const LEFT_BY_CALLS: [usize; 6] = [0, 1, 2, 3, 4, 5];
const FLAGS: usize = 18;
const STACK_POINTER: usize = 19;
const BASES: [usize; 2] = [21, 22];
const DIRECTION_FLAG_BIT: u32 = 10;
/// Control word of x87, of SSE (its rounding), first and last register of x87 and SSE.
const LEGACY: [usize; 6] = [1, 25, 32, 153, 160, 415];

fn spots() -> Vec<Spot> {
    let mut spots = vec![Spot::Empty];
    spots.extend(GENERAL.map(|word| Spot::Register { thread: COMPUTING, word, bit: 7 }));
    spots.extend(LEFT_BY_CALLS.map(|word| Spot::Register { thread: WAITING, word, bit: 63 }));
    for thread in [COMPUTING, WAITING] {
        spots.push(Spot::Register { thread, word: FLAGS, bit: DIRECTION_FLAG_BIT });
        spots.push(Spot::Register { thread, word: STACK_POINTER, bit: 3 });
        spots.extend(BASES.map(|word| Spot::Register { thread, word, bit: 12 }));
        let components = components().into_iter().flat_map(|(at, bytes)| [at, at + bytes - 1]);
        spots.extend(LEGACY.into_iter().chain(components).map(|at| Spot::Extended { thread, at }));
    }
    for area in 0..4 {
        // Of the round in which it was written, and of its address.
        spots.extend([1, 20].map(|bit| Spot::Word { area, bit }));
    }
    spots
}

/// Where the upper halves of vectors and the masks lie in the extended state, as far as this
/// processor and kernel have them, and how long they are.
fn components() -> Vec<(usize, usize)> {
    use std::arch::x86_64::{__cpuid_count, _xgetbv};
    #[target_feature(enable = "xsave")]
    fn enabled() -> u64 {
        // SAFETY: reading XCR0 has no effect; XSAVE is there, or the caller does not come here.
        unsafe { _xgetbv(0) }
    }
    if !std::arch::is_x86_feature_detected!("xsave") {
        return Vec::new();
    }
    // SAFETY: the processor has it.
    let enabled = unsafe { enabled() };
    let have = [2, 5, 6, 7].into_iter().filter(|n| enabled >> n & 1 == 1);
    have.map(|n| __cpuid_count(13, n)).map(|found| (found.ebx as usize, found.eax as usize)).collect()
}

fn stopped(tid: HostTid) -> Stopped {
    seize_gently(tid).unwrap();
    interrupt(tid).unwrap();
    match wait_for(tid).unwrap() {
        Event::Halt(stopped, _) => stopped,
        other => panic!("{other:?}"),
    }
}

fn spoil(pid: i32, spot: Spot, draw: &mut Draw) {
    let threads = os::process::threads(pid).unwrap();
    match spot {
        Spot::Nothing => {}
        Spot::Register { thread, word, bit } => {
            let mut stopped = stopped(HostTid(threads[thread]));
            let mut registers = stopped.registers().unwrap();
            // SAFETY: a record of 27 words, without padding.
            let words: &mut [u64; 27] = unsafe { &mut *(&raw mut registers).cast() };
            words[word] ^= 1 << bit;
            stopped.set_registers(&registers).unwrap();
            stopped.detach(0).unwrap();
        }
        Spot::Extended { thread, at } => {
            let mut stopped = stopped(HostTid(threads[thread]));
            let mut state = stopped.extended_state().unwrap();
            // Of the control words a bit of the rounding.
            state[at] ^= if at < 32 { 4 << (u32::from(at == 25) * 3) } else { 1 };
            stopped.set_extended_state(&state).unwrap();
            stopped.detach(0).unwrap();
        }
        Spot::Word { area, bit } => {
            let memory = Memory::of(pid).unwrap();
            let all = os::areas::read(pid).unwrap();
            let mut telling = all.iter().map(|area| own_words(&memory, area)).filter(|words| words.len() > 1000);
            let words = telling.nth(area).unwrap();
            let at = words[draw.below(words.len())];
            memory.write(at, &(memory.word(at).unwrap() ^ 1 << bit).to_le_bytes()).unwrap();
        }
        Spot::Empty => {
            let all = os::areas::read(pid).unwrap();
            let empty = all
                .iter()
                .find(|a| !a.writable && a.readable && !a.executable && a.name.is_empty() && !a.shared)
                .unwrap();
            let at = empty.start + draw.below((empty.end - empty.start) as usize) as u64;
            Memory::of(pid).unwrap().write(at, &[1]).unwrap();
        }
    }
}

/// Words of the area that carry their address, as the guest writes them.
fn own_words(memory: &Memory, area: &Area) -> Vec<u64> {
    const KEY: u64 = 0x5a5a_a5a5;
    let mut bytes = vec![0; (area.end - area.start) as usize];
    if !area.writable || area.shared || memory.read(area.start, &mut bytes).is_err() {
        return Vec::new();
    }
    let words = (area.start..).step_by(8).zip(bytes.chunks_exact(8));
    let own = words.filter(|(at, word)| u64::from_le_bytes((*word).try_into().unwrap()) >> 32 == (at >> 32) ^ KEY);
    own.map(|(at, _)| at).collect()
}

fn run_spoilt(program: &Program, spot: Spot, draw: &mut Draw) -> Outcome {
    let scratch = Scratch::below(Path::new(env!("CARGO_TARGET_TMPDIR")));
    let natively = |words: Vec<String>| {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).current_dir(scratch.path());
        command
    };
    run_with_points(program, natively, |pid| spoil(pid, spot, draw))
}

#[test]
fn a_wrong_bit_makes_a_difference() {
    let program = program::build("").into_iter().find(|p| p.name == "corruption").unwrap();
    let mut draw = Draw::new(2026);
    let right = run_spoilt(&program, Spot::Nothing, &mut draw);
    let again = run_spoilt(&program, Spot::Nothing, &mut draw);
    assert_eq!((right.end, difference(&program, &right, &again)), (program.end, None), "{right:?}");
    let spots = spots();
    assert!(spots.len() > 40, "{spots:?}");
    let unseen = |spot: &&Spot| difference(&program, &right, &run_spoilt(&program, **spot, &mut draw)).is_none();
    let unseen: Vec<&Spot> = spots.iter().filter(unseen).collect();
    assert!(unseen.is_empty(), "spoilt, and not noticed: {unseen:?}");
}
