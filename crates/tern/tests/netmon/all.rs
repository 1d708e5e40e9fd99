//! All nodes of a cluster in one recording.

use crate::{Options, Recording, TOOLS, common, detail};

/// A socket of n2 that nobody reads.
const UNREAD: &str = r#"
import os, socket, time
server = socket.socket(); server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
server.bind(("127.0.0.1", 0)); server.listen()
sender = socket.create_connection(server.getsockname()); receiver = server.accept()[0]
sender.setblocking(False)
end = time.time() + 60
while time.time() < end:
    try: sender.send(b"x" * 10000)
    except BlockingIOError:
        open("/tmp/full", "w").close()
        time.sleep(0.05)
"#;

/// Each node samples its part, if its owner lets the one who asks: one clock, one file.
#[test]
fn every_node_samples_its_part() {
    let options = Options { whole: true, ..common::options(3) };
    let lab = common::lab_of(&options);
    let run = |node: &str, script: String| {
        let output = lab.exec(node, ["timeout", "150", "bash", "-c", &script]).unwrap();
        assert!(output.status.success(), "{script}\n{}\n{}", output.text(), output.errors());
        output.text()
    };
    run(
        "n2",
        format!(
            r#"{TOOLS}
            cat > /tmp/unread.py <<'END'{UNREAD}END
            tern policy set netmon-by=n1
            (setsid python3 /tmp/unread.py > /dev/null 2>&1 < /dev/null &)
            until_ '[ -e /tmp/full ]'
            echo full"#
        ),
    );
    let text = run(
        "n1",
        format!(
            r#"{TOOLS}
            cd $(mktemp -d)
            until_ '[ $(tern nodes | grep -c -E "n[123]") = 3 ]'
            tern netmon --all -t 4 -d 1 -f > said 2> errors
            tern netmon show --json; tern netmon show > table; cat table said errors >&2
            grep -c '^socket *n2: tcp' table"#
        ),
    );
    let recording = Recording::read(&text);
    let of = |layer: &str, node: &str| {
        recording.objects(layer, |object| detail(object, "sampled_on") == Some(node).filter(|node| *node != "n1"))
    };
    // Both nodes' devices are there, and the node that did not allow it says so.
    assert_eq!((of("device", "n1").len(), of("device", "n2").len(), of("device", "n3").len()), (1, 1, 0), "{text}");
    let notes = recording.notes();
    let is_refused = |note: &&str| note.contains("node n3 does not sample") && note.contains("netmon-by=n1");
    assert_eq!(notes.iter().filter(|note| is_refused(note)).count(), 1, "{notes:?}");
    assert!(notes.iter().any(|note| note.starts_with("n2: own CPU time")), "{notes:?}");
    // The full queue of n2 is named by n2.
    let full = of("socket", "n2").into_iter().filter(|object| recording.values(*object, "rx_bytes").last() > Some(&0));
    let findings: Vec<String> = full.flat_map(|object| recording.findings(object)).collect();
    assert!(findings.contains(&"rx_memory receiver-does-not-read".to_owned()), "{findings:?}");
    // One clock: n2's samples lie within the time of the recording.
    let end_us = recording.of_type("end").next().unwrap()["elapsed_us"].as_u64().unwrap();
    let devices = of("device", "n2");
    let samples = recording.of_type("sample").filter(|sample| sample["object"] == devices[0]);
    let times: Vec<u64> = samples.map(|sample| sample["at_us"].as_u64().unwrap()).collect();
    assert!(times.iter().all(|at_us| *at_us > 0 && *at_us <= end_us), "{times:?} {end_us}");
}

/// The one who asked is killed: the other node ends its sampler.
#[test]
fn a_sampler_that_is_not_asked_any_more_ends() {
    let lab = common::lab_of(&Options { whole: true, ..common::options(2) });
    let run = |node: &str, script: &str| {
        let output = lab.exec(node, ["timeout", "100", "bash", "-c", &format!("{TOOLS}\n{script}")]).unwrap();
        assert!(output.status.success(), "{script}\n{}\n{}", output.text(), output.errors());
        output.text()
    };
    run("n2", "tern policy set netmon-by=n1");
    run("n1", "(setsid tern netmon --all -t 1000 -f=/tmp/all.dat > /dev/null 2>&1 < /dev/null & echo $! > /tmp/asker)");
    // The brackets keep the search from finding itself.
    let samplers = r#"$(ps ax -o args= | grep -c "netmon [-]f=-")"#;
    run("n2", &format!("until_ '[ {samplers} = 1 ]'; echo it runs"));
    run("n1", "kill -9 $(cat /tmp/asker)");
    run("n2", &format!("until_ '[ {samplers} = 0 ]'; echo it has ended"));
}

/// A node in no cluster samples itself, and says so.
#[test]
fn without_a_cluster_this_node_is_sampled() {
    let text = crate::on_first("tern netmon --all -t 0.5 --layers backlog --json");
    let recording = Recording::read(&text);
    assert!(recording.notes().iter().any(|note| note.starts_with("only this node is sampled: ")), "{text}");
    assert!(!recording.objects("backlog", |_| true).is_empty());
}
