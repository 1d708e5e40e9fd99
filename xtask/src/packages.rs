//! Programs that tests run, and the Debian packages that hold them.

use std::path::Path;
use std::process::Command;

use crate::tool::{Result, run};

/// Program, package, and whether tests fail without it (else the test of that program is left out,
/// and says so).
const PROGRAMS: [(&str, &str, bool); 40] = [
    ("python3", "python3", true),
    ("gcc", "gcc", true),
    ("as", "binutils", true),
    ("perl", "perl", true),
    ("sqlite3", "sqlite3", true),
    ("zstd", "zstd", true),
    ("xz", "xz-utils", true),
    ("find", "findutils", true),
    ("sort", "coreutils", true),
    ("sed", "sed", true),
    ("ps", "procps", true),
    ("setpriv", "util-linux", true),
    ("script", "bsdutils", true),
    ("setfacl", "acl", true),
    ("getfacl", "acl", true),
    ("tcpdump", "tcpdump", true),
    ("bc", "bc", true),
    ("ffmpeg", "ffmpeg", true),
    ("curl", "curl", true),
    ("ss", "iproute2", true),
    ("redis-server", "redis-server", true),
    ("nginx", "nginx-light", true),
    ("ab", "apache2-utils", true),
    ("ruby", "ruby", true),
    ("psql", "postgresql", true),
    ("tmux", "tmux", true),
    ("expect", "expect", true),
    ("nc", "netcat-openbsd", true),
    ("vim", "vim", true),
    ("mpiexec.mpich", "mpich", true),
    ("mpicc.mpich", "libmpich-dev", true),
    ("mpiexec.openmpi", "openmpi-bin", true),
    ("mpicc.openmpi", "libopenmpi-dev", true),
    ("pvm", "pvm", true),
    ("pvm_gstat", "pvm-dev", true),
    ("ssh", "openssh-client", true),
    ("sshd", "openssh-server", true),
    ("java", "default-jdk-headless", false),
    ("octave-cli", "octave", false),
    ("qemu-system-x86_64", "qemu-system-x86", false),
];

/// Is there a program of this name on the search path?
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let sbin = ["/usr/sbin", "/sbin"].map(Into::into);
    std::env::split_paths(&path).chain(sbin).any(|directory: std::path::PathBuf| directory.join(program).is_file())
}

/// Installs what is missing, or says what that is.
pub fn provide() -> Result<()> {
    let missing = |needed: bool| {
        let mut packages: Vec<&str> = PROGRAMS
            .iter()
            .filter(|(program, _, need)| *need == needed && !is_installed(program))
            .map(|p| p.1)
            .collect();
        packages.dedup();
        packages
    };
    for package in missing(false) {
        println!("not installed, its tests are left out: {package}");
    }
    let needed = missing(true);
    if needed.is_empty() {
        return Ok(());
    }
    let list = needed.join(" ");
    if !is_root() || !Path::new("/usr/bin/apt-get").exists() {
        return Err(format!("the tests need these Debian packages: apt-get install {list}"));
    }
    println!("installing {list}");
    let apt = || {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").arg("--quiet=2");
        command
    };
    let install = || run(apt().args(["--yes", "--no-install-recommends", "install"]).args(&needed));
    // The lists may be old or missing: fetch them only if so.
    install().or_else(|_| run(apt().arg("update")).and_then(|()| install()))
}

/// Runs this process as root?
pub fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}
