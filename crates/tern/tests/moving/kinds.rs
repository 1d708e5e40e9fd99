//! Pages that are not simply there: swapped out, locked, private copies of a file's, and those that
//! the kernel fills itself (O_DIRECT).

use std::path::PathBuf;
use std::process::Command;

use crate::{at_home, program, shared};

/// Knows what all its pages hold; has them swapped out again and again, if there is where to. A
/// thread reads a file past the page cache into pages that the kernel holds meanwhile.
const KEEPER: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
enum { PAGE = 4096, PAGES = 2048, FILE_PAGES = 256, LOCKED = 16, BUFFER = 1 << 18 };
static volatile int stop;
static void got(int signal) { stop = 1; }
static uint64_t mix(uint64_t n) { n *= 0x9e3779b97f4a7c15; return n ^ n >> 29; }
static void fail(const char *what, long page) { printf("%s: page %ld\n", what, page); fflush(stdout); _exit(1); }
static void fill(uint64_t *at, long pages, uint64_t seed) { for (long i = 0; i < pages * 512; i++) at[i] = mix(seed + i); }
static void look(const char *what, uint64_t *at, long pages, uint64_t seed) {
    for (long i = 0; i < pages * 512; i++) if (at[i] != mix(seed + i)) fail(what, i / 512);
}
static long status(const char *word) {
    FILE *f = fopen("/proc/self/status", "r");
    char line[256];
    long kb = -1;
    while (fgets(line, sizeof line, f)) if (strncmp(line, word, strlen(word)) == 0) kb = atol(line + strlen(word));
    fclose(f);
    return kb;
}
static void *read_past_the_cache(void *unused) {
    uint64_t *buffer;
    if (posix_memalign((void **)&buffer, PAGE, BUFFER)) _exit(2);
    int fd = open("file", O_RDONLY | O_DIRECT);
    for (long n = 0; fd >= 0 && !stop; n++) {
        long at = n % (FILE_PAGES * PAGE / BUFFER) * BUFFER;
        memset(buffer, 0, BUFFER);
        if (pread(fd, buffer, BUFFER, at) != BUFFER) fail("pread", at / PAGE);
        look("direct", buffer, BUFFER / PAGE, 7 + at / 8);
        usleep(500);
    }
    return 0;
}
int main(void) {
    pthread_t thread;
    int fd = open("file", O_CREAT | O_RDWR | O_TRUNC, 0600);
    uint64_t *memory = mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fill(memory, FILE_PAGES, 7);
    if (write(fd, memory, FILE_PAGES * PAGE) != FILE_PAGES * PAGE) return 3;
    fill(memory, PAGES, 1);
    uint64_t *copy = mmap(0, FILE_PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    for (long page = 0; page < FILE_PAGES; page += 2) fill(copy + page * 512, 1, 1000 + page);
    uint64_t *locked = mmap(0, LOCKED * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fill(locked, LOCKED, 3);
    if (mlock(locked, LOCKED * PAGE)) return 4;
    signal(SIGUSR1, got);
    pthread_create(&thread, 0, read_past_the_cache, 0);
    for (long round = 0; !stop; round++) {
        madvise(memory, PAGES * PAGE, MADV_PAGEOUT);
        madvise(copy, FILE_PAGES * PAGE, MADV_PAGEOUT);
        printf("%ld kB swapped, %ld kB locked\n", status("VmSwap:"), status("VmLck:")); fflush(stdout);
        for (int i = 0; i < 10 && !stop; i++) usleep(20000);
        look("memory", memory, PAGES, 1);
        look("locked", locked, LOCKED, 3);
        for (long page = 0; page < FILE_PAGES; page++)
            look("copy", copy + page * 512, 1, page % 2 ? 7 + page * 512 : 1000 + page);
    }
    pthread_join(thread, 0);
    puts("whole");
    return 4;
}
"#;

/// Where pages go that are swapped out, until this is dropped.
struct Swap(PathBuf);

impl Swap {
    fn on() -> Option<Swap> {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("swap-{}", std::process::id()));
        let script = format!(
            "dd if=/dev/zero of={0} bs=1M count=64 && chmod 600 {0} && mkswap {0} && swapon {0}",
            path.display()
        );
        let swap = Swap(path);
        let done = Command::new("sh").args(["-c", &script]).output().unwrap();
        done.status.success().then_some(swap)
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        let _ = Command::new("swapoff").arg(&self.0).output();
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn pages_of_every_kind() {
    let swap = Swap::on();
    let lab = shared();
    let keeper = program(&lab, "keeper", KEEPER, &["-pthread"]);
    let text = at_home(
        &lab,
        &format!(
            r#"
        {keeper} > said 2>&1 < /dev/null & pid=$!
        lines said 2
        for leg in "n2 stop" "n3 pre" "n2 post" "home post" "n3 pre" "home pre" "n2 stop" "home stop" "n2 post"; do
            set -- $leg
            tern move $pid $1 --how $2 > why 2>&1 || {{ echo $leg; cat why; }}
            lines said $(($(wc -l < said) + 2))
        done
        tern move $pid home --max-freeze 2ms > why 2>&1 || cat why
        lines said $(($(wc -l < said) + 2))
        grep -v -c ' 0 kB swapped' said > swapped; grep -c ' 64 kB locked' said | xargs test $(wc -l < said) = || cat said
        kill -USR1 $pid; wait $pid; echo $? $(tail -1 said); cat swapped"#
        ),
    )
    .text();
    let (right, swapped) = text.rsplit_once('\n').unwrap();
    let words: Vec<&str> = right.split_whitespace().collect();
    assert_eq!(words, ["4", "whole"], "{text}");
    match swap {
        Some(_) => assert!(swapped.parse::<u32>().unwrap() > 5, "{text}"),
        None => eprintln!("no swap can be had here: none of its pages was swapped out"),
    }
}

/// Unmaps all of the kernel's pages that it has, says so, and waits for the file `go`, by calls
/// alone.
const WITHOUT_THE_KERNELS: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int main(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    unsigned long from[8], to[8];
    int count = 0;
    while (fgets(line, sizeof line, maps))
        if (strstr(line, "[vvar") || strstr(line, "[vdso]")) sscanf(line, "%lx-%lx", &from[count], &to[count]), count++;
    while (count-- > 0) munmap((void *)from[count], to[count] - from[count]);
    puts("up"); fflush(stdout);
    struct timespec moment = {0, 2000000};
    while (syscall(SYS_access, "go", F_OK)) syscall(SYS_nanosleep, &moment, 0);
    return 3;
}
"#;

/// Before, it came home with pages that it had not had.
#[test]
fn who_has_none_of_the_kernels_pages_gets_none() {
    let lab = shared();
    let program = program(&lab, "without", WITHOUT_THE_KERNELS, &[]);
    let script = format!(
        r#"
        kernels() {{ grep -c -e '\[vvar' -e '\[vdso' /proc/$pid/maps; }}
        {program} > said & pid=$!
        lines said 1; kernels
        tern move $pid n2 && tern move $pid n3 && tern move $pid home && kernels
        touch go; wait $pid; echo "end $?""#
    );
    assert_eq!(at_home(&lab, &script).text().trim_end(), "0\n0\nend 3");
}
