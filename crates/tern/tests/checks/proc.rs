//! /proc in a room: the home's, with the room's own processes in it.

use super::{at_home, shared};

/// The same is printed natively and placed.
fn same(script: &str) -> String {
    let lab = shared();
    let native = at_home(&lab, &script.replace("PLACED", "")).text();
    let placed = at_home(&lab, &script.replace("PLACED", "placed ")).text();
    assert_eq!(native, placed, "{script}");
    native
}

#[test]
fn processes_of_home_are_seen() {
    let said = same(
        "sleep 8642 & export P=$!; PLACED bash -c 'pgrep -x sleep | grep -c \"^$P\\$\"; cat /proc/$P/comm; tr \"\\0\" \" \" < /proc/$P/cmdline; \
         readlink /proc/$P/exe; ls /proc/$P/task | grep -c \"^$P\"; grep -c . /proc/$P/maps > /dev/null && echo maps; ps -o comm=,args= -p $P; kill $P'; wait $P; echo $?",
    );
    assert!(said.starts_with("1\nsleep\nsleep 8642 ") && said.ends_with("143"), "{said}");
}

#[test]
fn a_family_sees_itself() {
    same(
        "PLACED bash -c 'sleep 7 & until grep -qx sleep /proc/$!/comm; do :; done; pgrep -P $$ sleep | wc -l; ps -o ppid= -p $! | grep -c \"^ *$$\\$\"; ps -o stat=,comm= -p $!; kill -STOP $!; \
         until grep -q \"^State:.T\" /proc/$!/status; do :; done; ps -o stat= -p $!; kill -KILL $!; wait $! 2> /dev/null; echo $?'",
    );
    same(
        "PLACED bash -c '[ $(readlink /proc/self) != $$ ]; echo $?; grep -E \"^(Name|State|Seccomp|NoNewPrivs|Uid|Groups|CapEff|TracerPid):\" /proc/self/status'",
    );
    same(
        "PLACED sh -c 'readlink /proc/self/exe /proc/$$/cwd /proc/self/root | sed s,/tmp/tmp.*,TMP,; cat /proc/self/cgroup /proc/self/mountinfo | head -n 5'",
    );
    same(
        "PLACED python3 -c 'import os; me = os.getpid(); stat = open(\"/proc/self/stat\").read().rsplit(\")\", 1)[1].split(); \
         print(stat[0], int(stat[1]) == os.getppid(), int(stat[2]) == os.getpgrp(), int(stat[3]) == os.getsid(0)); \
         print(os.path.realpath(\"/proc/self\") == f\"/proc/{me}\", str(me) in os.listdir(\"/proc\"), os.listdir(\"/proc/self/task\") == [str(me)])'",
    );
}

#[test]
fn descriptors_are_called_as_at_home() {
    let said = same(
        "PLACED sh -c 'readlink /proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/3' < /dev/null 3< /etc/passwd | sed 's/[0-9][0-9]*/N/'",
    );
    assert_eq!(said, "/dev/null\npipe:[N]\n/etc/passwd");
    // And they still lead to what is open, whatever it is called.
    same(
        "rm -f gone; PLACED bash -c 'exec 4<> gone; rm gone; echo kept >&4; cat /proc/self/fd/4; cat < <(echo substituted); echo out > /dev/stdout; cat /dev/fd/0' < /etc/hostname",
    );
}

#[test]
fn others_see_what_they_may() {
    let as_user = |script: &str| same(&format!("setpriv --reuid=1001 --regid=1001 --clear-groups PLACED {script}"));
    as_user(
        "sh -c 'cat /proc/1/comm; cat /proc/1/environ 2> /dev/null; echo $?; ls /proc/1/fd > /dev/null 2>&1; echo $?; readlink /proc/1/exe; echo $?'",
    );
    as_user(
        "sh -c 'cut -d \" \" -f 26-30 /proc/1/stat; cat /proc/self/environ | wc -c > /dev/null; ls /proc/self/fd | head -n 3'",
    );
    same(
        "PLACED sh -c 'echo 5 > /proc/self/oom_score_adj; cat /proc/self/oom_score_adj; cat /proc/sys/net/core/somaxconn /proc/sys/kernel/hostname; head -n 1 /proc/net/tcp; ls -d /proc/[a-z]*'",
    );
    same("PLACED sh -c 'cat /proc/none /proc/999999/stat 2>&1; ls -a / /proc/self/task > /dev/null; echo $?'");
}
