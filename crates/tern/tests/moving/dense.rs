//! Memory that is full is filled in huge pages, which its program has not asked for.

use crate::{at_home, common, program, shared};

/// As much that is full as is sparse; says, each time it has checked all of it: MB in huge pages,
/// MB there at all, areas that are marked for huge pages.
const FULL: &str = r#"
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
enum { BYTES = 96 << 20, APART = 16 << 12 };
static void say(void) {
    FILE *f = fopen("/proc/self/smaps", "r");
    char line[512];
    long huge = 0, there = 0, marked = 0, kb;
    while (fgets(line, sizeof line, f)) {
        if (sscanf(line, "AnonHugePages: %ld", &kb) == 1) huge += kb;
        if (sscanf(line, "Anonymous: %ld", &kb) == 1) there += kb;
        if (!strncmp(line, "VmFlags:", 8)) marked += strstr(line, " hg") || strstr(line, " nh");
    }
    fclose(f);
    printf("%ld %ld %ld\n", huge >> 10, there >> 10, marked);
    fflush(stdout);
}
int main(void) {
    uint64_t *full = mmap(0, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *sparse = mmap(0, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    for (uint64_t n = 0; n < BYTES / 8; n++) full[n] = n * 0x9e3779b97f4a7c15;
    for (long at = 0; at < BYTES; at += APART) sparse[at] = at / APART + 1;
    for (;;) {
        for (uint64_t n = 0; n < BYTES / 8; n += 64) if (full[n] != n * 0x9e3779b97f4a7c15) { puts("torn"); return 1; }
        for (long at = 0; at < BYTES; at += APART) if (sparse[at] != (char)(at / APART + 1)) { puts("torn"); return 1; }
        say();
        struct timespec rest = {0, 10000000};
        nanosleep(&rest, 0);
    }
}
"#;

/// Where huge pages are for those who ask for them. By stop-and-copy and pre-copy, out, on and
/// home; what is sparse takes no more memory than before, and no area says so.
#[test]
fn full_memory_comes_in_huge_pages() {
    let setting = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    // Elsewhere nothing is done, and the kernel itself may make huge pages anywhere: then only what
    // the memory holds is looked at.
    let (huge_mb, more_mb) = if setting.contains("[madvise]") { (48, 2) } else { (0, 1 << 20) };
    let lab = shared();
    let program = program(&lab, "full", FULL, &[]);
    let script = format!(
        r#"
        {program} > said 2>&1 < /dev/null & pid=$!
        lines said 1; set -- $(head -1 said); there=$2
        [ {huge_mb} = 0 ] || echo at first $1 $3
        for leg in "n2 stop" "n3 stop" "home stop" "n2 pre" "n3 pre" "home pre"; do
            set -- $leg
            tern move $pid $1 --how $2 || exit 1
            lines said $(($(wc -l < said) + 2)); set -- $leg $(tail -1 said)
            [ "$3" -ge {huge_mb} ] || echo "$leg: $3 MB in huge pages"
            [ "$4" -le $((there + {more_mb})) ] || echo "$leg: $there MB became $4"
            [ "$5" = 0 ] || echo "$leg: areas are marked"
        done
        kill $pid; grep -c torn said; true"#
    );
    let at_first = if huge_mb == 0 { "" } else { "at first 0 0\n" };
    assert_eq!(at_home(&lab, &script).text(), format!("{at_first}0"));
}

/// A node whose owner forbids huge pages that no program asked for makes none: `ternd --without`.
#[test]
fn an_owner_forbids_huge_pages() {
    let lab = common::lab_of(&common::options(3));
    lab.restart_daemon_with("n2", &["--without", "huge-pages"]).unwrap();
    let program = program(&lab, "full", FULL, &[]);
    let script = format!(
        r#"
        {program} > said 2>&1 < /dev/null & pid=$!
        lines said 1
        for node in n2 n3; do
            until_ "tern move $pid $node --how stop"
            lines said $(($(wc -l < said) + 2)); tail -1 said | cut -d' ' -f1
        done
        kill $pid"#
    );
    let text = at_home(&lab, &script).text();
    let megabytes: Vec<u32> = text.lines().map(|line| line.parse().unwrap()).collect();
    let setting = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    if !setting.contains("[madvise]") {
        return skip::test(format_args!("transparent huge pages are not for those that ask: {setting}"));
    }
    assert!(megabytes[0] == 0 && megabytes[1] >= 48, "{text}");
}
