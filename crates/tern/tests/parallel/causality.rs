//! A writes a file, then tells B over a stream: B never reads the old content.

use crate::{alone, at_home_within, shared};

/// `tell.py KIND TIMES`: the parent writes a number to one of several files in one of several ways,
/// and says so to its child, which must read that number, from a name and from an open file.
const TELL: &str = r#"
import os, socket, sys
kind, times = sys.argv[1], int(sys.argv[2])
for n in range(4): open("file.%d" % n, "w").write("0")
if kind == "tcp":
    server = socket.create_server(("127.0.0.1", 0))
    a = socket.create_connection(server.getsockname()); b = server.accept()[0]; server.close()
    a.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1); b.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
else: a, b = socket.socketpair()
child = os.fork() == 0
own, other = (b, a) if child else (a, b)
other.close()
open("draft.%d" % child, "w").write("%d\n" % os.getpid()); os.rename("draft.%d" % child, "task.%d" % child)
while not os.path.exists("go"): pass
if child:
    held = [open("file.%d" % n, "rb", buffering=0) for n in range(4)]
    for count in range(1, times + 1):
        assert own.recv(1) == b"!"
        n = count % 4
        named = open("file.%d" % n).read()
        held[n].seek(0)
        kept = held[n].read().decode()
        if count % 3 == 1: kept = named  # It was replaced: the open file is the old one.
        if count % 3 == 1: held[n] = open("file.%d" % n, "rb", buffering=0)
        if int(named) != count or int(kept) != count:
            print("old:", count, named, kept, flush=True); os._exit(5)
        own.send(b".")
    os._exit(0)
for count in range(1, times + 1):
    name = "file.%d" % (count % 4)
    if count % 3 == 0:
        with open(name, "w") as file: file.write(str(count))
    elif count % 3 == 1:
        with open("new", "w") as file: file.write(str(count))
        os.rename("new", name)
    else:
        fd = os.open(name, os.O_WRONLY); os.pwrite(fd, b"%-8d" % count, 0); os.ftruncate(fd, 8); os.close(fd)
    own.send(b"!")
    if own.recv(1) != b".": break
    if count % 10 == 0: open("rounds", "w").write(str(count // 10))
sys.exit(os.wait()[1] != 0)
"#;

fn tells(kind: &str, times: u32) {
    let (_alone, lab) = (alone(), shared());
    let text = at_home_within(
        &lab,
        170 + times / 10,
        &format!(
            r#"
        cat > tell.py <<'END'{TELL}END
        job python3 tell.py {kind} {times}; has_begun 2
        tern move $(cat task.0) n2 && tern move $(cat task.1) n3 || exit 1
        touch go
        wait $job; echo "status $?"; cat said errors"#
        ),
    )
    .text();
    assert_eq!(text, "status 0");
}

#[test]
fn nothing_old_is_read_after_a_word_by_tcp() {
    tells("tcp", 500);
}

#[test]
fn nothing_old_is_read_after_a_word_by_a_pair_of_sockets() {
    tells("unix", 500);
}

#[test]
#[ignore = "10,000 times take minutes: --full"]
fn nothing_old_is_read_10_000_times() {
    tells("tcp", 10_000);
    tells("unix", 10_000);
}
