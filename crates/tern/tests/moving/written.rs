//! Files that a process writes to when it is moved: nobody can run them as long as they are open
//! for writing, and nothing holds them open when the process has closed them.

use crate::{at_home, program, shared};

/// Makes a program, round after round, and runs it when it has closed it. With an argument each is
/// open until a SIGUSR1 comes; else for a short while, and there are so many megabytes of memory. A
/// SIGTERM is the end. What it makes is itself, which ends at once with two arguments.
const MAKER: &str = r#"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static char content[1 << 22];
int main(int count, char **words) {
    enum { BYTES = 48 << 20 };
    if (count > 2) return 0;
    int waits = count > 1, busy = 0, signal = 0;
    char *memory = malloc(BYTES), name[20];
    for (long i = 0; i < BYTES / 8; i++) ((long *)memory)[i] = waits ? 0 : random() << 31 ^ random();
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, 0);
    int from = open(words[0], O_RDONLY);
    long bytes = read(from, content, sizeof content);
    for (int round = 0; signal != SIGTERM; round++) {
        sprintf(name, "./made%d", round);
        unlink(name);
        int to = open(name, O_CREAT | O_WRONLY | O_TRUNC, 0755);
        if (write(to, content, bytes) != bytes) return 1;
        if (waits) { printf("%d\n", round); fflush(stdout); }
        struct timespec rest = {waits ? 1000 : 0, 20000000};
        while ((signal = sigtimedwait(&set, 0, &rest)) < 0 && errno != EAGAIN) {}
        if (signal == SIGTERM) break;
        close(to);
        pid_t child = vfork();
        if (child == 0) {
            execl(name, name, "end", "now", (char *)0);
            _exit(errno);
        }
        int status;
        waitpid(child, &status, 0);
        if (WEXITSTATUS(status) == ETXTBSY) busy++;
        else if (status) return 2;
        if (!waits) unlink(name);
    }
    printf("%d busy\n", busy);
    fflush(stdout);
    return memory == 0;
}
"#;

/// Closed by its program, in whatever place, it can be run: the deputy, and the body that has been
/// left and may live on for its pages, do not have it open.
#[test]
fn what_was_written_in_several_places_can_be_run() {
    let lab = shared();
    let maker = program(&lab, "maker", MAKER, &[]);
    let text = at_home(
        &lab,
        &format!(
            r#"
        {maker} waits > said 2>&1 < /dev/null & pid=$!
        made=0
        lines said 1
        for how in stop post; do for node in n2 n3 home; do
            tern move --how $how $pid $node && echo moved
            kill -USR1 $pid
            lines said $((made + 2))
            ./made$made end now || echo not run
            : $((made += 1))
        done; done
        kill $pid; wait $pid; tail -1 said"#
        ),
    )
    .text();
    let words: Vec<&str> = text.split_whitespace().collect();
    assert_eq!(words, ["moved", "moved", "moved", "moved", "moved", "moved", "0", "busy"]);
}

/// What is made ready elsewhere for a program that still runs does not have it open: the program
/// closes it, and runs it.
#[test]
fn what_is_closed_while_pages_go_ahead_can_be_run() {
    let lab = shared();
    let maker = program(&lab, "maker", MAKER, &[]);
    let text = at_home(
        &lab,
        &format!(
            r#"
        {maker} > said 2>&1 < /dev/null & pid=$!
        for node in n2 n3 home; do
            until tern move --how pre --rate 100M $pid $node; do :; done
            echo moved
        done
        kill $pid; wait $pid; tail -1 said"#
        ),
    )
    .text();
    let words: Vec<&str> = text.split_whitespace().collect();
    assert_eq!(words, ["moved", "moved", "moved", "0", "busy"]);
}

/// Nobody but who made it may write to it (`open` with 0444, as git makes its objects): it goes on
/// with the open file that it had away.
#[test]
fn what_was_made_away_and_may_be_read_alone_comes_home() {
    let lab = shared();
    let text = at_home(
        &lab,
        r#"
        chmod 777 .
        setpriv --reuid=65534 --regid=65534 --clear-groups perl -e '
use Fcntl; $| = 1; print "up\n";
select(undef, undef, undef, 0.01) until -e "away";
sysopen(my $file, "made", O_CREAT | O_EXCL | O_RDWR | O_APPEND, 0444) or die; syswrite($file, "some"); print "made\n";
select(undef, undef, undef, 0.01) until -e "home";
sysseek($file, 0, 0); syswrite($file, "thing"); sysseek($file, 0, 0); sysread($file, my $all, 20); print "$all\n"' > said & pid=$!
        lines said 1; tern move $pid n2; touch away
        lines said 2; tern move $pid home 2>&1; tern ps | grep -c $pid
        touch home; wait $pid; tail -1 said; cat made; stat -c ' %a' made"#,
    )
    .text();
    let words: Vec<&str> = text.split_whitespace().collect();
    assert_eq!(words, ["0", "something", "something", "444"], "{text}");
}
