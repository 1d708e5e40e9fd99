//! How well the period is kept.

use serde_json::Value;

use crate::{Beside, Recording, run};

/// 100 us are enough for 10 sockets, and for 100, whose descriptors are duplicated. How often a
/// sample came late depends on who else wants processors, and is printed.
#[test]
fn a_period_of_100_us_is_enough_for_100_sockets() {
    let text = run(
        r#"
        cat > many.py <<'END'
import os, socket, sys, time
server = socket.create_server(("127.0.0.1", 0), backlog=200)
pairs = [(socket.create_connection(server.getsockname()), server.accept()[0]) for _ in range(int(sys.argv[1]) // 2)]
open("draft", "w").close(); os.rename("draft", "ready")
while True:
    for one, other in pairs: one.send(b"x" * 100)
    time.sleep(0.001)
    for one, other in pairs: other.recv(100)
END
        for count in 10 100; do
            rm -f ready; python3 many.py $count & job=$!
            until_ '[ -e ready ]'
            echo "-- $count"; tern netmon -t 3 --rt -p $job --layers socket --json
            tern netmon -t 0.2 -p $job -s | grep overlapped
            kill $job
        done"#,
        Beside::Nothing,
    );
    for part in text.split("-- ").skip(1) {
        let recording = Recording::read(part);
        let end = recording.of_type("end").next().unwrap();
        let fast: &Value = &end["fast"];
        let number = |name: &str| fast[name].as_u64().unwrap();
        let mean_us = number("work_ns") as f64 / number("samples") as f64 / 1000.0;
        println!(
            "{} sockets: mean {mean_us:.1} us, {:.2} % overlapped, longest extra time {} us, own CPU time {} ms in 3 s",
            part.lines().next().unwrap(),
            end["fast_overlapped_percent"].as_f64().unwrap(),
            number("extra_max_ns") / 1000,
            end["cpu_us"].as_u64().unwrap() / 1000,
        );
        assert!(mean_us < 100.0, "a sample takes {mean_us} us");
        assert!(
            part.lines().any(|line| line.starts_with("fast (sockets): ") && line.contains("% overlapped the period"))
        );
        let changed =
            recording.objects("socket", |_| true).into_iter().filter(|o| recording.values(*o, "rx_bytes").len() > 10);
        assert!(changed.count() >= 5);
    }
}
