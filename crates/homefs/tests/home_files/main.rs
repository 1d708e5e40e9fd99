//! Real rooms: a process in its own user, mount and PID namespaces sees a directory of this machine
//! through `/dev/fuse`, the client, a link with random delays, and the server. A second process
//! works on the same directory as home. Needs root.
//!
//! Runner: `cargo test -p homefs --test home_files [-- NAME...]`. The same program, started anew,
//! is the room and the home of a case.

#![expect(clippy::unwrap_used, reason = "a test, which fails by panicking")]

mod agent;
mod cases;
mod link;
mod room;

use std::path::Path;
use std::process::ExitCode;

/// Two programs that exchange lines, one in the room and one at home. Each gets the directory as it
/// sees it.
struct Case {
    name: &'static str,
    home: fn(&Path, &mut agent::Peer),
    room: fn(&Path, &mut agent::Peer),
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some(role @ ("__room" | "__home" | "__room_home" | "__second")) => agent::main(role, &args[1..]),
        _ => run_all(&args.iter().filter(|a| !a.starts_with('-')).cloned().collect::<Vec<_>>()),
    }
}

fn run_all(filters: &[String]) -> ExitCode {
    if !rustix::process::geteuid().is_root() {
        println!("not run: making rooms needs root");
        return ExitCode::SUCCESS;
    }
    tracing_subscriber::fmt().with_env_filter(tracing_subscriber::EnvFilter::from_default_env()).init();
    let mut failed = 0;
    for (fs, base) in [("disk", "/var/tmp"), ("tmpfs", "/dev/shm")] {
        for case in cases::ALL {
            let name = format!("{fs}::{}", case.name);
            let asked = filters.iter().any(|f| name.contains(f.as_str()));
            // The machine's root is the same both times, some cases are for disks, and figures are
            // only for those who ask.
            let once = case.name.starts_with("root_") || case.name.starts_with("disk_");
            let once = once && fs != "disk";
            if once || !(asked || filters.is_empty() && !case.name.ends_with("bench")) {
                continue;
            }
            let began = std::time::Instant::now();
            let outcome = room::run(case, Path::new(base));
            let took_ms = began.elapsed().as_millis();
            match outcome {
                Ok(()) => println!("test {name} ... ok ({took_ms} ms)"),
                Err(why) => {
                    failed += 1;
                    println!("test {name} ... FAILED ({took_ms} ms): {why}");
                }
            }
        }
    }
    println!("{failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
