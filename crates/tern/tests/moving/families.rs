//! Processes with parents and children, wherever each of them is.

use crate::{at_home, program, shared};

/// A process that waits for its child, one that is stopped, one that has ended: the right answer
/// each, and nothing is lost.
#[test]
fn parents_move_and_wait() {
    let lab = shared();
    let text = at_home(
        &lab,
        r#"
        bash -c 'sleep 1000 & child=$!; echo $child > child; wait $child; echo status $?' > said & pid=$!
        lines child 1; child=$(cat child)
        tern move $pid n2; tern move $child n3
        ps -o ppid= -p $child | grep -qw $pid && echo parent kept
        tern move $child home; tern move $pid n3; kill $child
        wait $pid; cat said"#,
    )
    .text();
    assert_eq!(text, "parent kept\nstatus 143");
}

/// Children that are born away are their parent's wherever it goes, and come home themselves.
#[test]
fn children_born_away() {
    let lab = shared();
    let text = at_home(
        &lab,
        r#"
        cat > family <<'END'
        until [ -e go ]; do sleep 0.01; done
        bash -c 'echo $$ > grandchild; until [ -e end ]; do sleep 0.05; done; exit 9' & wait $!
        echo status $?
END
        bash family > said & pid=$!
        tern move $pid n2 2>&1; touch go
        lines grandchild 1; child=$(cat grandchild)
        tern ps | awk -v a=$pid -v b=$child '$1 == a || $1 == b { print "away on", $3 }'
        tern move $pid home 2>&1 && echo parent home
        tern move $child home 2>&1 && echo child home
        touch end; wait $pid; cat said"#,
    )
    .text();
    assert_eq!(text, "away on n2\naway on n2\nparent home\nchild home\nstatus 9");
}

/// Opens and closes files all the time: what is there at the stop is often not what was there
/// before, and it is prepared anew.
const RESTLESS: &str = r#"
#include <fcntl.h>
#include <time.h>
#include <unistd.h>
int main(void) {
    struct timespec rest = {0, 1500000};
    while (access("end", F_OK)) {
        int fd = open("/dev/null", O_RDONLY);
        nanosleep(&rest, 0);
        close(fd);
        nanosleep(&rest, 0);
    }
    return 5;
}
"#;

/// A try that is given up leaves nothing that the next one waits for.
#[test]
fn one_that_changes_meanwhile() {
    let lab = shared();
    let restless = program(&lab, "restless", RESTLESS, &[]);
    let text = at_home(
        &lab,
        &format!(
            r#"
        {restless} > /dev/null 2>&1 < /dev/null & pid=$!
        for i in $(seq 30); do tern move $pid n2; tern move $pid home; done 2>&1 | grep 'does not answer'
        touch end; wait $pid; echo $?"#
        ),
    )
    .text();
    assert_eq!(text, "5");
}

/// What they have in common stays so, whoever goes home first: one offset of the file that they
/// write to.
#[test]
fn a_file_in_common() {
    let lab = shared();
    let text = at_home(
        &lab,
        r#"
        cat > family <<'END'
        say() { i=0; while [ ! -e end ]; do echo $1 $i; i=$((i+1)); sleep 0.01; done; echo $1 $i last; }
        until [ -e go ]; do sleep 0.01; done
        ( echo $BASHPID > child; say child ) &
        say parent; wait
END
        bash family > said & pid=$!
        tern move $pid n2 2>&1; touch go
        lines child 1; child=$(cat child)
        for who in $pid $child; do
            lines said $(($(wc -l < said) + 10))
            tern move $who home 2>&1
        done
        lines said $(($(wc -l < said) + 10))
        touch end; wait $pid
        for who in parent child; do
            n=$(awk -v w=$who '$1 == w && $3 == "last" { print $2 }' said)
            awk -v w=$who '$1 == w && $3 == "" { print $2 }' said | cmp - <(seq 0 $((n-1))) && echo $who whole
        done"#,
    )
    .text();
    assert_eq!(text, "parent whole\nchild whole");
}

/// Who leaves looks at the offset of a file in common. Between home's answer to another's write and
/// that one's getting on the kernel there has still the old one: it was taken for a seek, home's
/// offset went back, and the line was written over. Who writes gets hardly any of its processor
/// here, so that most looks fall in between.
#[test]
fn nobody_writes_over_what_was_just_written() {
    let lab = shared();
    let text = at_home(
        &lab,
        r#"
        cat > family <<'END'
        sleep 1000 & sleeper=$!
        until [ -e go ]; do sleep 0.01; done
        taskset -c $cpu bash -c 'until [ -e end ]; do :; done' > /dev/null &
        i=0; until [ -e end ]; do taskset -c $cpu chrt -i 0 echo $i; i=$((i+1)); done
        kill $sleeper; wait; echo $i > last
END
        export cpu=$(taskset -cp $$ | grep -o '[0-9]*$')
        bash family > said & pid=$!
        tern move $pid n2 2>&1; touch go
        for round in $(seq 8); do
            lines said $(($(wc -l < said) + 1)); tern move $pid home 2>&1
            lines said $(($(wc -l < said) + 1)); tern move $pid n2 2>&1
        done
        touch end; wait
        seq 0 $(($(cat last) - 1)) | cmp - said && echo whole"#,
    )
    .text();
    assert_eq!(text, "whole");
}

/// What is shared with a process of home's stays there, and so does its offset.
#[test]
fn offsets_of_files_that_stay() {
    let lab = shared();
    let text = at_home(
        &lab,
        r#"
        python3 -c "
import os, time
def until(name):
    while not os.path.exists(name): time.sleep(0.01)
with open('text', 'w') as f: f.write('0123456789')
fd = os.open('text', os.O_RDONLY)
if os.fork() == 0:
    until('end'); os._exit(os.lseek(fd, 0, os.SEEK_CUR))
open('up', 'w').close(); until('go')
print(os.read(fd, 6), os.lseek(fd, -4, os.SEEK_CUR), os.read(fd, 3), os.fstat(fd).st_size)
open('end', 'w').close(); print(os.waitstatus_to_exitcode(os.wait()[1]))
" > said & pid=$!
        until_ '[ -e up ]'
        tern move $pid n2 2>&1; touch go; wait $pid; cat said"#,
    )
    .text();
    assert_eq!(text, "b'012345' 2 b'234' 10\n5");
}

/// Children write to a file in common while their parent leaves, and end: that moment is short, so
/// many are tried.
#[test]
fn children_that_write_and_end() {
    let lab = shared();
    let output = at_home(
        &lab,
        r#"
        seq 60 > wanted
        for round in $(seq 30); do
            bash -c 'for i in $(seq 60); do /bin/echo $i; done' > said & pid=$!
            lines said $((round % 5 + 1)); tern move --how $([ $((round % 2)) = 1 ] && echo post || echo auto) $pid n2 2>> refused && echo >> moves; wait $pid
            cmp said wanted
        done
        sort refused | uniq -c >&2; wc -l < moves"#,
    );
    let moves: u32 = output.text().parse().unwrap_or_else(|_| panic!("{}", output.text()));
    assert!(moves >= 8, "{moves} of 30 moved\n{}", output.errors());
}

/// A pipe between two that part, with what it holds; and make, whose children all have its pipe of
/// tokens.
#[test]
fn pipes_in_common() {
    let lab = shared();
    let text = at_home(
        &lab,
        r#"
        cat > family <<'END'
        until [ -e go ]; do sleep 0.01; done
        ( echo $BASHPID > producer; i=0; while [ ! -e end ]; do echo $i; i=$((i+1)); done ) | (
            echo $BASHPID > consumer; n=0
            while read a; do [ $a = $n ] || echo wrong $a $n; n=$((n+1)); echo $n >> count; [ -e end ] || sleep 0.01; done
            echo all )
END
        bash family > said & pid=$!
        tern move $pid n2 2>&1; touch go
        lines consumer 1; lines producer 1
        for who in $(cat producer) $pid $(cat consumer); do
            lines count $(($(wc -l < count) + 10))
            tern move $who home 2>&1
        done
        lines count $(($(wc -l < count) + 10))
        touch end made; wait $pid; cat said
        cat > Makefile <<'END'
N = $(shell seq 1 30)
all: $(N) ; @:
%: ; @until [ -e go$$(( $@ / 10 )) ]; do sleep 0.05; done; echo $@ >> made
END
        make -j4 > /dev/null & pid=$!
        until_ '[ $(pgrep -c -P $pid) -ge 4 ]'
        tern move $pid n2 2>&1
        for n in 0 1 2; do
            touch go$n; lines made $((n * 10 + 9))
            tern move $pid home 2>&1; tern move $pid n2 2>&1
        done
        touch go3; wait $pid; echo $?; sort -n made | cmp - <(seq 30) && echo made"#,
    )
    .text();
    assert_eq!(text, "all\n0\nmade");
}

/// A child that has a pipe in common with its parent gives its end other numbers all the time:
/// whoever looks for it meets numbers that are closed. The parent could not leave, for the child
/// did not seem to have the pipe, and did when it was looked at again.
#[test]
fn a_pipe_under_changing_numbers() {
    let lab = shared();
    let text = at_home(
        &lab,
        r#"
        for way in home home n3 home n3 home; do
            rm -f begun go up end
            python3 -c "
import os, time
def until(name):
    while not os.path.exists(name): time.sleep(0.01)
open('begun', 'w').close(); until('go'); reader, writer = os.pipe()
if os.fork() == 0:
    os.close(reader); open('up', 'w').close()
    for n in range(1 << 30):
        for fd in range(40, 60): os.dup2(writer, fd)
        os.closerange(40, 60)
        os.dup2(writer, writer + 1); os.close(writer); os.dup2(writer + 1, writer); os.close(writer + 1)
        if n % 64 == 0 and os.path.exists('end'): os.write(writer, b'whole'); os._exit(0)
os.close(writer); until('end')
print(os.read(reader, 10).decode(), os.waitstatus_to_exitcode(os.wait()[1]))" > said 2>&1 & pid=$!
            until_ '[ -e begun ]'
            tern move $pid n2 2>&1; touch go; until_ '[ -e up ]'
            tern move $pid $way 2>&1; touch end; wait $pid; cat said
        done"#,
    )
    .text();
    assert_eq!(text, ["whole 0"; 6].join("\n"));
}

/// The same number is a directory, a file, and one that is removed, in turn: what was seen of it
/// may be of two of them, or gone when the room opens it.
#[test]
fn files_under_changing_numbers() {
    let lab = shared();
    let text = at_home(
        &lab,
        r#"
        python3 -c "
import os, time
def opened(name, flags):
    fd = os.open(name, flags); os.dup2(fd, 40); os.close(fd)
open('begun', 'w').close(); n = 0
while not os.path.exists('end'):
    opened('.', os.O_RDONLY | os.O_DIRECTORY); time.sleep(0.0003)
    opened('file', os.O_RDWR | os.O_CREAT); time.sleep(0.0003)
    n += 1
    if n % 4 == 0: opened('brief', os.O_RDWR | os.O_CREAT | os.O_EXCL); time.sleep(0.0003); os.unlink('brief')
print('whole')" > said 2>&1 & pid=$!
        until_ '[ -e begun ]'
        for n in $(seq 20); do tern move $pid n2 2>&1; tern move $pid home 2>&1; done
        touch end; wait $pid; cat said"#,
    )
    .text();
    assert_eq!(text, "whole");
}

/// Makes a child that waits, by vfork.
const VFORK: &str = r#"
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
    puts("vforking"); fflush(stdout);
    pid_t child = vfork();
    if (!child) { while (access("go", F_OK)) usleep(10000); _exit(6); }
    int status;
    waitpid(child, &status, 0);
    printf("%d\n", WEXITSTATUS(status));
}
"#;

/// What cannot be moved at this moment says why, and is as it was.
#[test]
fn not_at_this_moment() {
    let lab = shared();
    let vfork = program(&lab, "vforking", VFORK, &[]);
    let script = format!(
        r#"
        {vfork} > said & pid=$!
        until_ 'grep -q "State:.D" /proc/$pid/status'; tern move $pid n2 2>&1 | head -1
        touch go; wait $pid; tail -1 said
        python3 -c 'import select; select.poll().poll(100000)' & pid=$!
        until_ "grep -q '^7 ' /proc/$pid/syscall"; kill -STOP $pid; until_ 'grep -q "State:.T" /proc/$pid/status'
        tern move --how pre $pid n2 2>&1 | head -1; tern move $pid n2 2>&1 | head -1; kill -CONT $pid; tern move $pid n2 2>&1 | head -1; kill $pid
        bash -c 'sleep 0.5 & echo $! > zombie; exec sleep 1000' & pid=$!
        lines zombie 1; zombie=$(cat zombie)
        until_ 'grep -q "State:.Z" /proc/$zombie/status'; tern move $zombie n2 2>&1 | head -1
        kill $pid"#
    );
    let text = at_home(&lab, &script).text();
    let lines: Vec<&str> = text.lines().collect();
    let waited = "stopped while it waited";
    let wanted = ["vfork child", "6", waited, waited, "waits again", "ended"];
    assert!(
        lines.len() == wanted.len() && lines.iter().zip(wanted).all(|(said, wanted)| said.contains(wanted)),
        "{text}"
    );
}

/// A lock of the process' that was taken away, for itself alone, would be free for a moment when it
/// came home: it stays until it has given it up.
#[test]
fn locks_are_not_lost() {
    let lab = shared();
    let text = at_home(
        &lab,
        r#"
        python3 -c "
import fcntl, os, time
def until(name):
    while not os.path.exists(name): time.sleep(0.01)
open('begun', 'w').close(); until('go'); f = open('locked', 'w'); fcntl.lockf(f, fcntl.LOCK_EX); open('held', 'w').close()
until('end'); fcntl.lockf(f, fcntl.LOCK_UN); os.remove('held'); time.sleep(1000)" & pid=$!
        until_ '[ -e begun ]'
        tern move $pid n2 2>&1; touch go; until_ '[ -e held ]'
        tern move $pid home 2>&1 | grep -o 'locked a file'
        touch end; until_ '[ ! -e held ]'
        tern move $pid home && echo home; kill $pid"#,
    )
    .text();
    assert_eq!(text, "locked a file\nhome");
}

/// A working directory that has no name any more cannot be entered at home: the process stays, and
/// goes on.
#[test]
fn a_lost_directory_is_not_the_end() {
    let lab = shared();
    let text = at_home(
        &lab,
        r#"
        python3 -c "
import os, time
def until(name):
    while not os.path.exists(name): time.sleep(0.01)
here = os.getcwd(); open('begun', 'w').close()
until('go'); os.mkdir('d'); os.chdir('d'); os.rmdir(here + '/d'); open(here + '/lost', 'w').close()
until(here + '/back'); os.chdir(here); open('found', 'w').close(); time.sleep(1000)" & pid=$!
        until_ '[ -e begun ]'
        tern move $pid n2 2>&1; touch go; until_ '[ -e lost ]'
        tern move $pid home 2>&1 | grep -o 'working directory'
        touch back; until_ '[ -e found ]'
        tern move $pid home && echo home; kill $pid"#,
    )
    .text();
    assert_eq!(text, "working directory\nhome");
}

/// All of a family send an open file that is their node's: for that each comes home, and the others
/// stand still meanwhile. Whoever found another coming had his call fail.
#[test]
fn all_come_home_at_once() {
    let lab = shared();
    let text = at_home(
        &lab,
        r#"
        echo content > file
        cat > takes.py <<'END'
import socket
s = socket.socket(socket.AF_UNIX); s.bind('s'); s.listen(64); open('ready', 'w').close()
while True:
    c, _ = s.accept()
    data, fds, _, _ = socket.recv_fds(c, 16, 1)
    c.send(b'%d' % len(fds))
    for fd in fds: __import__('os').close(fd)
    c.close()
END
        cat > sends.py <<'END'
import os, socket, time
while not os.path.exists('go'): time.sleep(0.01)
file = os.open('file', os.O_RDONLY); wrong = 0
for round in range(8):
    begin, start = os.pipe(); children = []
    for n in range(5):
        pid = os.fork()
        if pid == 0:
            os.close(start); c = socket.socket(socket.AF_UNIX); c.connect('s'); os.read(begin, 1)
            try: socket.send_fds(c, [b'x'], [file]); os._exit(0 if c.recv(1) == b'1' else 2)
            except OSError: os._exit(1)
        children.append(pid)
    os.close(begin); os.close(start)
    wrong += sum(os.waitpid(pid, 0)[1] != 0 for pid in children)
print(wrong, 'wrong')
END
        python3 takes.py & server=$!
        until_ '[ -e ready ]'
        python3 sends.py > said & pid=$!
        tern move $pid n2; touch go; wait $pid; cat said; kill $server"#,
    )
    .text();
    assert_eq!(text, "0 wrong");
}

/// Lists what is in a directory that it has open since before it had a child, whenever it is told
/// to; so does the child. Both say who they are first.
const LISTERS: &str = r#"
cat > listers.pl <<'END'
$| = 1; opendir(my $dir, "dir") or die; open(my $place, "<", "dir") or die;
my $name = fork() ? "parent" : "child";
# What they share, they use in turn.
open(my $said, ">", "$name.said"); select($said); $| = 1; print "$$\n";
for my $n (1 .. 3) {
    select(undef, undef, undef, 0.01) until -e "go$n.$name";
    rewinddir($dir); my @all = sort grep { !/^\./ } readdir($dir);
    print "$n: @all", -d $place ? "" : " and no directory", "\n";
}
sleep 100
END
mkdir dir; touch dir/a dir/b
begun() { lines parent.said 1; lines child.said 1; pid=$(cat parent.said); child=$(cat child.said); }
go() { for name in parent child; do touch go$1.$name; lines $name.said $(($1 + 1)); done; }
"#;

/// A directory is one wherever who has it open is: that others have it too does not matter.
#[test]
fn directories_in_common() {
    let lab = shared();
    let text = at_home(
        &lab,
        &format!(
            r#"{LISTERS}
        perl listers.pl & begun
        tern move $child n2 2>&1; go 1; touch dir/c; tern move $child n3 2>&1; tern move $pid n2 2>&1; go 2
        tern move $child home 2>&1; tern move $pid home 2>&1; go 3
        kill $pid $child; tail -n +2 child.said; tail -n +2 parent.said"#
        ),
    )
    .text();
    let expected = ["1: a b", "2: a b c", "3: a b c"].repeat(2).join("\n");
    assert_eq!(text, expected);
}

/// Likewise of a placed program's, of which one goes home alone; and directories are passed on to
/// placed programs.
#[test]
fn directories_of_placed_families() {
    let lab = shared();
    let text = at_home(
        &lab,
        &format!(
            r#"{LISTERS}
        tern run --on n2 perl listers.pl & begun
        go 1; tern move $child home 2>&1; touch dir/c; go 2; tern move $child n2 2>&1; tern move $pid n3 2>&1; go 3
        kill $pid $child; tail -n +2 child.said; tail -n +2 parent.said
        tern run --on n2 -- bash -c 'echo /dev/fd/5/*; cd /dev/fd/5 && pwd -P' 5< dir | sed "s:$PWD/::""#
        ),
    )
    .text();
    let expected = ["1: a b", "2: a b c", "3: a b c"].repeat(2).join("\n");
    assert_eq!(text, format!("{expected}\n/dev/fd/5/a /dev/fd/5/b /dev/fd/5/c\ndir"));
}
