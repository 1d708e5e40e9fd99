//! The files of a node: a tree of its own, except for n1 and nodes of a lab with `--whole`, which
//! see this machine's tree with private places mounted over it.

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_change, unmount};

use crate::cgroup::Hierarchy;
use crate::error::{Context, Result};
use crate::programs::{self, Programs};

/// The parameters of a node's files.
pub struct Root<'a> {
    /// Name of the node.
    pub node: &'a str,
    /// Whether the node shows this machine's tree, as n1 does.
    pub whole: bool,
    /// Whether the node has made-up user and library files.
    pub foreign: bool,
    /// The programs on this machine.
    pub programs: &'a Programs,
    /// The policy's pace is not 1: `tern-lab` is the node's daemon.
    pub paced: bool,
    /// An empty directory of this machine on which new trees may be mounted.
    pub staging: &'a Path,
    /// Contents of `/etc/hosts`.
    pub hosts: &'a str,
    /// The cgroup hierarchies to show.
    pub hierarchies: &'a [Hierarchy],
}

const DEVICES: [&str; 9] =
    ["null", "zero", "full", "random", "urandom", "tty", "fuse", "userfaultfd", "cpu_dma_latency"];
const SAFE: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV).union(MountFlags::NOEXEC);

impl<'a> Root<'a> {
    /// Sets up the node's files. Must be called in the node's mount, PID, network and cgroup
    /// namespaces.
    pub fn set_up(&self) -> Result<()> {
        mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)
            .context(|| "make the mounts of the node private")?;
        match self.whole {
            true => self.set_up_whole(),
            false => self.set_up_empty(),
        }
    }

    /// Sets up this machine's tree. Private places are mounted over it, so that nothing of it
    /// changes.
    fn set_up_whole(&self) -> Result<()> {
        // By descriptor, because the binary may lie below a directory that is about to be covered.
        let held = self.held()?;
        for (path, mode) in
            [("/tmp", 0o1777), ("/var/tmp", 0o1777), ("/home", 0o755), ("/run", 0o755), ("/dev/shm", 0o1777)]
        {
            if Path::new(path).is_dir() {
                tmpfs(path, mode)?;
            }
        }
        mount_proc("/proc")?;
        self.mount_sys("/sys")?;
        for directory in ["/run/lab", "/run/lab/bin", "/run/lab/etc"] {
            make_directory(directory, 0o755)?;
        }
        for (name, program) in held {
            let source = format!("/proc/self/fd/{}", program.as_raw_fd());
            bind_file(source.as_ref(), Path::new("/run/lab/bin").join(name))?;
        }
        link(self.daemon(), "/run/lab/bin/ternd")?;
        for (name, text) in self.names() {
            let (private, shown) = (format!("/run/lab/etc/{name}"), format!("/etc/{name}"));
            write(&private, &text)?;
            if Path::new(&shown).exists() {
                mount_bind(&private, &shown).context(|| format!("put the node's file over {shown}"))?;
            }
        }
        Ok(())
    }

    /// Sets up a tmpfs with nothing but what tern needs.
    fn set_up_empty(&self) -> Result<()> {
        let top = self.staging;
        mount("tmpfs", top, "tmpfs", MountFlags::NOSUID, c"mode=755").context(|| "mount the node's root")?;
        let at = |path: &str| top.join(path);
        let directories = "bin dev dev/pts dev/shm etc home proc run run/lab sys tmp var var/lib var/log var/tmp";
        for path in directories.split(' ') {
            let shared = matches!(path, "tmp" | "var/tmp" | "dev/shm");
            make_directory(at(path), if shared { 0o1777 } else { 0o755 })?;
        }
        for (name, program) in self.programs() {
            bind_file(program, at("bin").join(name))?;
        }
        link(self.daemon(), at("bin/ternd"))?;
        for (name, text) in self.names() {
            write(at("etc").join(name), &text)?;
        }
        if self.foreign {
            self.make_foreign()?;
        }
        self.make_devices()?;
        mount_proc(at("proc"))?;
        self.mount_sys(at("sys"))?;

        std::env::set_current_dir(top).context(|| "enter the node's tree")?;
        rustix::process::pivot_root(".", ".").context(|| "make the node's tree its root")?;
        unmount(".", UnmountFlags::DETACH).context(|| "leave this machine's tree")?;
        std::env::set_current_dir("/").context(|| "enter the node's root")
    }

    fn programs(&self) -> [(&'static str, &'a Path); 2] {
        [(programs::TERN, &self.programs.tern), (programs::LAB, &self.programs.lab)]
    }

    /// The programs, opened.
    fn held(&self) -> Result<Vec<(&'static str, OwnedFd)>> {
        let open = |(name, path): (&'static str, &Path)| {
            let held = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
            Ok((name, held.context(|| format!("open {}", path.display()))?))
        };
        self.programs().into_iter().map(open).collect()
    }

    /// The program that `ternd` is.
    fn daemon(&self) -> &'static str {
        if self.paced { programs::LAB } else { programs::TERN }
    }

    fn names(&self) -> [(&'static str, String); 2] {
        [("hostname", format!("{}\n", self.node)), ("hosts", self.hosts.to_owned())]
    }

    /// Makes files that another real machine would have. If a guest of another home sees one of
    /// them, tests notice.
    fn make_foreign(&self) -> Result<()> {
        let bogus = "this file belongs to another machine\n";
        let files = [
            ("etc/passwd", "root:x:0:0:stranger:/stranger:/stranger\nstranger:x:1000:1000::/home/stranger:/stranger\n"),
            ("etc/group", "root:x:0:\nstranger:x:1000:\n"),
            ("etc/os-release", "ID=stranger\nNAME=Stranger\n"),
            ("etc/ld.so.cache", bogus),
            ("lib64/ld-linux-x86-64.so.2", bogus),
            ("lib/x86_64-linux-gnu/libc.so.6", bogus),
            ("usr/bin/python3", bogus),
        ];
        for (path, text) in files {
            let path = self.staging.join(path);
            let parent = path.parent().unwrap_or(self.staging);
            fs::create_dir_all(parent).context(|| format!("make {}", parent.display()))?;
            write(&path, text)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))
                .context(|| "make a foreign file executable")?;
        }
        Ok(())
    }

    fn make_devices(&self) -> Result<()> {
        let dev = self.staging.join("dev");
        for name in DEVICES {
            let Ok(real) = fs::metadata(Path::new("/dev").join(name)) else { continue };
            let path = dev.join(name);
            let make = || {
                let mode = Mode::from_raw_mode(real.mode());
                rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::CharacterDevice, mode, real.rdev())?;
                fs::set_permissions(&path, real.permissions())
            };
            if make().is_err() {
                // Containers may not make devices, but may bind those that they have.
                bind_file(&Path::new("/dev").join(name), &path)?;
            }
        }
        mount(
            "devpts",
            dev.join("pts"),
            "devpts",
            MountFlags::NOSUID | MountFlags::NOEXEC,
            c"newinstance,ptmxmode=0666,mode=620",
        )
        .context(|| "mount devpts")?;
        let links = [
            ("pts/ptmx", "ptmx"),
            ("/proc/self/fd", "fd"),
            ("/proc/self/fd/0", "stdin"),
            ("/proc/self/fd/1", "stdout"),
            ("/proc/self/fd/2", "stderr"),
        ];
        links.iter().try_for_each(|(target, name)| link(target, dev.join(name)))
    }

    /// Mounts sysfs of the node's network, with the node's cgroups where they are on this machine.
    fn mount_sys(&self, sys: impl AsRef<Path>) -> Result<()> {
        let sys = sys.as_ref();
        mount("sysfs", sys, "sysfs", SAFE | MountFlags::RDONLY, None).context(|| "mount sysfs")?;
        // Breaking a FUSE connection is the last resort against a process that hangs in it.
        let _ = mount("fusectl", sys.join("fs/fuse/connections"), "fusectl", SAFE, None);
        let cgroups = sys.join("fs/cgroup");
        if !self.hierarchies.iter().any(|h| h.point == Path::new("/sys/fs/cgroup")) {
            tmpfs(&cgroups, 0o755)?;
        }
        for hierarchy in self.hierarchies {
            let Ok(below) = hierarchy.point.strip_prefix("/sys/fs/cgroup") else { continue };
            let point = cgroups.join(below);
            if point != cgroups {
                make_directory(&point, 0o755)?;
            }
            let options = std::ffi::CString::new(hierarchy.options.as_str()).unwrap_or_default();
            mount("cgroup", &point, hierarchy.kind.as_str(), SAFE, options.as_c_str())
                .context(|| format!("mount cgroups on {}", point.display()))?;
        }
        Ok(())
    }
}

fn tmpfs(path: impl AsRef<Path>, mode: u32) -> Result<()> {
    let path = path.as_ref();
    let options = std::ffi::CString::new(format!("mode={mode:o}")).unwrap_or_default();
    mount("tmpfs", path, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str())
        .context(|| format!("mount a tmpfs on {}", path.display()))
}

fn mount_proc(path: impl AsRef<Path>) -> Result<()> {
    mount("proc", path.as_ref(), "proc", SAFE, None).context(|| "mount proc")
}

fn bind_file(file: &Path, at: impl AsRef<Path>) -> Result<()> {
    let at = at.as_ref();
    write(at, "")?;
    mount_bind(file, at).context(|| format!("show {} as {}", file.display(), at.display()))
}

fn make_directory(path: impl AsRef<Path>, mode: u32) -> Result<()> {
    let path = path.as_ref();
    fs::create_dir(path).context(|| format!("make {}", path.display()))?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .context(|| format!("set the mode of {}", path.display()))
}

fn write(path: impl AsRef<Path>, text: &str) -> Result<()> {
    let path = path.as_ref();
    fs::write(path, text).context(|| format!("write {}", path.display()))
}

fn link(target: &str, path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    symlink(target, path).context(|| format!("link {}", path.display()))
}
