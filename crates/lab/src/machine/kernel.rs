//! The parts of a virtual machine: QEMU, which must be installed, and Debian's stock cloud kernel,
//! which must not. The kernel's package is unpacked into a cache directory of this machine, so that
//! this machine's own boot is not affected.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use crate::error::{Context, Error, Result};

/// The emulator's program.
pub const QEMU: &str = "qemu-system-x86_64";
/// The package that depends on the newest kernel of the distribution's release.
const METAPACKAGE: &str = "linux-image-cloud-amd64";
/// The directory with unpacked kernels.
const CACHE: &str = "/var/cache/tern/kernels";
/// The modules that a machine needs, in the order in which they can be loaded.
pub const MODULES: [&str; 10] = [
    "drivers/virtio/virtio_ring",
    "drivers/virtio/virtio",
    "drivers/virtio/virtio_pci_modern_dev",
    "drivers/virtio/virtio_pci_legacy_dev",
    "drivers/virtio/virtio_pci",
    "net/core/failover",
    "drivers/net/net_failover",
    "drivers/net/virtio_net",
    "fs/fuse/fuse",
    "net/sched/sch_tbf",
];

/// An unpacked kernel.
pub struct Kernel {
    /// The file that boots.
    pub image: PathBuf,
    /// Directory of its modules.
    modules: PathBuf,
}

impl Kernel {
    /// Reads the content of a module.
    pub fn module(&self, name: &str) -> Result<Vec<u8>> {
        let path = self.modules.join("kernel").join(format!("{name}.ko"));
        fs::read(&path).context(|| format!("read the module {}", path.display()))
    }
}

/// Checks that this machine can start virtual machines. Fetches their kernel if needed.
pub fn provide() -> Result<()> {
    find_qemu()?;
    find().map(drop)
}

/// Checks that QEMU is installed.
///
/// # Errors
/// QEMU is missing; the error tells what to do.
pub fn find_qemu() -> Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    match std::env::split_paths(&path).any(|directory| directory.join(QEMU).is_file()) {
        true => Ok(()),
        false => Err(Error::Missing {
            what: QEMU.into(),
            remedy: "apt-get install -y --no-install-recommends qemu-system-x86".into(),
        }),
    }
}

/// Finds the kernel. If it is not unpacked yet, fetches and unpacks it, which is reported on
/// standard error.
pub fn find() -> Result<Kernel> {
    static FETCHING: Mutex<()> = Mutex::new(());
    let _one = FETCHING.lock().unwrap_or_else(PoisonError::into_inner);
    match cached() {
        Some(kernel) => Ok(kernel),
        None => fetch(),
    }
}

fn cached() -> Option<Kernel> {
    let mut names: Vec<PathBuf> = fs::read_dir(CACHE).ok()?.flatten().map(|e| e.path()).collect();
    names.sort();
    names.iter().rev().find_map(|directory| kernel_in(directory))
}

fn kernel_in(directory: &Path) -> Option<Kernel> {
    let name = directory.file_name()?.to_str()?;
    let release = name.strip_prefix("linux-image-")?;
    let image = directory.join("boot").join(format!("vmlinuz-{release}"));
    let modules = directory.join("lib/modules").join(release);
    (image.is_file() && modules.is_dir()).then_some(Kernel { image, modules })
}

/// Downloads the package and unpacks it. Another process may do the same concurrently: each has a
/// directory of its own, and the first to finish wins.
fn fetch() -> Result<Kernel> {
    let listed = output(Path::new("/"), &["apt-cache", "depends", "--important", METAPACKAGE])?;
    let name = listed.lines().find_map(|line| Some(line.trim().strip_prefix("Depends: ")?.to_owned()));
    let Some(name) = name.filter(|name| name.starts_with("linux-image-")) else {
        return Err(Error::Missing { what: format!("the package {METAPACKAGE}"), remedy: "apt-get update".into() });
    };
    eprintln!("tern lab: fetching Debian's kernel package {name} into {CACHE} (it is unpacked there, not installed)");
    let draft = Path::new(CACHE).join(format!(".{}-{name}", std::process::id()));
    let done = unpack(&draft, &name);
    let _ = fs::remove_dir_all(&draft);
    done?;
    kernel_in(&Path::new(CACHE).join(&name)).ok_or_else(|| Error::Setup {
        who: format!("package {name}"),
        reason: "it holds no kernel where one is expected (boot/vmlinuz-*)".into(),
    })
}

fn unpack(draft: &Path, name: &str) -> Result<()> {
    let tree = draft.join("tree");
    fs::create_dir_all(&tree).context(|| format!("make {}", tree.display()))?;
    output(draft, &["apt-get", "download", "-o", "APT::Sandbox::User=root", name])?;
    let entries = fs::read_dir(draft).context(|| format!("read {}", draft.display()))?;
    let package = entries.flatten().map(|e| e.path()).find(|p| p.extension().is_some_and(|e| e == "deb"));
    let package = package.unwrap_or_default().display().to_string();
    output(draft, &["dpkg-deb", "-x", &package, "tree"])?;
    match fs::rename(&tree, Path::new(CACHE).join(name)) {
        Err(e) if e.kind() != std::io::ErrorKind::DirectoryNotEmpty => Err(e).context(|| "keep the unpacked kernel"),
        _ => Ok(()),
    }
}

fn output(place: &Path, argv: &[&str]) -> Result<String> {
    let output = Command::new(argv[0]).args(&argv[1..]).current_dir(place).output();
    let output = output.context(|| format!("run {}", argv[0]))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => {
            Err(Error::Setup { who: argv.join(" "), reason: String::from_utf8_lossy(&output.stderr).trim().to_owned() })
        }
    }
}
