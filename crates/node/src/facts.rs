//! What this node is, from uname(2), /proc and /dev.

use std::fs;

use control_protocol::facts::Facts;

/// Reads and tries what does not change. Takes some milliseconds.
pub(crate) fn read(rooms_max: u32) -> Facts {
    let system = rustix::system::uname();
    let cpuinfo = text("/proc/cpuinfo");
    let (memory_kib, _) = memory_kib();
    Facts {
        kernel: system.release().to_string_lossy().into_owned(),
        machine: system.machine().to_string_lossy().into_owned(),
        cpu_model: field(&cpuinfo, "model name").unwrap_or_default().to_owned(),
        xsave_bytes: os::probe::cpu().xsave_bytes,
        cpu_features: features(field(&cpuinfo, "flags").unwrap_or_default()),
        cores: cores(),
        memory_bytes: memory_kib * 1024,
        pid_max: text("/proc/sys/kernel/pid_max").trim().parse().unwrap_or(0),
        cannot_host: os::probe::probe().cannot_host().map(|f| format!("{}: {}", f.name, f.text)),
        rooms_max,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// Kernels before 6.14 bound the PIDs of all namespaces by the machine's `pid_max`: raise it, so
/// that rooms can have home's PIDs.
pub(crate) fn raise_pid_max() {
    const HIGHEST: u32 = 4_194_304;
    let path = "/proc/sys/kernel/pid_max";
    let now = text(path).trim().parse::<u32>().unwrap_or(HIGHEST);
    if now < HIGHEST && bounds_all_namespaces(&rustix::system::uname().release().to_string_lossy()) {
        match fs::write(path, HIGHEST.to_string()) {
            Ok(()) => {
                tracing::info!("kernel.pid_max raised from {now} to {HIGHEST}, so that rooms can have any home's PIDs")
            }
            Err(e) => tracing::warn!("kernel.pid_max stays {now} ({e}): homes whose PIDs go higher cannot place here"),
        }
    }
}

/// Each room of this home has two queues of file events, and a kernel gives a user 128: raise that,
/// so that rooms beyond the 64th may keep home's files, too.
pub(crate) fn raise_file_queues() {
    const WANTED: u32 = 8192;
    let path = "/proc/sys/fs/fanotify/max_user_groups";
    let now = text(path).trim().parse::<u32>().unwrap_or(WANTED);
    if now < WANTED
        && let Err(e) = fs::write(path, WANTED.to_string())
    {
        tracing::warn!("fs.fanotify.max_user_groups stays {now} ({e}): rooms beyond {} ask for each file", now / 2);
    }
}

/// Is `pid_max` of this kernel release global (before 6.14), not per PID namespace?
fn bounds_all_namespaces(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse::<u32>().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) => (major, minor) < (6, 14),
        _ => false,
    }
}

fn features(flags: &str) -> Vec<String> {
    let mut found: Vec<String> =
        flags.split(' ').filter(|f| os::probe::PROGRAM_FEATURES.contains(f)).map(str::to_owned).collect();
    found.sort();
    found.dedup();
    found
}

/// Online CPUs that this process may use.
pub(crate) fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX))
}

/// In all, and what programs could still get.
pub(crate) fn memory_kib() -> (u64, u64) {
    let meminfo = text("/proc/meminfo");
    let kib = |name| field(&meminfo, name).and_then(|v| v.split(' ').next()?.parse().ok()).unwrap_or(0);
    (kib("MemTotal"), kib("MemAvailable"))
}

/// Value of the first line `name : value`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|l| l.split_once(':').filter(|(k, _)| k.trim() == name).map(|(_, v)| v.trim()))
}

fn text(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine() {
        let facts = read(3);
        assert!(
            facts.kernel.starts_with(char::is_numeric)
                && facts.cores > 0
                && facts.memory_bytes > 1 << 20
                && facts.pid_max > 300
        );
        assert!(facts.cpu_features.iter().any(|f| f == "sse2") && !facts.cpu_features.iter().any(|f| f == "vmx"));
    }

    #[test]
    fn pid_max_is_global_before_6_14() {
        assert!(bounds_all_namespaces("6.1.0-18-amd64"));
        assert!(!bounds_all_namespaces("6.14.0") && !bounds_all_namespaces("7.0.1"));
    }
}
