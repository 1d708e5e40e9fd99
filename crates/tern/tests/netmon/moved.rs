//! Queues of tern itself: a moved process, its stream, and the link that the stream goes by.

use crate::{Options, Recording, TOOLS, common, detail};

/// Bandwidth of the nodes' links, bits per second: less than a program sends.
const RATE_BITS: u64 = 30_000_000;

/// Reads all that comes, until there is a file `halt`.
const READER: &str = r#"
import os, socket, time
server = socket.create_server(("127.0.0.1", 0))
open("draft", "w").write(str(server.getsockname()[1])); os.rename("draft", "port")
receiver, count = server.accept()[0], 0
while True:
    receiver.recv(65536)
    count += 1
    if count % 50 == 0:
        while os.path.exists("halt"): time.sleep(0.1)
"#;

const SENDER: &str = r#"
import socket
sender = socket.create_connection(("127.0.0.1", int(open("port").read())))
while True: sender.send(b"x" * 65536)
"#;

/// More comes for a moved process than its link carries: the relay is named as saturated. Then the
/// process reads no more: that is the cause from then on. A process that waits for a call of home
/// is shown with it.
#[test]
fn a_saturated_relay_is_named_as_such() {
    let options = Options { rate_bits: Some(RATE_BITS), ..common::options(2) };
    let lab = common::lab_of(&options);
    let script = format!(
        r#"
        cd $(mktemp -d) && chmod 755 .
        {TOOLS}
        cat > reader.py <<'END'{READER}END
        cat > sender.py <<'END'{SENDER}END
        mkfifo queue; exec 9<> queue
        python3 reader.py & reader=$!
        cat queue > /dev/null & waiter=$!
        until_ '[ -e port ]'
        python3 sender.py & sender=$!
        for pid in $reader $waiter; do until_ "tern move $pid n2 > moved 2>&1"; done
        echo "reader $reader"; echo "waiter $waiter"
        tern netmon -t 100 --json --layers link,stream,guest -p $reader -p $waiter > said & netmon=$!
        is_named() {{ grep "\"cause\":\"$1\"" said | grep -q to_room_bytes; }}
        until_ 'is_named relay-saturated'
        touch halt
        until_ 'is_named receiver-does-not-read'
        kill $reader $sender $waiter
        until_ "grep -q 'process $waiter has ended, or has left' said"
        kill $netmon; wait $netmon; cat said"#
    );
    let output = lab.exec("n1", ["timeout", "170", "bash", "-c", &script]).unwrap();
    assert!(output.status.success(), "{}\n{}", output.text(), output.errors());
    let text = output.text();
    let pid = |name: &str| -> i64 { text.lines().find_map(|line| line.strip_prefix(name)).unwrap().parse().unwrap() };
    let (reader, waiter, recording) = (pid("reader "), pid("waiter "), Recording::read(&text));
    let streams = recording.objects("stream", |object| object["pid"] == reader && detail(object, "node") == Some("n2"));
    let (stream, window) = (streams[0], recording.values(streams[0], "window_bytes")[0]);
    let peak = |column: &str| recording.values(stream, column).into_iter().max().unwrap();
    assert!(peak("to_room_bytes") >= window * 3 / 4 && peak("to_room_bytes") <= window, "{window}");
    assert!(peak("unread_bytes") >= peak("to_room_bytes") && peak("taken_bytes") > 1_000_000);
    let findings = recording.findings(stream);
    assert!(findings.contains(&"to_room_bytes relay-saturated".to_owned()), "{findings:?}");
    assert!(findings.contains(&"to_room_bytes receiver-does-not-read".to_owned()), "{findings:?}");
    let links = recording.objects("link", |object| detail(object, "node") == Some("n2"));
    let (bytes, relay) = (recording.values(links[0], "frame_bytes"), recording.values(links[0], "relay_bytes"));
    assert!(bytes.last() > Some(&1_000_000) && relay.iter().max() >= Some(&(window * 3 / 4)), "{bytes:?} {relay:?}");
    let guests = recording.objects("guest", |object| object["pid"] == waiter);
    assert!(recording.values(guests[0], "calls_under_way").contains(&1), "{text}");
    assert!(recording.values(guests[0], "standins")[0] >= 1);
}
