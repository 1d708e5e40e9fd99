//! The live table for people, and Prometheus' text for programs.

use crate::on_first;

/// The text for Prometheus: each line is well formed, and the maximum is that since the last time.
#[test]
fn prometheus_gets_maxima_and_quantiles() {
    let text = on_first(
        r#"
        python3 - <<'END' & job=$!
import os, socket, time
a, b = socket.socketpair()
open("draft", "w").close(); os.rename("draft", "ready")
while True:
    a.send(b"x" * 3000); time.sleep(0.01); b.recv(3000)
END
        until_ '[ -e ready ]'
        tern netmon -t 1 --prometheus=node.prom -p $job --layers socket,device lo
        kill $job
        ls; cat node.prom"#,
    );
    // The draft is gone.
    assert!(text.lines().any(|line| line == "node.prom") && !text.contains("node.prom.draft"), "{text}");
    let values: Vec<&str> = text.lines().filter(|line| line.starts_with("tern_netmon_")).collect();
    let is_well_formed = |line: &&&str| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        value.parse::<f64>().is_ok() && (!name.contains('{') || name.ends_with("\"}"))
    };
    assert_eq!(values.iter().filter(is_well_formed).count(), values.len(), "{text}");
    let most = |name: &str| {
        let of = values.iter().filter(|line| line.starts_with(&format!("{name}{{")));
        of.map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).max()
    };
    assert_eq!(most("tern_netmon_socket_rx_bytes_max"), Some(3000), "{text}");
    assert_eq!(most("tern_netmon_socket_rx_bytes_quantile"), Some(3000), "{text}");
    assert!(most("tern_netmon_device_rx_total_total").is_some(), "{text}");
}

/// Types keys on a terminal, and waits for what the screen must show then.
const TYPIST: &str = r#"
import fcntl, os, pty, struct, sys, termios
child, screen = pty.fork()
if child == 0: os.execvp("tern", ["tern", "netmon", "-t", "100", "-p", sys.argv[1]])
fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 120, 0, 0))
def shows(wanted):
    seen = b""
    while wanted not in seen: seen += os.read(screen, 65536)
    print("saw", wanted.decode(), flush=True)
shows(b"s sort (layer)")
os.write(screen, b"s"); shows(b"s sort (fill)")
shows(b'#' * 4)
os.write(screen, b"fno such queue\r"); shows(b"f filter (no such queue")
os.write(screen, b"\x1b"); shows(b"f filter  ")
os.write(screen, b" "); shows(b"(frozen)")
os.write(screen, b" "); shows(b"space freezes")
os.write(screen, b"q")
seen = b""
try:
    while part := os.read(screen, 65536): seen += part
except OSError: pass
assert b"own CPU time" in seen
print("ended", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"#;

#[test]
fn keys_sort_filter_and_freeze_the_live_table() {
    let text = on_first(&format!(
        r#"
        cat > type.py <<'END'{TYPIST}END
        python3 - <<'END' & job=$!
import os, socket, time
a, b = socket.socketpair()
a.setblocking(False)
try:
    while True: a.send(b"x" * 1000)
except BlockingIOError: pass
open("draft", "w").close(); os.rename("draft", "ready")
time.sleep(100)
END
        until_ '[ -e ready ]'
        timeout 60 python3 type.py $job
        kill $job"#
    ));
    assert!(text.contains("saw ####") && text.trim_end().ends_with("ended 0"), "{text}");
}
