//! Processes that share their memory or their table of descriptors with others, and threads that do
//! not share theirs: they stay, with that reason, and nobody loses anything.

use crate::{at_home, program, shared};

/// Says its number and waits for the file `go`; ends with 3 when it has done what its word says.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static void pause_(int says) {
    if (says) { printf("%d\n", (int)getpid()); fflush(stdout); }
    while (access("go", F_OK)) usleep(2000);
}
static int own = -1;
static void *with_own_table(void *ready) {
    if (unshare(CLONE_FILES)) return 0;
    own = open("/proc/self/comm", O_RDONLY);
    *(volatile int *)ready = 1;
    pause_(0);
    char c;
    return read(own, &c, 1) == 1 ? ready : 0;
}
int main(int count, char **words) {
    volatile int seen = 0;
    int status;
    if (count > 1 && !strcmp(words[1], "vfork")) {
        pid_t child = vfork();
        if (child == 0) { pause_(1); seen = 6; _exit(3); }
        return waitpid(child, &status, 0) == child && seen == 6 ? WEXITSTATUS(status) : 1;
    }
    if (count > 1 && !strcmp(words[1], "table")) {
        pid_t child = syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
        if (child == 0) { pause_(0); _exit(open("/etc/passwd", O_RDONLY)); }
        pause_(1);
        char c;
        if (waitpid(child, &status, 0) != child) return 1;
        return read(WEXITSTATUS(status), &c, 1) == 1 ? 3 : 2;
    }
    volatile int ready = 0;
    pthread_t thread;
    void *result;
    pthread_create(&thread, 0, with_own_table, (void *)&ready);
    while (!ready) usleep(1000);
    pause_(1);
    pthread_join(thread, &result);
    return result ? 3 : 2;
}
"#;

/// Before, the parent of the first died of a segmentation fault, and the others could not read what
/// they had opened.
#[test]
fn who_shares_memory_or_descriptors_stays() {
    let lab = shared();
    let program = program(&lab, "tasks", PROGRAM, &[]);
    for (what, word) in [
        ("vfork", "has the same memory"),
        ("table", "has the same table"),
        ("thread", "has a table of descriptors of its own"),
    ] {
        let text = at_home(
            &lab,
            &format!(
                r#"
            {program} {what} > said & started=$!
            lines said 1; pid=$(head -1 said)
            tern why $pid | grep -o '{word}' | head -1
            tern move $pid n2 2>&1 | grep -o '{word}\|runs on'
            touch go; wait $started; echo "end $?""#
            ),
        )
        .text();
        assert_eq!(text.trim_end(), format!("{word}\n{word}\nend 3"), "{what}");
    }
}
