//! Groups whose processes stand still for a moment (version 2:
//! `Documentation/admin-guide/cgroup-v2.rst`; version 1: `cgroup-v1/freezer-subsystem.rst`).

use std::path::{Path, PathBuf};

use crate::Result;

/// Processes of a group that stand still while this value lives.
#[derive(Debug)]
pub struct Frozen {
    file: PathBuf,
    unified: bool,
}

impl Frozen {
    /// Names the group; nothing is frozen yet.
    pub(super) fn of(group: &Path, unified: bool) -> Frozen {
        Frozen { file: group.join(if unified { "cgroup.freeze" } else { "freezer.state" }), unified }
    }

    pub(super) fn freeze(self) -> Result<Frozen> {
        super::write(&self.file, if self.unified { "1" } else { "FROZEN" })?;
        Ok(self)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        // Where the group has gone, nothing is frozen.
        let _ = std::fs::write(&self.file, if self.unified { "0" } else { "THAWED" });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    /// A process that works, and ends with the test.
    struct Busy(Child);

    impl Busy {
        fn start() -> Busy {
            let mut command = Command::new("sh");
            Busy(command.args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn().unwrap())
        }

        fn cpu_ticks(&self) -> u64 {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
            let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
            fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
        }

        fn works_within(&self, limit: Duration) -> bool {
            let (begun, before) = (Instant::now(), self.cpu_ticks());
            while self.cpu_ticks() < before + 2 {
                if begun.elapsed() > limit {
                    return false;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            true
        }
    }

    impl Drop for Busy {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn groups_of_both_versions_stand_still_and_go_on() {
        let tops = [("/sys/fs/cgroup/freezer", false), ("/sys/fs/cgroup", true), ("/sys/fs/cgroup/unified", true)];
        for (top, unified) in tops {
            let group = Path::new(top).join(format!("tern-test-frozen-{}", std::process::id()));
            if (unified && !Path::new(top).join("cgroup.controllers").exists()) || std::fs::create_dir(&group).is_err()
            {
                continue;
            }
            let busy = Busy::start();
            std::fs::write(group.join("cgroup.procs"), busy.0.id().to_string()).unwrap();
            assert!(busy.works_within(Duration::from_secs(20)));
            let frozen = Frozen::of(&group, unified).freeze().unwrap();
            std::thread::sleep(Duration::from_millis(50));
            assert!(!busy.works_within(Duration::from_millis(300)), "it runs on: {top}");
            drop(frozen);
            assert!(busy.works_within(Duration::from_secs(20)), "it stands still: {top}");
            drop(busy);
            std::fs::remove_dir(&group).unwrap();
        }
    }
}
