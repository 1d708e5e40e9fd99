//! A recorder that is killed.

use crate::on_first;

/// Whenever it is killed, what it has recorded can be read and drawn.
#[test]
fn a_recording_can_be_read_after_its_writer_was_killed() {
    let text = on_first(
        r#"
        python3 - <<'END' & job=$!
import socket, time
a, b = socket.socketpair()
while True:
    a.send(b"x" * 1000); time.sleep(0.0002); b.recv(1000)
END
        for wait in 0.31 0.47 0.62 0.83 1.04; do
            tern netmon -t 60 -f -p $job --layers socket,device lo > /dev/null 2>&1 & netmon=$!
            until_ '[ $(stat -c %s Netmon.dat) -gt 3000 ]'
            sleep $wait
            kill -9 $netmon; wait $netmon 2> /dev/null
            tern netmon show 2> torn | grep -c -e ' rx_bytes ' -e 'was cut off'
            # The last block is torn.
            head -c -5 Netmon.dat > torn.dat
            tern netmon show torn.dat 2>&1 | grep -c -e 'bytes are torn' -e ' rx_bytes ' -e 'was cut off'
            tern netmon plot torn.dat --into pictures 2> /dev/null | grep -c 'rx_bytes$'
            rm Netmon.dat
        done
        kill $job
        grep -l '</svg>' pictures/*rx_bytes.svg | wc -l
        echo hello > other.dat; tern netmon show other.dat 2>&1 || true"#,
    );
    let lines: Vec<&str> = text.lines().collect();
    // One of the two ends of the pair receives.
    let each = ["2", "3", "1"].repeat(5);
    assert_eq!(lines[..15], each, "{text}");
    assert_ne!(lines[15], "0");
    assert!(lines[16].ends_with("this is no recording of netmon"), "{text}");
}

/// A recording has a size that it does not exceed: it ends as a whole, and netmon goes on.
#[test]
fn a_recording_ends_at_its_limit() {
    let text = on_first(
        r#"
        python3 - <<'END' & job=$!
import socket
a, b = socket.socketpair()
while True: a.send(b"x" * 1000); b.recv(1000)
END
        tern netmon -t 100 -f --max-size 1 -p $job --layers socket > /dev/null 2> errors & netmon=$!
        until_ 'grep -q "has 1 MiB and ends here" errors'
        kill -0 $netmon && echo goes on
        kill $netmon; wait $netmon
        kill $job
        tern netmon show 2> torn | grep -c -e ' rx_bytes ' -e 'and ends here (--max-size)'
        stat -c %s Netmon.dat torn"#,
    );
    let lines: Vec<&str> = text.lines().collect();
    // One of the two ends of the pair receives.
    assert_eq!(lines[..2], ["goes on", "2"], "{text}");
    let size: u64 = lines[2].parse().unwrap();
    assert!((1 << 20..5 << 18).contains(&size) && lines[3] == "0", "{text}");
}
