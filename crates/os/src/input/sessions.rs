//! Graphical sessions: logind knows from the desktop whether somebody uses them, also those of
//! people who sit elsewhere.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// logind is asked again after so long.
const ASKED_EVERY: Duration = Duration::from_secs(10);
/// An answer that takes longer is not waited for.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

/// The graphical sessions of the machine.
#[derive(Debug)]
pub(super) struct Sessions {
    /// Directory in which logind lists sessions.
    directory: PathBuf,
    ids: Vec<String>,
    asked: Option<(Instant, Child)>,
    done: Option<Instant>,
}

impl Sessions {
    pub(super) fn new(directory: &Path) -> Sessions {
        Sessions { directory: directory.to_owned(), ids: Vec::new(), asked: None, done: None }
    }

    /// Asks logind now and then, without waiting for it. Gives whether the answer has come that a
    /// session is in use.
    pub(super) fn look(&mut self) -> bool {
        if let Some((begun, mut child)) = self.asked.take() {
            match child.try_wait() {
                Ok(None) if begun.elapsed() < ANSWERS_WITHIN => {
                    self.asked = Some((begun, child));
                    return false;
                }
                Ok(None) => {
                    let _ = child.kill();
                    let _ = child.wait();
                }
                _ => {
                    let mut text = String::new();
                    let read = child.stdout.take().map(|mut pipe| pipe.read_to_string(&mut text));
                    return read.is_some_and(|read| read.is_ok()) && is_used(&text);
                }
            }
        }
        self.ids = graphical(&self.directory);
        if !self.ids.is_empty() && self.done.is_none_or(|at| at.elapsed() >= ASKED_EVERY) {
            self.done = Some(Instant::now());
            let mut command = Command::new("loginctl");
            command.arg("show-session").args(&self.ids).arg("--property=IdleHint");
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
            self.asked = command.spawn().ok().map(|child| (Instant::now(), child));
        }
        false
    }

    pub(super) fn found(&self) -> Result<String, String> {
        match self.ids.is_empty() {
            true if self.directory.is_dir() => Err("none is open".into()),
            true => Err("no logind".into()),
            false => Ok(super::words::counted(&self.ids)),
        }
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        if let Some((_, mut child)) = self.asked.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Lists the sessions with a desktop. Those on terminals are watched by their terminals, at once
/// and not after logind's five minutes.
fn graphical(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let is_graphical = |path: &Path| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().any(|line| matches!(line, "TYPE=x11" | "TYPE=wayland" | "TYPE=mir"))
            && text.lines().any(|line| line == "CLASS=user")
    };
    let is_id = |name: &String| name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let mut ids: Vec<String> = entries
        .filter(|entry| is_graphical(&entry.path()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(is_id)
        .collect();
    ids.sort();
    ids
}

fn is_used(answer: &str) -> bool {
    answer.lines().any(|line| line == "IdleHint=no")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graphical_sessions_are_told_from_others() {
        let dir = std::env::temp_dir().join(format!("tern-sessions-{}", std::process::id()));
        assert_eq!(Sessions::new(&dir).found(), Err("no logind".into()));
        std::fs::create_dir_all(&dir).unwrap();
        for (id, text) in [
            ("2", "UID=1000\nCLASS=user\nTYPE=wayland\n"),
            ("3", "UID=1000\nCLASS=user\nTYPE=tty\n"),
            ("c1", "UID=110\nCLASS=greeter\nTYPE=x11\n"),
            ("2.ref", "CLASS=user\nTYPE=x11\n"),
        ] {
            std::fs::write(dir.join(id), text).unwrap();
        }
        assert_eq!(graphical(&dir), ["2"]);
        assert!(is_used("IdleHint=yes\n\nIdleHint=no\n") && !is_used("IdleHint=yes\n") && !is_used(""));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
