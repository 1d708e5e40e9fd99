//! Local work beside a job: programs that compile again and again, as in the paper.

use crate::Error;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A compiler under way is looked at so often.
const PAUSE: Duration = Duration::from_millis(2);

/// Compilers that run until this value ends.
pub struct Load {
    stop: Arc<AtomicBool>,
    running: Vec<JoinHandle<Vec<f64>>>,
}

/// Writes a source file of so many functions, each of which takes a compiler some milliseconds.
pub fn write_source(dir: &Path, functions: u32) -> Result<PathBuf, Error> {
    let function = |n: u32| {
        format!(
            "double f{n}(double *a, int n) {{\n double s = {n};\n for (int i = 0; i < n; i++) {{\n  \
             if (a[i] > s) s += a[i] * {n}.5; else a[i] = s / (i + {n}.25);\n  \
             for (int j = i % 7; j < n; j += 3) s -= a[j] * a[(i * {n} + j) % n];\n }}\n return s;\n}}\n"
        )
    };
    let path = dir.join("unit.c");
    let text: String = (1..=functions).map(function).collect();
    std::fs::write(&path, text).map_err(Error::system(format!("writing {}", path.display())))?;
    Ok(path)
}

impl Load {
    /// Starts so many compilers.
    pub fn start(source: &Path, count: u32) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let one = |_| {
            let (stop, source) = (Arc::clone(&stop), source.to_owned());
            std::thread::spawn(move || compile_until(&stop, &source))
        };
        let running = (0..count).map(one).collect();
        Load { stop, running }
    }

    /// Ends the compilers. Gives the times of those that came to their end, seconds.
    pub fn end(self) -> Vec<f64> {
        self.stop.store(true, Ordering::Relaxed);
        self.running.into_iter().filter_map(|thread| thread.join().ok()).flatten().collect()
    }
}

fn compile_until(stop: &AtomicBool, source: &Path) -> Vec<f64> {
    let mut times = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let mut command = Command::new("cc");
        command.args(["-O2", "-c", "-o", "/dev/null"]).arg(source);
        // In a group of its own, so that all of it can be ended.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let begun = Instant::now();
        let Ok(mut child) = command.spawn() else { return times };
        loop {
            match child.try_wait() {
                Ok(None) if stop.load(Ordering::Relaxed) => {
                    let group = rustix::process::Pid::from_child(&child);
                    let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
                    let _ = child.wait();
                    return times;
                }
                Ok(None) => std::thread::sleep(PAUSE),
                Ok(Some(status)) if status.success() => {
                    times.push(begun.elapsed().as_secs_f64());
                    break;
                }
                _ => return times,
            }
        }
    }
    times
}
