//! `tern move`: reports progress, and handles interrupts.

use std::io::{IsTerminal as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};

use control_protocol::moves::{HopReport, MoveOptions, Pace, Progress, Stage};
use control_protocol::tool::{Answer, Request};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::Shutdown;

use crate::{Dirs, Error, Host, args, client, nodes};

/// The name of the node where a process was started.
const HOME: &str = "home";

/// The silence of the other node from which on it is reported, milliseconds.
const SILENT_FROM_MS: u64 = 1000;

/// Moves a process, and waits until the move is complete.
pub(crate) fn relocate(dirs: &Dirs, args: &args::MoveArgs, host: Host) -> Result<Vec<HopReport>, Error> {
    let to = Some(nodes::one(dirs, &args.node)?).filter(|node| node != HOME);
    let args::MoveArgs { max_freeze: max_freeze_us, any_cpu, by_home, as_root, force, alone, .. } = *args;
    let pace = Pace { rate: args.rate, buffer_bytes: args.buffer };
    let wish = MoveOptions { how: args.how.into(), max_freeze_us, any_cpu, by_home, as_root, pace, force, alone };
    let interrupts = (host.interrupts)().map_err(|source| Error::Local { what: "watch for interrupts", source })?;
    let socket = client::begin(dirs, &Request::Move { pid: args.pid, to, wish, like: None }, &[])?;
    let mut display = Display::new(args.progress);
    let mut interrupts = Some(interrupts);
    let mut stage = Stage::Prepares;
    loop {
        let came = interrupts.as_ref().map_or(Ok(First::Answer), |watched| wait(dirs, &socket, watched))?;
        if came == First::Interrupt {
            interrupts = None;
            display.clear();
            if stage == Stage::Follows {
                eprintln!("tern: process {} already runs on {}; its memory continues to follow", args.pid, args.node);
                return Ok(Vec::new());
            }
            eprintln!("tern: cancelling the move; waiting for the node on which process {} runs", args.pid);
            rustix::net::shutdown(&socket, Shutdown::Write).map_err(|e| Error::NoAnswer { source: e.into() })?;
        }
        match client::receive(dirs, &socket) {
            Ok(Answer::Progress(progress)) => {
                stage = progress.stage;
                display.warn(&progress, args);
                display.show(&progress);
            }
            Ok(Answer::Moved { legs }) => {
                display.clear();
                if interrupts.is_none() {
                    eprintln!("tern: too late to cancel the move: process {} runs on {}", args.pid, args.node);
                }
                if !args.quiet {
                    tell_of_long_freezes(args.pid, &legs);
                }
                return Ok(legs);
            }
            Ok(_) => return Err(client::unexpected()),
            Err(e) => {
                display.clear();
                return Err(e);
            }
        }
    }
}

/// Reports freezes that were so long that the user may have noticed.
fn tell_of_long_freezes(pid: i32, legs: &[HopReport]) {
    const NOTICED_US: u64 = 1_000_000;
    for leg in legs.iter().filter(|leg| leg.freeze_us >= NOTICED_US) {
        let seconds = leg.freeze_us as f64 / 1e6;
        eprintln!(
            "tern: process {pid} was frozen for {seconds:.1} s on its way to {} (see --how, --max-freeze)",
            leg.to
        );
    }
}

/// The input that arrived first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum First {
    Interrupt,
    Answer,
}

/// Waits for either input, for as long as the daemon may be silent.
fn wait(dirs: &Dirs, socket: &OwnedFd, interrupts: &OwnedFd) -> Result<First, Error> {
    let mut both = [PollFd::new(interrupts, PollFlags::IN), PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN)];
    let timeout = Timespec::try_from(dirs.timeout).ok();
    let came = rustix::io::retry_on_intr(|| poll(&mut both, timeout.as_ref()));
    match came {
        Ok(0) => Err(client::silent(dirs, std::io::ErrorKind::TimedOut.into())),
        Ok(_) if !both[0].revents().is_empty() => Ok(First::Interrupt),
        Ok(_) => Ok(First::Answer),
        Err(e) => Err(Error::NoAnswer { source: e.into() }),
    }
}

/// Progress: one line that is overwritten on a terminal; elsewhere nothing, or lines of JSON.
struct Display {
    terminal: bool,
    lines: bool,
    shown: bool,
    warned: bool,
}

impl Display {
    fn new(lines: bool) -> Display {
        Display { terminal: !lines && std::io::stderr().is_terminal(), lines, shown: false, warned: false }
    }

    fn show(&mut self, progress: &Progress) {
        if self.lines
            && let Ok(json) = serde_json::to_string(progress)
        {
            eprintln!("{json}");
        }
        if self.terminal {
            self.shown = true;
            // Return to the start of the line, and clear the rest of a longer line (ECMA-48: EL).
            eprint!("\r{}\x1b[K", line(progress));
            let _ = std::io::stderr().flush();
        }
    }

    /// Reports once that the other node does not answer, even where no progress is shown.
    fn warn(&mut self, progress: &Progress, args: &args::MoveArgs) {
        let Some(ms) = progress.silent_ms.filter(|ms| *ms >= SILENT_FROM_MS) else {
            self.warned = false;
            return;
        };
        if !std::mem::replace(&mut self.warned, true) {
            self.clear();
            let pid = args.pid;
            eprintln!(
                "tern: the other node has not answered for {} s; the move of process {pid} waits for it (Ctrl-C cancels the move)",
                ms / 1000
            );
        }
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            eprint!("\r\x1b[K");
        }
    }
}

fn line(progress: &Progress) -> String {
    let doing = match progress.stage {
        Stage::Prepares => "prepares",
        Stage::Ahead => "sends while it runs",
        Stage::Still => "sends while it is frozen",
        Stage::Follows => "runs there, memory follows",
    };
    let rest = progress.rest_s().map_or(String::new(), |s| format!(", about {s} s"));
    format!(
        "to {}: {doing}: {} sent, at most {} left, {}/s{rest}",
        progress.to,
        bytes(progress.sent_bytes),
        bytes(progress.left_bytes),
        bytes(progress.bytes_per_s)
    )
}

fn bytes(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1000, "kB")];
    let unit = UNITS.iter().find(|(size, _)| bytes >= *size);
    unit.map_or_else(|| format!("{bytes} B"), |(size, name)| format!("{:.1} {name}", bytes as f64 / *size as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_bytes_rate_and_rest() {
        let progress = Progress {
            to: "n2".into(),
            stage: Stage::Ahead,
            sent_bytes: 812_000_000,
            left_bytes: 3_250_000_000,
            bytes_per_s: 112_400_000,
            memory_per_s: 112_400_000,
            ..Progress::default()
        };
        let said = "to n2: sends while it runs: 812.0 MB sent, at most 3.2 GB left, 112.4 MB/s, about 28 s";
        assert_eq!(line(&progress), said);
        let nothing = line(&Progress { to: "home".into(), ..Progress::default() });
        assert_eq!(nothing, "to home: prepares: 0 B sent, at most 0 B left, 0 B/s");
    }
}
