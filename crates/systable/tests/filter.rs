//! The emitted program does what the table says: for every number, and for arguments on both sides
//! of every comparison.

use systable::filter::{self, ARCH, Action, Insn, X32_BIT};
use systable::{Class, Cmp, LAST, Special, TABLE, When};

/// What seccomp gives a filter to look at.
struct Data {
    nr: u32,
    arch: u32,
    args: [u64; 6],
}

/// Classic BPF as the kernel runs it for seccomp; also says how many loads beyond number and
/// architecture were made.
fn run(program: &[Insn], data: &Data) -> (u32, usize) {
    let (mut a, mut at, mut argument_loads) = (0u32, 0usize, 0);
    loop {
        let Insn { code, jt, jf, k } = program[at];
        at += 1;
        let jump = |holds: bool| usize::from(if holds { jt } else { jf });
        match code {
            0x20 => {
                argument_loads += usize::from(k > 4);
                a = load(data, k);
            }
            0x54 => a &= k,
            0x05 => at += k as usize,
            0x15 => at += jump(a == k),
            0x35 => at += jump(a >= k),
            0x45 => at += jump(a & k != 0),
            0x06 => return (k, argument_loads),
            _ => panic!("instruction {code:#x} at {}", at - 1),
        }
    }
}

fn load(data: &Data, offset: u32) -> u32 {
    match offset {
        0 => data.nr,
        4 => data.arch,
        16..=60 if offset.is_multiple_of(4) => {
            let arg = data.args[(offset as usize - 16) / 8];
            if offset.is_multiple_of(8) { arg as u32 } else { (arg >> 32) as u32 }
        }
        _ => panic!("load at {offset}"),
    }
}

/// Values around which a comparison turns.
fn interesting(cmp: Cmp) -> Vec<u64> {
    let value = match cmp {
        Cmp::Is(_, value) | Cmp::Below(_, value) | Cmp::From(_, value) | Cmp::Bits(_, _, value) => u64::from(value),
        Cmp::Null(_) => 0,
        Cmp::Marked(_, mark) => u64::from(mark) << 32 | 5,
    };
    let mask = if let Cmp::Bits(_, mask, _) = cmp { u64::from(mask) } else { 0 };
    vec![
        value,
        value.wrapping_add(1),
        value.wrapping_sub(1),
        value | 1 << 32,
        value | mask,
        value & !mask,
        value ^ 0xff00,
    ]
}

fn lists(when: When) -> &'static [&'static [Cmp]] {
    match when {
        When::Always => &[],
        When::If(lists) | When::Unless(lists) => lists,
    }
}

/// Arguments that make each list hold, fail by one comparison, and a few others.
fn samples(when: When) -> Vec<[u64; 6]> {
    let mut samples = vec![[0; 6], [u64::MAX; 6], [3, 4, 5, 6, 7, 8], [1 << 32; 6]];
    for list in lists(when) {
        let holding = list.iter().fold([9; 6], |mut args, cmp| {
            args[usize::from(cmp.argument())] = match *cmp {
                Cmp::Is(_, value) | Cmp::Bits(_, _, value) => u64::from(value),
                Cmp::Below(_, limit) => u64::from(limit) - 1,
                Cmp::From(_, first) => u64::from(first),
                Cmp::Null(_) => 0,
                Cmp::Marked(at, mark) => u64::from(mark) << 32 | args[usize::from(at)] & u64::from(u32::MAX),
            };
            args
        });
        assert!(list.iter().all(|cmp| cmp.holds(&holding)), "a list that can never hold: {list:?}");
        samples.push(holding);
        for cmp in *list {
            for value in interesting(*cmp) {
                let mut args = holding;
                args[usize::from(cmp.argument())] = value;
                samples.push(args);
            }
        }
    }
    samples
}

#[test]
fn every_number_does_what_its_row_says() {
    let program = filter::program();
    let mut checked = 0;
    for row in TABLE {
        for nr in row.nr..=row.last {
            for args in samples(row.when).into_iter().chain(samples(row.duplicates)) {
                let nr = u32::from(nr);
                let (code, loads) = run(program.insns(), &Data { nr, arch: ARCH, args });
                let holds = row.when.holds(&args);
                let expected = match row.class {
                    _ if row.duplicates.holds(&args) => Action::Trace,
                    _ if !holds => Action::Allow,
                    Class::Local => Action::Allow,
                    Class::Special(Special::Clone | Special::TakeSignal) => Action::Trace,
                    Class::Home | Class::Special(_) | Class::GoHome(_) | Class::Refused(_) => Action::Notify,
                    Class::Unused => Action::Fail(systable::errno::ENOSYS),
                };
                assert_eq!(code, expected.code(), "{nr} {} {args:x?}", row.name);
                assert_eq!(filter::action(ARCH, nr, &args), expected, "{nr} {}", row.name);
                // The kernel's bitmap holds only numbers for which nothing else is looked at.
                let always = row.when == When::Always && row.duplicates == When::NEVER;
                assert!(!always || loads == 0, "{} loads an argument", row.name);
                checked += 1;
            }
        }
    }
    assert!(checked > 1500, "{checked}");
}

#[test]
fn only_the_shown_descriptor_stops() {
    let program = filter::shown(7);
    for (name, fd, command, stops) in [
        ("fstat", 7, 0, true),
        ("newfstatat", 7, 0, true),
        ("statx", 7 | 1 << 40, 0, true),
        ("lseek", 7, 0, true),
        ("fstat", 8, 0, false),
        ("read", 7, 0, false),
        ("dup", 7, 0, true),
        ("dup", 8, 0, false),
        ("dup2", 7, 9, true),
        ("dup3", 7, 9, true),
        ("dup3", 9, 7, false),
        ("dup2", 7, 2, false),
        ("dup3", 7 | 1 << 32, 9, false),
        ("fcntl", 7, 0, true),
        ("fcntl", 7, 1030, true),
        ("fcntl", 7, 1, false),
        ("fcntl", 7, 3, true),
        ("fcntl", 8, 3, false),
        ("fcntl", 8, 1030, false),
    ] {
        let nr = systable::number(name).unwrap();
        let expected = if stops { Action::Trace } else { Action::Allow };
        assert_eq!(
            run(&program, &Data { nr, arch: ARCH, args: [fd, command, 0, 0, 0, 0] }).0,
            expected.code(),
            "{name} {fd} {command}"
        );
    }
}

#[test]
fn attributes_of_descriptors_stop_and_those_of_names_do_not() {
    const EMPTY_PATH: u64 = 0x1000;
    let program = filter::attributes();
    for (name, args, stops) in [
        ("fstat", [3, 0, 0, 0, 0, 0], true),
        ("fstat", [2, 0, 0, 0, 0, 0], false),
        ("newfstatat", [7, 0, 0, EMPTY_PATH, 0, 0], true),
        ("newfstatat", [7, 0, EMPTY_PATH, 0x100, 0, 0], false),
        ("newfstatat", [0xffff_ff9c, 0, 0, EMPTY_PATH, 0, 0], false),
        ("newfstatat", [-100i64 as u64, 0, 0, EMPTY_PATH | 0x100, 0, 0], false),
        ("statx", [7 | 1 << 40, 0, EMPTY_PATH, 0, 0, 0], true),
        ("statx", [7, 0, 0, EMPTY_PATH, 0, 0], false),
        ("statx", [0, 0, EMPTY_PATH, 0, 0, 0], false),
        ("fcntl", [7, 3, 0, 0, 0, 0], true),
        ("fcntl", [2, 3, 0, 0, 0, 0], false),
        ("fcntl", [7, 1, EMPTY_PATH, EMPTY_PATH, 0, 0], false),
        ("lseek", [7, 0, EMPTY_PATH, EMPTY_PATH, 0, 0], false),
        ("read", [7, 0, EMPTY_PATH, EMPTY_PATH, 0, 0], false),
    ] {
        let nr = systable::number(name).unwrap();
        let expected = if stops { Action::Trace } else { Action::Allow };
        assert_eq!(run(&program, &Data { nr, arch: ARCH, args }).0, expected.code(), "{name} {args:x?}");
    }
}

#[test]
fn what_is_newer_foreign_or_x32_is_not_let_through() {
    let program = filter::program();
    let of = |nr, arch| run(program.insns(), &Data { nr, arch, args: [0; 6] }).0;
    for nr in [u32::from(LAST) + 1, 512, 547, 1000, 0x3fff_ffff] {
        assert_eq!(of(nr, ARCH), Action::Notify.code(), "{nr}");
    }
    for nr in [X32_BIT, X32_BIT + 1, X32_BIT + 520, 0x8000_0000, u32::MAX] {
        assert_eq!(of(nr, ARCH), Action::Fail(systable::errno::ENOSYS).code(), "{nr:#x}");
    }
    for nr in 0..600 {
        assert_eq!(of(nr, 0x4000_0003), Action::Notify.code(), "{nr} of i386");
    }
}

#[test]
fn the_program_is_one_the_kernel_takes() {
    let program = filter::program();
    let insns = program.insns();
    assert!(insns.len() < 700, "{} instructions", insns.len());
    for (at, insn) in insns.iter().enumerate() {
        let far = match insn.code {
            0x05 => insn.k as usize,
            0x15 | 0x35 => usize::from(insn.jt.max(insn.jf)),
            _ => 0,
        };
        assert!(at + 1 + far < insns.len() || insn.code == 0x06, "jump out of the program at {at}");
    }
    assert_eq!(insns.last().map(|insn| insn.code), Some(0x06));
}

#[test]
fn names_are_unique_and_rows_make_sense() {
    for row in TABLE {
        assert!(!row.why.is_empty(), "{} says no reason", row.name);
        if row.name.is_empty() {
            assert_eq!(row.class, Class::Unused);
            continue;
        }
        assert_eq!(systable::number(row.name), Some(u32::from(row.nr)), "{} twice", row.name);
        assert_eq!(systable::name(u32::from(row.nr)), Some(row.name));
        assert!(row.when == When::Always || !matches!(row.class, Class::Local | Class::Unused), "{}", row.name);
        for cmp in lists(row.when).iter().chain(lists(row.duplicates)).flat_map(|list| list.iter()) {
            assert!(usize::from(cmp.argument()) < row.args.len(), "{} compares an argument it has not", row.name);
        }
    }
    assert_eq!(systable::row(400).map(|row| (row.nr, row.last)), Some((337, 423)));
    assert!(systable::row(u32::from(LAST) + 1).is_none());
    assert_eq!(systable::name(400), None);
}

/// Where the wall clock is wrong, what reads it or waits for it is handed over; all else is as
/// without.
#[test]
fn clocks_are_handed_over_and_nothing_else() {
    let plain = filter::program();
    let both: Vec<Insn> = filter::clocks().into_iter().chain(plain.insns().iter().copied()).collect();
    let (notify, trace) = (Action::Notify.code(), Action::Trace.code());
    let handed = |nr: u32, args: [u64; 6]| match nr {
        96 | 201 => Some(notify),
        228 if [0, 5, 11].contains(&args[0]) => Some(notify),
        202 if [9 | 256, 11 | 256, 13 | 256].contains(&(args[1] & 0x17f)) || args[1] & 0x7f == 6 => Some(trace),
        230 if [0, 11].contains(&args[0]) && args[1] & 1 == 1 => Some(trace),
        223 | 286 if args[1] & 1 == 1 => Some(trace),
        449 if args[4] == 0 => Some(trace),
        455 if args[5] == 0 => Some(trace),
        _ => None,
    };
    let numbers = 0..=u32::from(LAST) + 2;
    for nr in numbers.chain([X32_BIT | 228]) {
        for first in [0, 1, 5, 7, 11] {
            for second in [0, 1, 6, 9, 128 | 6, 9 | 128, 9 | 256, 9 | 128 | 256, 11 | 256, 13, 13 | 256, 256] {
                let args = [first, second, 7, 7, first, second];
                for arch in [ARCH, 0x4000_0003] {
                    let data = Data { nr, arch, args };
                    let without = run(plain.insns(), &data).0;
                    let wanted = handed(nr, args).filter(|_| arch == ARCH).unwrap_or(without);
                    assert_eq!(run(&both, &data).0, wanted, "{nr} {args:?} {arch:#x}");
                }
            }
        }
    }
    // Numbers that are always allowed are still answered without a look at their arguments.
    assert_eq!(
        run(&both, &Data { nr: 0, arch: ARCH, args: [9; 6] }).1,
        run(plain.insns(), &Data { nr: 0, arch: ARCH, args: [9; 6] }).1
    );
}

#[test]
fn in_node_local_mode_only_calls_about_processes_are_seen() {
    let program = filter::node_local();
    let does = |nr: u32, args: [u64; 6]| run(program.insns(), &Data { nr, arch: ARCH, args }).0;
    for row in TABLE {
        let row = row.node_local();
        for args in samples(row.when).into_iter().chain(samples(row.duplicates)) {
            let expected = match row.class {
                _ if row.duplicates.holds(&args) => Action::Trace,
                _ if !row.when.holds(&args) => Action::Allow,
                Class::Local => Action::Allow,
                Class::Special(Special::Clone | Special::TakeSignal) => Action::Trace,
                Class::Home | Class::Special(_) | Class::GoHome(_) | Class::Refused(_) => Action::Notify,
                Class::Unused => Action::Fail(systable::errno::ENOSYS),
            };
            assert_eq!(does(u32::from(row.nr), args), expected.code(), "{} {args:x?}", row.name);
        }
    }
    let number = |name: &str| systable::number(name).unwrap();
    // About files, the network, devices and the host's name: never seen, whatever the arguments.
    let own = "open openat read write close stat mount umount2 socket connect bind listen accept accept4 sendto recvfrom \
               sendmsg recvmsg setsockopt getsockopt shutdown uname sethostname mmap inotify_init1 inotify_add_watch \
               fanotify_init shmget semget msgget mq_open chown fchownat epoll_ctl eventfd2 sync copy_file_range execve";
    for name in own.split_whitespace() {
        for args in [[0; 6], [1; 6], [u64::MAX; 6], [3, 0x5401, 0, 1, 0, 0]] {
            assert_eq!(does(number(name), args), Action::Allow.code(), "{name}");
        }
    }
    // Terminals that home gave the program are home's, and others are the node's.
    for (fd, expected) in [(0, Action::Notify), (2, Action::Notify), (3, Action::Allow)] {
        for request in [0x5401, 0x5413, 0x802c_542a] {
            assert_eq!(does(number("ioctl"), [fd, request, 0, 0, 0, 0]), expected.code(), "{fd} {request:x}");
        }
    }
    assert_eq!(does(number("ioctl"), [0, 0x5451, 0, 0, 0, 0]), Action::Allow.code());
    let kept =
        "kill tgkill wait4 waitid setpgid setsid getppid getpgid setuid setresgid chroot setns unshare ptrace prctl";
    for name in kept.split_whitespace() {
        assert_eq!(does(number(name), [0; 6]), Action::Notify.code(), "{name}");
    }
    assert_eq!(does(number("clone"), [0; 6]), Action::Trace.code());
}
