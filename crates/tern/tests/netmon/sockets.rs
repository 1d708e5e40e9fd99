//! Queues of sockets.

use crate::{Recording, detail, on_first};

/// A receive queue that nobody reads is flat at its limit, and its cause is named; so is that of
/// the sender.
#[test]
fn a_receive_queue_that_nobody_reads_is_flat_at_its_limit() {
    let text = on_first(
        r#"
        cat > flat.py <<'END'
import os, select, socket
server = socket.socket(); server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
server.bind(("127.0.0.1", 0)); server.listen()
sender = socket.socket(); sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 200000)
sender.connect(server.getsockname()); receiver = server.accept()[0]
sender.setblocking(False)
while True:
    try: sender.send(b"x" * 10000)
    except BlockingIOError:
        open("draft", "w").write(str(server.getsockname()[1])); os.rename("draft", "port")
        select.select([], [], [], 0.05)
END
        python3 flat.py & job=$!
        until_ '[ -e port ]'
        echo "port $(cat port)"
        until_ 'before=$(cat /proc/net/tcp); sleep 0.5; [ "$before" = "$(cat /proc/net/tcp)" ]'
        tern netmon -t 2 -p $job --json
        kill $job"#,
    );
    let port = text.lines().find_map(|line| line.strip_prefix("port ")).unwrap();
    let recording = Recording::read(&text);
    let is_at = |which: &'static str| {
        let end = format!("127.0.0.1:{port}");
        move |object: &serde_json::Value| {
            detail(object, which) == Some(&end) && detail(object, "remote") != Some("0.0.0.0:0")
        }
    };
    let (receivers, senders) =
        (recording.objects("socket", is_at("local")), recording.objects("socket", is_at("remote")));
    let (receiver, sender) = (receivers[0], senders[0]);
    let (limit, memory) = (recording.values(receiver, "rx_limit"), recording.values(receiver, "rx_memory"));
    // The kernel doubles what was asked for.
    assert_eq!(limit, [131_072]);
    assert!(memory.iter().all(|bytes| *bytes >= limit[0] * 3 / 4), "{memory:?}");
    assert_eq!(recording.values(receiver, "rx_bytes").len(), 1, "it is flat");
    assert_eq!(recording.findings(receiver), ["rx_memory receiver-does-not-read"]);
    assert_eq!(recording.findings(sender), ["tx_memory receiver-does-not-read"]);
    assert!(recording.values(sender, "tx_bytes")[0] > 100_000);
}

/// Datagrams and Unix sockets: what waits in them is seen, by questions and by duplicates alike.
#[test]
fn all_kinds_of_sockets_are_seen_in_both_ways() {
    let text = on_first(
        r#"
        cat > kinds.py <<'END'
import os, socket, time
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); udp.bind(("127.0.0.1", 0))
for n in range(5): udp.sendto(b"x" * 1000, udp.getsockname())
a, b = socket.socketpair(); a.send(b"y" * 3000)
server = socket.create_server(("127.0.0.1", 0)); client = socket.create_connection(server.getsockname())
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
open("draft", "w").close(); os.rename("draft", "ready")
time.sleep(60)
END
        python3 kinds.py & job=$!
        until_ '[ -e ready ]'
        for hold in never always; do echo "-- $hold"; tern netmon -t 0.5 -p $job --layers socket --hold $hold --json; done
        kill $job"#,
    );
    for part in text.split("-- ").skip(1) {
        let recording = Recording::read(part);
        let peak = |protocol: &str, column: &str| {
            let objects = recording.objects("socket", |object| detail(object, "protocol") == Some(protocol));
            objects.into_iter().flat_map(|object| recording.values(object, column)).max()
        };
        assert!(peak("udp", "rx_memory") >= Some(5000), "{part}");
        assert_eq!(peak("unix", "rx_bytes"), Some(3000), "{part}");
        assert_eq!(peak("tcp", "accepts"), Some(1), "{part}");
        assert_eq!(peak("raw", "rx_memory"), Some(0), "{part}");
    }
}
