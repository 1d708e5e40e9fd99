//! Moves as `tern move` makes them, without starting it each time.

use std::path::Path;

use control_protocol::codec::encode;
use control_protocol::moves::{HopReport, MoveOptions};
use control_protocol::tool::{Answer, Assembly, PACKET_BYTES, REQUEST_BYTES, Request};
use lab::Lab;

/// Moves process `pid` of n1 to a node or `home`; else the reason in words.
pub fn move_to(lab: &Lab, pid: i32, place: &str, wish: MoveOptions) -> Result<Vec<HopReport>, String> {
    let to = (place != "home").then(|| place.to_owned());
    let socket = control_protocol::paths::daemon_socket(&lab.root("n1").unwrap().join("run/tern"));
    let socket = packet::connect(&socket).map_err(|e| format!("no daemon: {e}"))?;
    packet::set_timeout(&socket, Some(std::time::Duration::from_secs(60))).map_err(|e| e.to_string())?;
    let request = encode(&Request::Move { pid, to, wish, like: None }, REQUEST_BYTES).unwrap();
    packet::send(&socket, &request, &[]).map_err(|e| format!("asking: {e}"))?;
    let mut assembly = Assembly::default();
    loop {
        let packet = packet::receive(&socket, PACKET_BYTES).map_err(|e| format!("no answer: {e}"))?;
        match assembly.take(&packet.bytes).map_err(|e| e.to_string())? {
            Some(Answer::Failed { reason, .. }) => return Err(reason),
            Some(Answer::Progress(_)) => {}
            Some(Answer::Moved { legs }) => return Ok(legs),
            Some(other) => return Err(format!("an odd answer: {other:?}")),
            None if packet.bytes.is_empty() => return Err("the daemon closed the connection".into()),
            None => {}
        }
    }
}

/// The processes of n1 whose command line has this word, by their numbers there.
pub fn processes_of(lab: &Lab, word: &Path) -> Vec<i32> {
    let word = word.to_str().unwrap().as_bytes();
    let names = |pid: &i32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.split(|b| *b == 0).any(|w| w == word)
    };
    let inner = |pid: i32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        status.lines().find_map(|l| l.strip_prefix("NSpid:"))?.split_whitespace().last()?.parse().ok()
    };
    lab.processes("n1").unwrap().into_iter().filter(names).filter_map(inner).collect()
}
