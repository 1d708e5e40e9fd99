//! Queues of sockets.

use crate::{Recording, common, detail, on_first};

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
        lengths() { grep ":$(printf %04X $(cat port)) " /proc/net/tcp | cut -c 1-60 | cut -d : -f 2-; }
        until_ 'before=$(lengths); sleep 0.5; [ "$before" = "$(lengths)" ]'
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
    assert_eq!(recording.values(receiver, "rx_bytes").len(), 1, "it is flat: {text}");
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

/// A duplicate is a reference to the socket: when its owner closes it, the other end must see that
/// soon, and not when netmon ends.
#[test]
fn a_duplicate_does_not_keep_a_connection_open() {
    let text = on_first(
        r#"
        cat > close.py <<'END'
import os, socket, time
server = socket.create_server(("127.0.0.1", 0)); one = socket.create_connection(server.getsockname()); other = server.accept()[0]
open("draft", "w").close(); os.rename("draft", "ready")
while not os.path.exists("go"): time.sleep(0.01)
start = time.time(); one.close(); assert other.recv(1) == b""
print("closed", time.time() - start, flush=True)
END
        python3 close.py & job=$!
        until_ '[ -e ready ]'
        # A shell has commands in the background ignore SIGINT.
        env --default-signal=INT tern netmon -t 60 -p $job --hold always --layers socket --json > said & netmon=$!
        until_ 'grep -q tx_bytes said'
        # The duplicates are there.
        [ $(ls -l /proc/$netmon/fd | grep -c socket:) -ge 3 ] || exit 7
        touch go; wait $job; kill -INT $netmon; wait $netmon; tail -1 said"#,
    );
    let seconds: f64 = text.lines().find_map(|line| line.strip_prefix("closed ")).unwrap().parse().unwrap();
    println!("the other end saw it after {seconds:.4} s");
    assert!(seconds < 10.0, "{seconds}");
    let recording = Recording::read(&text);
    let end = recording.of_type("end").next().unwrap();
    assert!(end["elapsed_us"].as_u64() < Some(50_000_000), "an interrupt ends it");
}

/// A small send buffer on a slow link; and a receiver in another network, which is seen as well.
#[test]
fn a_send_queue_at_the_limit_of_its_socket_is_named() {
    if !["unshare", "nsenter", "tc", "ip"].iter().all(|program| common::is_installed(program)) {
        skip::test("iproute2 or util-linux is missing");
        return;
    }
    let text = on_first(
        r#"
        unshare -n sleep 100 & other=$!
        until_ '[ "$(readlink /proc/$other/ns/net)" != "$(readlink /proc/self/ns/net)" ]'
        inside() { nsenter -t $other -n "$@"; }
        ip link add limited0 type veth peer name limited1 netns $other
        ip address add 10.99.0.1/24 dev limited0; ip link set limited0 up
        inside ip address add 10.99.0.2/24 dev limited1; inside ip link set limited1 up
        tc qdisc add dev limited0 root tbf rate 2mbit burst 5kb limit 200kb
        cat > receive.py <<'END'
import os, socket
server = socket.create_server(("10.99.0.2", 4000))
open("draft", "w").close(); os.rename("draft", "ready")
receiver = server.accept()[0]
while receiver.recv(100000): pass
END
        cat > send.py <<'END'
import socket
sender = socket.socket(); sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 20000)
sender.connect(("10.99.0.2", 4000))
while True: sender.send(b"x" * 100000)
END
        nsenter -t $other -n python3 receive.py & receiver=$!
        until_ '[ -e ready ]'
        python3 send.py & sender=$!
        echo "sender $sender"; echo "receiver $receiver"
        tern netmon -t 3 -p $sender -p $receiver --json limited0
        kill $sender $receiver $other"#,
    );
    let recording = Recording::read(&text);
    let connection = |whose: &str| {
        let pid: i64 = text.lines().find_map(|line| line.strip_prefix(whose)).unwrap().parse().unwrap();
        recording.objects("socket", |o| o["pid"] == pid && !o["name"].as_str().unwrap().contains("listens"))[0]
    };
    let (sender, receiver) = (connection("sender "), connection("receiver "));
    assert_eq!(recording.findings(sender), ["tx_memory socket-limit"]);
    assert!(!recording.values(receiver, "rx_bytes").is_empty());
    assert_eq!(recording.findings(receiver), [""; 0]);
}
