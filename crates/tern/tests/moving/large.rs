//! Processes that are large: what moves them stays small.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lab::Lab;

use crate::{at_home, program, shared};

/// argv: MB in all, MB between two pages that are used (0: all are). Random bytes; each page knows
/// its number.
const LARGE: &str = r#"
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
static volatile int stop;
static void got(int signal) { stop = 1; }
int main(int argc, char **argv) {
    uint64_t bytes = strtoull(argv[1], 0, 10) << 20, step = strtoull(argv[2], 0, 10) << 20, words, seed = 3;
    if (step == 0) step = 4096;
    uint64_t *memory = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    for (uint64_t at = 0; at < bytes; at += step)
        for (words = 0; words < 512; words++) memory[at / 8 + words] = words ? seed = seed * 6364136223846793005ULL + 1442695040888963407ULL : at;
    signal(SIGUSR1, got);
    puts("up"); fflush(stdout);
    while (!stop) pause();
    seed = 3;
    for (uint64_t at = 0; at < bytes; at += step)
        for (words = 0; words < 512; words++)
            if (memory[at / 8 + words] != (words ? seed = seed * 6364136223846793005ULL + 1442695040888963407ULL : at)) { puts("torn"); return 1; }
    for (uint64_t at = 4096; step > 4096 && at < bytes; at += step) if (memory[at / 8]) { puts("not zero"); return 1; }
    puts("whole");
    return 7;
}
"#;

/// 8 GB of which little is used, and 2 GB of which all is, by every way; steward and warden have 64
/// MB at most.
#[test]
#[ignore = "takes minutes, and 6 GB of memory: run by --full"]
fn movers_stay_small() {
    let lab = shared();
    let large = program(&lab, "large", LARGE, &["-O2"]);
    for size in ["8192 1", "2048 0"] {
        let script = format!(
            r#"
            {large} {size} > said 2>&1 < /dev/null & pid=$!
            lines said 1
            for leg in "n2 stop" "home stop" "n2 pre" "home post" "n2 post" "home flush" "n2 auto"; do
                set -- $leg
                tern move $pid $1 --how $2 || exit 1
            done
            kill -USR1 $pid; wait $pid; echo $? $(tail -1 said)"#
        );
        let ended = AtomicBool::new(false);
        let most_kb = std::thread::scope(|scope| {
            let watched = scope.spawn(|| watch(&lab, &ended));
            let text = at_home(&lab, &script).text();
            ended.store(true, Ordering::Relaxed);
            assert_eq!(text, "7 whole", "{size}");
            watched.join().unwrap()
        });
        assert!((1..=64 << 10).contains(&most_kb), "{size}: {most_kb} kB");
    }
}

/// The most memory of its own that a steward or warden has until then, but for what the kernel
/// takes when it needs it, kB.
fn watch(lab: &Lab, ended: &AtomicBool) -> u64 {
    let mut most = 0;
    while !ended.load(Ordering::Relaxed) {
        let all = ["n1", "n2"].into_iter().flat_map(|node| lab.processes(node).unwrap_or_default());
        most = all.filter_map(own_kb).fold(most, u64::max);
        std::thread::sleep(Duration::from_millis(50));
    }
    most
}

fn own_kb(pid: i32) -> Option<u64> {
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let role = words.split(|b| *b == 0).nth(1)?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let kb = |text: &str, name| -> Option<u64> {
        text.lines().find_map(|line| line.strip_prefix(name))?.trim().trim_end_matches(" kB").parse().ok()
    };
    let lazy = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let own = kb(&status, "RssAnon:")?.saturating_sub(kb(&lazy, "LazyFree:")?);
    (role == b"__steward" || role == b"__warden").then_some(own)
}
