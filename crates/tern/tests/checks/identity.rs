//! Who a placed program is at home, by stock means.

use crate::{PYTHON, at_home, put, shared};

#[test]
fn pid_and_parent_are_those_that_ps_shows() {
    let output = at_home(
        &shared(),
        r#"
        mkfifo go
        placed sh -c 'echo $$ $PPID; read line' < go > said & pid=$!
        exec 3> go
        while ! grep -q . said; do sleep 0.01; done
        read its_pid its_parent < said
        ps -o pid=,ppid=,comm=,args= -p $pid
        echo "$its_pid $its_parent $pid $$"
        exec 3>&-
        wait $pid; echo $?"#,
    );
    let text = output.text();
    let lines: Vec<&str> = text.lines().collect();
    let ps: Vec<&str> = lines[0].split_whitespace().collect();
    let said: Vec<&str> = lines[1].split(' ').collect();
    assert_eq!(said[..2], said[2..], "as the program sees itself, and as its shell does");
    assert_eq!(ps[..3], [said[0], said[1], "sh"]);
    assert_eq!(ps[3..].join(" "), "sh -c echo $$ $PPID; read line");
    // The end of input is an error of `read`.
    assert_eq!(lines[2], "1");
}

#[test]
fn proc_shows_the_program_also_after_exec() {
    let output = at_home(
        &shared(),
        r#"
        mkfifo go
        placed sh -c 'read line; exec sleep "1000"' < go > said & pid=$!
        exec 3> go
        show() { cat /proc/$pid/comm; tr '\0' '|' < /proc/$pid/cmdline; echo; readlink -f /proc/$pid/exe; }
        # The shell that makes it is called sh, too.
        while tr '\0' '|' < /proc/$pid/cmdline | grep -vq '^sh|-c|read line' || [ "$(cat /proc/$pid/comm)" != sh ] || [ "$(readlink /proc/$pid/exe)" != "$(readlink -f /bin/sh)" ]; do sleep 0.01; done
        show
        echo >&3
        while [ "$(readlink /proc/$pid/exe)" != "$(readlink -f $(command -v sleep))" ]; do sleep 0.01; done
        while [ "$(cat /proc/$pid/comm)" != sleep ]; do sleep 0.01; done
        show
        kill $pid; wait $pid; echo $?"#,
    );
    let text = output.text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[..2], ["sh", r#"sh|-c|read line; exec sleep "1000"|"#]);
    assert_eq!(lines[3..5], ["sleep", "sleep|1000|"]);
    assert!(lines[5].ends_with("sleep") || lines[5].ends_with("coreutils"), "{}", lines[5]);
    assert_eq!(lines[6], "143");
}

/// The parent sees every exit status, and death by every signal that ends a process.
#[test]
fn the_end_is_the_programs() {
    let lab = shared();
    let program = r#"
import subprocess, sys
from concurrent.futures import ThreadPoolExecutor
def end(script): return subprocess.run(["tern", "run", "--on", "n2", "--", "sh", "-c", script], stderr=subprocess.DEVNULL).returncode
deaths = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 24, 25, 26, 27, 29, 30, 31, 34, 64]
with ThreadPoolExecutor(8) as pool:
    codes = list(pool.map(lambda code: end(f"exit {code}"), range(256)))
    signals = list(pool.map(lambda signal: end(f"kill -{signal} $$"), deaths))
wrong = [(want, got) for want, got in zip(list(range(256)) + [-s for s in deaths], codes + signals) if want != got]
print(wrong)
"#;
    let path = put(&lab, "n1", "ends.py", program.as_bytes());
    assert_eq!(at_home(&lab, &format!("{PYTHON} {path}")).text(), "[]");
}

#[test]
fn failures_of_placing_have_the_statuses_of_env() {
    let text = at_home(
        &shared(),
        r#"
        echo text > text
        for words in "--on nowhere -- true" "--on n2 -- ./text" "--on n2 -- ./none" "--on n2 -- no-such-program" "--on n2 -- /"; do
            tern run $words 2> errors; echo "$? $(wc -l < errors)"
        done"#,
    )
    .text();
    let statuses: Vec<&str> = text.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(statuses, ["125", "126", "127", "127", "126"]);
    assert!(text.lines().all(|line| !line.ends_with(" 0")), "every failure has words: {text}");
}

/// Processes are made at home, and so are the descriptors that stay there: their limits hold there.
#[test]
fn limits_are_the_deputys_too() {
    let text = at_home(
        &shared(),
        r#"
        placed bash -c 'ulimit -n 77; ulimit -u 88; echo set; exec sleep 1000' > said & pid=$!
        while ! grep -q set said; do sleep 0.01; done
        awk '/open files|Max processes/ { print $(NF - 1) }' /proc/$pid/limits
        kill $pid; wait $pid; echo $?"#,
    )
    .text();
    assert_eq!(text, "88\n77\n143");
}

/// What a program's starter blocked is blocked when it starts.
#[test]
fn masks_are_inherited() {
    let text = at_home(
        &shared(),
        r#"
        env --block-signal=USR1,34 grep SigBlk /proc/self/status
        env --block-signal=USR1,34 tern run --on n2 -- grep SigBlk /proc/self/status"#,
    )
    .text();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].ends_with("200000200") && lines[0] == lines[1], "{text}");
}
