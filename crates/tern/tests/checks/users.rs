//! Several users, several homes.

use crate::{PYTHON, at_home, compiled, put, shared};

/// Four users at once in one room, each with a file that is its own.
#[test]
fn no_user_reads_anothers_file() {
    let text = at_home(
        &shared(),
        &format!(
            r#"
        users="1001 1002 1003 1004"
        for user in $users; do echo "secret of $user" > file.$user; chown $user:$user file.$user; chmod 600 file.$user; done
        for user in $users; do
            setpriv --reuid $user --regid $user --clear-groups -- tern run --on n2 -- {PYTHON} -c '
import os
me = os.getuid()
for _ in range(200):
    for user in (1001, 1002, 1003, 1004):
        try:
            seen = open(f"file.{{user}}").read()
            assert user == me and seen == f"secret of {{me}}\n", (me, user, seen)
        except PermissionError:
            assert user != me, (me, user)
        try: os.stat(f"file.{{user}}")
        except OSError as e: print("stat", e)
        try: os.chmod(f"file.{{user}}", 0o600); assert user == me
        except PermissionError: assert user != me
print("right", os.getresuid(), os.getgroups())' > said.$user 2>&1 & pids="$pids $!"
        done
        for pid in $pids; do wait $pid; echo $?; done
        cat said.*"#
        ),
    )
    .text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[..4], ["0"; 4], "{text}");
    for (line, user) in lines[4..].iter().zip(1001..) {
        assert_eq!(*line, format!("right ({user}, {user}, {user}) []"), "{text}");
    }
    assert_eq!(lines.len(), 8, "{text}");
}

const WHO: &str = r#"
#include <stdio.h>
#include <sys/utsname.h>
#include <unistd.h>
int main(void) {
    struct utsname name; char line[99] = "";
    uname(&name);
    FILE *file = fopen("/tmp/mark", "r");
    if (file) fgets(line, sizeof line, file);
    printf("%s %s %d\n", name.nodename, line, getpid());
    fflush(stdout);
    getchar();
    return 0;
}
"#;

/// Every node places on every other at the same time: each guest sees its own home, and PIDs of
/// homes do not collide.
#[test]
fn every_node_is_home_and_host_at_once() {
    use std::io::{BufRead, BufReader};
    let lab = shared();
    let program = compiled("who", WHO);
    let nodes = ["n1", "n2", "n3"];
    for node in nodes {
        put(&lab, node, "who", &program);
        put(&lab, node, "mark", format!("mark of {node}").as_bytes());
    }
    let mut running = Vec::new();
    for (home, host) in
        nodes.iter().flat_map(|home| nodes.map(|host| (*home, host))).filter(|(home, host)| home != host)
    {
        let tern = if home == "n1" { lab.binary().to_str().unwrap() } else { "/bin/tern" };
        running.push((home, host, lab.spawn(home, [tern, "run", "--on", host, "--", "/tmp/who"]).unwrap()));
    }
    let seen: Vec<(String, String)> = running
        .iter_mut()
        .map(|(home, host, child)| {
            let mut line = String::new();
            BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
            (format!("{home} on {host}: {line}"), format!("{home} on {host}: {home} mark of {home} "))
        })
        .collect();
    for (_, _, child) in &mut running {
        drop(child.stdin.take());
    }
    let ends: Vec<_> = running.into_iter().map(|(_, _, child)| child.wait_with_output().unwrap()).collect();
    for ((seen, wanted), end) in seen.iter().zip(&ends) {
        assert!(seen.starts_with(wanted), "{seen:?} {:?}", String::from_utf8_lossy(&end.stderr));
        assert!(end.status.success(), "{end:?}");
    }
}

/// Programs that give rights give them away too: who executes one comes home for it, also a child
/// of vfork(2) (dash), and one that the shell becomes. Who cannot come home may not, and it is
/// never executed without its rights. (Before, they were: a room's guests gain none.)
#[test]
fn programs_that_give_rights_give_them() {
    let text = at_home(
        &shared(),
        r#"
        export TERN_QUIET=1
        as() { setpriv --reuid nobody --regid nogroup --clear-groups -- "$@"; }
        until_() { tries=0; until eval "$1" || [ $tries -gt 1000 ]; do sleep 0.01; tries=$((tries + 1)); done; }
        told() { sed 's/^\(nobody [A-Z]*\) .*/\1 .../; s/^\(Last password change\).*/\1/' | tr '\n' ' '; echo; }
        (as passwd -S nobody; as chage -l nobody | head -1) | told
        for shell in dash bash; do
            as tern run --on n2 $shell -c 'passwd -S nobody; (chage -l nobody) | head -1' 2>&1 | told
            as tern run --on n2 $shell -c 'exec passwd -S nobody' 2>&1 | told
        done
        as tern run --on n2 python3 -c 'import subprocess; subprocess.run(["passwd", "-S", "nobody"], check=True)' 2>&1 | told
        as tern run passwd -S nobody 2>&1 | told
        chmod 777 .; mkfifo -m 666 held
        as tern run --on n2 bash -c 'exec 9<> held; (passwd -S nobody; echo $?) 2>&1; (exec 9>&-; passwd -S nobody)' 2>&1 | told
        as bash -c 'until [ -e go ]; do sleep 0.01; done; passwd -S nobody; :; until [ -e end ]; do sleep 0.01; done' > said & pid=$!
        until_ 'tern move $pid n2 2> error'; touch go; until_ '[ -s said ]'; tern ps | grep -c "^$pid "; touch end; wait $pid; told < said"#,
    )
    .text();
    let (passwd, both) = ("nobody L ... ", "nobody L ... Last password change ");
    let refused = "bash: line 1: /usr/bin/passwd: Operation not permitted 126 nobody L ... ";
    let wanted = [both, both, passwd, both, passwd, passwd, passwd, refused, "1", passwd.trim_end()];
    assert_eq!(text.lines().map(|line| line.to_owned()).collect::<Vec<_>>(), wanted, "{text}");
}
