//! A node dies while its processes have streams to others: the other ends see the end of a killed
//! process, and nobody hangs.

use crate::common;

/// `star.py`: four pairs of streams; one end of each writes and reads without end, the other says
/// how it ended.
const STAR: &str = r#"
import os, signal, socket, sys, threading, time
kind, index = sys.argv[1], int(sys.argv[2])
signal.signal(signal.SIGPIPE, signal.SIG_IGN)
if kind == "tcp":
    server = socket.create_server(("127.0.0.1", 0))
    one = socket.create_connection(server.getsockname()); two = server.accept()[0]; server.close()
    a, b = (one.detach(),) * 2, (two.detach(),) * 2
elif kind == "pipe":
    (r1, w1), (r2, w2) = os.pipe(), os.pipe()
    a, b = (r1, w2), (r2, w1)
else:
    pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET if kind == "seqpacket" else socket.SOCK_STREAM)
    a, b = [(end.detach(),) * 2 for end in pair]
child = os.fork() == 0
(reader, writer), other = (b, a) if child else (a, b)
for fd in set(other): os.close(fd)
number = index + child
open("draft.%d" % number, "w").write("%d\n" % os.getpid()); os.rename("draft.%d" % number, "task.%d" % number)
def send():
    try:
        while True: os.write(writer, b"x" * 3000); time.sleep(0.001)
    except OSError: pass
threading.Thread(target=send, daemon=True).start()
total = 0
try:
    while data := os.read(reader, 5000):
        total += len(data)
        if not child and total > 100000: open("talks.%d" % index, "w").close(); total = 0
    how = "end"
except OSError as e: how = "reset" if e.errno in (104, 32) else str(e)
if not child: os.write(1, b"%s %s\n" % (kind.encode(), how.encode()))
os._exit(0)
"#;

#[test]
fn peers_of_processes_on_a_dead_node_see_their_end() {
    let lab = common::lab_of(&common::options(3));
    let tools = crate::TOOLS;
    let script = format!(
        r#"mkdir -p /tmp/star; cd /tmp/star
        {tools}
        cat > star.py <<'END'{STAR}END
        index=0
        for kind in tcp unix seqpacket pipe; do
            timeout 100 python3 star.py $kind $index >> said 2>> errors < /dev/null & all="$all $!"
            index=$((index + 2))
        done
        has_begun 8
        # One end of each on n3; the others at home, and on n2.
        for task in 1 3 5 7; do tern move $(cat task.$task) n3 || exit 1; done
        for task in 0 4; do tern move $(cat task.$task) n2 || exit 1; done
        rm -f talks.*
        # Each pair goes on talking, from where its ends are now.
        until_ '[ $(ls talks.* 2> /dev/null | wc -l) = 4 ]'
        touch away
        wait $all; echo "status $?"; sort said; cat errors >&2"#
    );
    let mut job = lab.spawn("n1", ["timeout", "120", "bash", "-c", &script]).unwrap();
    let away = lab.root("n1").unwrap().join("tmp/star/away");
    common::eventually("all have moved", || away.exists() || job.try_wait().unwrap().is_some());
    lab.kill_node("n3").unwrap();
    let output = job.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (status, said) = text.split_once('\n').unwrap_or_default();
    assert!(status == "status 0" && said.lines().count() == 4, "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.lines().all(|line| line.ends_with(" end") || line.ends_with(" reset")), "{text}");
}
