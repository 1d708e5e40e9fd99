//! Tests that hang: when to stop waiting for them, and what can be said of them then.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// A program that has ended says no more, whoever else holds its output open.
const AFTER_ITS_END: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(500);
/// At most so many threads are shown.
const THREADS_MAX: usize = 300;
/// Fields of `/proc/PID/stat` (proc_pid_stat(5)): the parent; when it was started, in ticks since
/// boot.
const PARENT_FIELD: usize = 4;
const START_FIELD: usize = 22;
/// Its children are the kernel's.
const KTHREADD: u64 = 2;

/// How a program that was watched came to its end.
pub enum Ended {
    /// The program ended by itself.
    With(ExitStatus),
    /// It was killed, as nothing had been heard of it for too long.
    Silent,
}

/// Gives `each` the lines that `child` prints until it has ended. One that is silent for `patience`
/// is killed, after `on_silence` has had a look.
pub fn lines(
    child: &mut Child,
    patience: Duration,
    mut each: impl FnMut(&str),
    on_silence: impl FnOnce(),
) -> std::io::Result<Ended> {
    let lines = reader(child.stdout.take());
    let mut heard = Instant::now();
    let mut ended: Option<(ExitStatus, Instant)> = None;
    loop {
        match lines.recv_timeout(LOOK) {
            Ok(line) => {
                heard = Instant::now();
                each(&line);
            }
            Err(RecvTimeoutError::Disconnected) => return child.wait().map(Ended::With),
            Err(RecvTimeoutError::Timeout) => {}
        }
        ended = match ended {
            None => child.try_wait()?.map(|status| (status, Instant::now())),
            some => some,
        };
        match ended {
            Some((status, since)) if since.max(heard).elapsed() > AFTER_ITS_END => return Ok(Ended::With(status)),
            None if heard.elapsed() > patience => {
                on_silence();
                child.kill()?;
                // One whose thread hangs in the kernel cannot be waited for.
                let killed = Instant::now();
                while child.try_wait()?.is_none() && killed.elapsed() < AFTER_ITS_END {
                    std::thread::sleep(LOOK);
                }
                return Ok(Ended::Silent);
            }
            _ => {}
        }
    }
}

fn reader(output: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (to, lines) = channel();
    std::thread::spawn(move || {
        let lines = output.map(BufReader::new).into_iter().flat_map(BufRead::lines);
        lines.map_while(Result::ok).try_for_each(|line| to.send(line))
    });
    lines
}

/// All that runs and was started after this process: what each thread waits in.
pub fn show_processes() {
    let own = stat("self", START_FIELD).unwrap_or(0);
    let is_newer = |pid: &String| stat(pid, START_FIELD).is_some_and(|at| at >= own);
    let is_users = |pid: &String| stat(pid, PARENT_FIELD) != Some(KTHREADD);
    let processes = numbers("/proc").filter(is_newer).filter(is_users);
    let threads = processes.flat_map(|pid| {
        let tasks = format!("/proc/{pid}/task");
        numbers(&tasks).map(move |thread| (pid.clone(), thread)).collect::<Vec<_>>()
    });
    for (pid, thread) in threads.take(THREADS_MAX) {
        println!("    {}", describe(&pid, &thread));
    }
}

fn describe(pid: &str, thread: &str) -> String {
    let read = |name: &str| {
        let bytes = fs::read(format!("/proc/{pid}/task/{thread}/{name}")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).replace('\0', " ").trim().to_owned()
    };
    let status = read("status");
    let field = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .map_or("?", |value| value.trim_start_matches(':').trim())
    };
    let command = if pid == thread { read("cmdline") } else { read("comm") };
    let call = read("syscall");
    let call = call.split(' ').take(3).collect::<Vec<_>>().join(" ");
    let stack =
        read("stack").lines().take(6).filter_map(|line| line.split(' ').nth(1).map(str::to_owned)).collect::<Vec<_>>();
    format!(
        "{pid}/{thread} parent {} state {} in {} call {call} [{}] {}",
        field("PPid"),
        field("State"),
        read("wchan"),
        stack.join(" < "),
        command.chars().take(120).collect::<String>(),
    )
}

fn stat(pid: &str, field: usize) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Behind the name, which is field 2, and may have anything in it.
    stat.rsplit_once(") ")?.1.split(' ').nth(field - 3)?.parse().ok()
}

/// The entries of a directory that are numbers.
fn numbers(directory: &str) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).filter(|name| name.parse::<u32>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn shell(script: &str) -> Child {
        Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap()
    }

    #[test]
    fn all_lines_of_a_program_are_heard() {
        let (mut child, mut heard) = (shell("echo a; echo b; exit 3"), Vec::new());
        let ended = lines(&mut child, Duration::MAX, |line| heard.push(line.to_owned()), || panic!("not silent"));
        assert!(matches!(ended.unwrap(), Ended::With(status) if status.code() == Some(3)));
        assert_eq!(heard, ["a", "b"]);
    }

    #[test]
    fn what_holds_the_output_open_is_not_waited_for() {
        let (mut child, mut heard) = (shell("sleep 1000 & echo $!"), Vec::new());
        let ended = lines(&mut child, Duration::MAX, |line| heard.push(line.to_owned()), || panic!("not silent"));
        let _ = Command::new("kill").args(&heard).status();
        assert!(matches!(ended.unwrap(), Ended::With(status) if status.success()));
    }

    #[test]
    fn fields_are_found_behind_the_name() {
        assert_eq!(stat("self", PARENT_FIELD), Some(u64::from(std::os::unix::process::parent_id())));
        assert!(stat("self", START_FIELD) >= stat("1", START_FIELD));
    }

    #[test]
    fn a_silent_program_is_killed() {
        let mut looked = false;
        let mut child = shell("exec sleep 1000");
        let ended = lines(&mut child, Duration::from_millis(1), |_| {}, || looked = true);
        assert!(matches!(ended.unwrap(), Ended::Silent));
        assert!(looked && child.try_wait().unwrap().is_some());
    }
}
