//! Silence on a socket keeps nobody out, and nobody waits for ever for a daemon that hangs.

use std::collections::VecDeque;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lab::Lab;

use crate::common;
use crate::support::{at_home, wait_for};

/// More than a daemon serves at once.
const SILENT: usize = 600;
/// A daemon that is flooded answers members within this time; generous, because the machine may be
/// busy.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);

fn daemon_pid(lab: &Lab, node: &str) -> i32 {
    let said = lab.exec(node, ["tern", "status", "--json"]).unwrap().text();
    let pid = said.lines().find_map(|line| line.trim().strip_prefix("\"pid\": ")?.trim_end_matches(',').parse().ok());
    pid.unwrap_or_else(|| panic!("{said}"))
}

#[test]
fn silent_connections_keep_no_member_out() {
    let lab = common::lab_of(&common::options(2));
    let address = lab.exec("n2", ["tern", "status", "--json"]).unwrap().text();
    let address =
        address.lines().find_map(|line| Some(line.trim().strip_prefix("\"address\": \"")?.trim_end_matches("\",")));
    let address: SocketAddr = address.unwrap().parse().unwrap();
    let (stop, opened) = (AtomicBool::new(false), AtomicUsize::new(0));
    let answered = std::thread::scope(|scope| {
        scope.spawn(|| lab.in_network("n2", || flood(address, &stop, &opened)).unwrap());
        wait_for("the flood", || opened.load(Ordering::Relaxed) > SILENT);
        let begun = Instant::now();
        let said = at_home(&lab, "tern run --on n2 -- echo placed; tern doctor n2 > doctor; cat doctor");
        stop.store(true, Ordering::Relaxed);
        assert!(said.text().starts_with("placed"), "{} {}", said.text(), said.errors());
        begun.elapsed()
    });
    assert!(answered < ANSWERED_WITHIN, "{answered:?}");
}

/// Opens connections and says nothing on them, as fast as it can; keeps the last ones open.
fn flood(address: SocketAddr, stop: &AtomicBool, opened: &AtomicUsize) {
    let mut kept = VecDeque::new();
    while !stop.load(Ordering::Relaxed) {
        let Ok(connection) = TcpStream::connect_timeout(&address, Duration::from_millis(200)) else { continue };
        opened.fetch_add(1, Ordering::Relaxed);
        kept.push_back(connection);
        if kept.len() > SILENT {
            kept.pop_front();
        }
    }
}

#[test]
fn the_tool_does_not_wait_for_ever_for_a_daemon_that_is_stopped() {
    let lab = common::lab_of(&common::options(2));
    let daemon = daemon_pid(&lab, "n1");
    let script = format!(
        r#"
        sleep 1000 & mine=$!
        kill -STOP {daemon}
        for what in "ps" "nodes" "status" "run -- true" "move $mine n2" "policy show"; do
            timeout 20 env TERN_TIMEOUT=500ms tern $what; echo "status $?"
        done
        timeout 20 tern --timeout 300ms ps; echo "status $?"
        # Until nobody more is let wait for the daemon.
        for n in $(seq 300); do tern --timeout 20s ps & done 2> many
        sleep 0.5
        timeout 20 tern --timeout 300ms ps; echo "status $?"
        kill -CONT {daemon}; kill $mine; wait"#
    );
    let output = at_home(&lab, &script);
    let (text, errors) = (output.text(), output.errors());
    assert_eq!(text.matches("status 1").count(), 8, "{text}\n{errors}");
    assert!(text.contains("status 125"), "{text}");
    assert!(errors.matches("ternd does not answer").count() >= 8, "{errors}");
    assert!(errors.contains("tern doctor") && errors.contains("tern.log"), "{errors}");
    wait_for("the daemon to answer again", || lab.exec("n1", ["tern", "ps"]).unwrap().status.success());
}
