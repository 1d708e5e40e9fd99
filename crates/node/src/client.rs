//! What a daemon checks of a process that wants to be placed, before a steward trusts it.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::OnceLock;

use rustix::fs::SealFlags;

/// Largest program (path, arguments, environment), bytes: beyond what execve(2) takes with the default stack limit.
const PROGRAM_BYTES: u64 = 8 << 20;
/// Namespaces in which a process must be at home: rooms are made after the daemon's own.
const NAMESPACES: [(&str, &str); 7] = [
    ("pid", "PID"),
    ("user", "user"),
    ("mnt", "mount"),
    ("net", "network"),
    ("uts", "host name"),
    ("ipc", "IPC"),
    ("time", "time"),
];

/// A program comes in memory that its sender can neither change nor cut any more: else reading it could fault or block.
pub(crate) fn check_program(memory: impl AsFd) -> Result<(), String> {
    let sealed = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    match rustix::fs::fcntl_get_seals(&memory) {
        Ok(seals) if seals.contains(sealed) => {}
        _ => return Err("the program did not come in a sealed memfd".into()),
    }
    let size = rustix::fs::fstat(&memory).map_err(|e| format!("the program cannot be read: {e}"))?.st_size;
    match u64::try_from(size) {
        Ok(bytes) if bytes <= PROGRAM_BYTES => Ok(()),
        _ => Err(format!("arguments and environment are {size} bytes, at most {PROGRAM_BYTES} are allowed")),
    }
}

/// A process in a container or a chroot has another home than this daemon can serve.
pub(crate) fn check_process(pid: i32) -> Result<(), String> {
    if pid <= 0 {
        return Err("the process is not in this daemon's PID namespace".into());
    }
    for ((file, name), ours) in NAMESPACES.iter().zip(own_namespaces()) {
        let theirs = fs::read_link(format!("/proc/{pid}/ns/{file}")).ok();
        if theirs != *ours {
            return Err(format!("process {pid} is in another {name} namespace than ternd (a container?)"));
        }
    }
    let place = |path: &str| fs::metadata(path).map(|m| (m.dev(), m.ino())).ok();
    if place(&format!("/proc/{pid}/root/.")) != place("/") {
        return Err(format!("process {pid} has another root directory than ternd (a chroot?)"));
    }
    Ok(())
}

/// Those of this daemon; `None` where the kernel has no such namespace.
fn own_namespaces() -> &'static [Option<PathBuf>; 7] {
    static OWN: OnceLock<[Option<PathBuf>; 7]> = OnceLock::new();
    OWN.get_or_init(|| NAMESPACES.map(|(file, _)| fs::read_link(format!("/proc/self/ns/{file}")).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::MemfdFlags;
    use std::process::Command;

    #[test]
    fn programs_must_be_sealed() {
        let open = rustix::fs::memfd_create("p", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC).unwrap();
        assert!(check_program(&open).unwrap_err().contains("sealed"));
        let (pipe, _other) = rustix::pipe::pipe().unwrap();
        assert!(check_program(&pipe).is_err() && check_program(fs::File::open("/etc/passwd").unwrap()).is_err());
        rustix::fs::ftruncate(&open, PROGRAM_BYTES + 1).unwrap();
        rustix::fs::fcntl_add_seals(&open, SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE).unwrap();
        assert!(check_program(&open).unwrap_err().contains("at most"));
    }

    #[test]
    fn containers_and_chroots_are_told_apart() {
        let check = |program: &str, args: &[&str]| {
            let mut child = Command::new(program).args(args).stdin(std::process::Stdio::piped()).spawn().unwrap();
            let pid = i32::try_from(child.id()).unwrap();
            // Until the child has become `cat`, it is still the test.
            let named_cat = || fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|c| c == "cat\n");
            while !named_cat() {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            let verdict = check_process(pid);
            child.kill().unwrap();
            child.wait().unwrap();
            verdict
        };
        assert_eq!(check("cat", &[]), Ok(()));
        assert!(check("unshare", &["--uts", "cat"]).unwrap_err().contains("another host name namespace"));
        assert!(check("unshare", &["--mount", "cat"]).unwrap_err().contains("another mount namespace"));
        assert_eq!(check("chroot", &["/", "cat"]), Ok(()));
        let jail = std::env::temp_dir().join(format!("tern-jail-{}", std::process::id()));
        fs::create_dir_all(&jail).unwrap();
        let jailed = format!(
            "exec python3 -c 'import os,sys; os.chroot(sys.argv[1]); open(\"/comm\",\"w\"); sys.stdin.read()' {}",
            jail.display()
        );
        let mut child = Command::new("sh").args(["-c", &jailed]).stdin(std::process::Stdio::piped()).spawn().unwrap();
        while !jail.join("comm").exists() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let verdict = check_process(i32::try_from(child.id()).unwrap());
        child.kill().unwrap();
        child.wait().unwrap();
        fs::remove_dir_all(&jail).unwrap();
        assert!(verdict.unwrap_err().contains("another root directory"));
    }
}
