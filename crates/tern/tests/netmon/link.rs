//! A link that is full.

use crate::{Recording, detail, on_first};

/// More is sent than the link of n1 carries: its token bucket is full, and that is said.
#[test]
fn a_limited_link_is_named_as_full() {
    let text = on_first(
        r#"
        cat > send.py <<'END'
import socket, time
to = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while True:
    try: to.sendto(b"x" * 1400, ("NODE", 9))
    except OSError: pass
    time.sleep(0.0002)
END
        sed -i "s/NODE/$(getent hosts n2 | cut -d ' ' -f 1)/" send.py
        python3 send.py & job=$!
        tern netmon -t 3 --layers discipline,device,backlog --json
        kill $job"#,
    );
    let recording = Recording::read(&text);
    let buckets = recording.objects("discipline", |object| detail(object, "kind") == Some("tbf"));
    let bucket = buckets[0];
    let (limit, bytes) = (recording.values(bucket, "byte_limit"), recording.values(bucket, "bytes"));
    let peak = bytes.iter().max().copied().unwrap();
    assert!(peak > limit[0] * 3 / 4 && peak <= limit[0] + 2000, "{peak} of {limit:?}");
    assert!(recording.values(bucket, "drops").last() > Some(&0));
    let findings = recording.findings(bucket);
    assert!(findings.iter().any(|finding| finding == "bytes link-full"), "{findings:?}");
    let devices = recording.objects("device", |object| object["name"] == "eth0");
    assert!(recording.values(devices[0], "tx_total").len() > 10);
}
