//! Programs that `tern run` places, and that go home for what home alone can do: they say so, or
//! end.

use crate::{program, shared};
use lab::{Lab, Output};

/// Runs a script in which `tern` says what it says to users.
fn at_home(lab: &Lab, script: &str) -> Output {
    crate::at_home(lab, &format!("unset TERN_QUIET\n{script}"))
}

/// Maps its argument, which others have open, shared and writable, says so, and waits for the end
/// of its input.
const MAPS: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int argc, char **argv) {
    char c;
    int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, 4096)) return 1;
    char *memory = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) return perror("mmap"), 2;
    memory[0] = 'x';
    puts("mapped"); fflush(stdout);
    while (read(0, &c, 1) > 0) {}
    return 0;
}
"#;

/// Failed before: it ran at home without a word.
#[test]
fn the_call_and_the_file_that_bring_a_program_home_are_said_once() {
    let lab = shared();
    let maps = program(&lab, "maps", MAPS, &[]);
    let script = format!(
        r#"mkfifo go; exec 3<>go 5<>a 6<>b
        tern run --on n2 -- sh -c 'exec 4<&0; {maps} a <&4 & echo $! > pid; {maps} b < /dev/null; wait' < go > said 2> errors 3>&- &
        lines said 2; cat errors; grep -c 'came home from n2 for mmap(2) of .*, shared, which processes' errors
        until_ 'tern why $(cat pid) | grep -q "ago: came home"'
        tern why $(cat pid) | grep -e 'came home' -e 'descends' -e 'not in scope'
        tern why $(cat pid) --json | python3 -c 'import json, sys; r = json.load(sys.stdin); print(r["away"], r["history"][-1]["event"]["came-home"]["from"])'
        tern log -n 400 | grep -c "process $(cat pid) came home for mmap"
        exec 3>&-; wait $!; echo $?"#
    );
    let said = at_home(&lab, &script).text();
    assert!(said.contains("MAP_PRIVATE, stays away (tern run --quiet does not say so)\n1\n"), "{said}");
    assert!(said.contains("ago: came home from n2 by itself, for mmap(2) of /tmp/"), "{said}");
    assert!(said.contains(", which `tern run` started on n2") && said.contains("named its node"), "{said}");
    assert!(said.ends_with("False n2\n1\n0"), "{said}");
}

/// Attaches the shared memory of this key, or number, after it has asked for its size; reads and
/// writes.
const ATTACHES: &str = r#"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/shm.h>
int main(int argc, char **argv) {
    struct shmid_ds state;
    int number = argv[1][0] == 'k' ? shmget(strtol(argv[1] + 1, 0, 0), 0, 0) : atoi(argv[1]);
    if (number < 0 || shmctl(number, IPC_STAT, &state)) return printf("none: %d\n", errno), 1;
    char *memory = shmat(number, 0, 0);
    if (memory == (void *)-1) return printf("not attached: %d\n", errno), 2;
    printf("%zu%s%s\n", state.shm_segsz, *memory ? " " : "", memory);
    strcpy(memory, "from away");
    return 0;
}
"#;

/// Failed before: by its number it was EINVAL without a word, and its key was refused.
#[test]
fn shared_memory_of_homes_processes_brings_its_users_home() {
    let lab = shared();
    let attaches = program(&lab, "attaches", ATTACHES, &[]);
    let script = format!(
        r#"made=$(ipcmk -M 5000 | grep -o '[0-9]*$'); key=$(ipcs -m | awk -v id=$made '$2 == id {{print $1}}')
        tern run --on n2 -- {attaches} $made 2> errors; {attaches} $made; tern run --on n2 -- {attaches} k$key 2>> errors
        grep -c 'came home from n2 for shmat(2)' errors
        tern run --on n2 -- {attaches} 99999; ipcrm -m $made
        tern run --on n2 -- {attaches} $made; tern run --on n2 -- {attaches} k$key; true"#
    );
    let said = at_home(&lab, &script);
    assert_eq!(
        said.text(),
        "5000\n5000 from away\n5000 from away\n2\nnone: 22\nnone: 22\nnone: 2",
        "{}",
        said.errors()
    );
}

#[test]
fn who_asks_for_quiet_hears_nothing() {
    let lab = shared();
    let maps = program(&lab, "maps", MAPS, &[]);
    let script = format!(
        "exec 5<>a; TERN_QUIET=1 tern run --on n2 -- {maps} a < /dev/null; tern run --quiet --on n2 -- {maps} a < /dev/null"
    );
    let said = at_home(&lab, &script);
    assert_eq!((said.text().as_str(), said.errors().as_str()), ("mapped\nmapped", ""));
}

/// Failed before: there was no such option.
#[test]
fn strict_ends_instead_of_running_at_home() {
    let lab = shared();
    let maps = program(&lab, "maps", MAPS, &[]);
    let script = format!(
        r#"exec 5<>a 6<>b; tern run --strict --on n2 -- {maps} a < /dev/null; echo $?
        tern run --strict --on n2 -- sh -c '{maps} b < /dev/null; echo $?; true'; echo $?
        tern run --strict --on n2 -- sh -c 'kill -QUIT $$'; echo $?"#
    );
    let said = at_home(&lab, &script);
    assert_eq!(said.text(), "125\n125\n0\n131", "{}", said.errors());
    assert_eq!(said.errors().matches("ends (tern run --strict): it would have to leave n2 for mmap(2) of").count(), 2);
}
