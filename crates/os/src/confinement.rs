//! Detects sandboxes of a process. Its body on another node would be outside of them.
//!
//! # The problem
//! A program that was put into a sandbox by its starter (a container, a filter of system calls, a
//! security module's profile) can start `tern run` as any other program. Its body elsewhere would
//! be outside of that sandbox, and the deputy would make calls for it by code that the sandbox
//! never saw.
//!
//! # The way taken
//! Sandboxes are refused, not rebuilt: [`check`] reads from the kernel, thread by thread, all that
//! confines a process, and names the first thing found. Placing and moving both ask it, so neither
//! is a way around the other. What the kernel tells nobody (Landlock) is found by a look into
//! another process: [`crate::landlock_probe`].
//!
//! The promise to gain no rights (no_new_privs), the bounding set and securebits are no sandbox in
//! this sense: they belong to the deputy, which is the original process, and whatever gives rights
//! is executed by it, at home.

use crate::process;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use thiserror::Error;

/// The sandbox that confines a process, or the reason why none can be ruled out.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Confinement {
    /// The process is not in this PID namespace: it has no number here.
    #[error("it is in another PID namespace than ternd (a container?)")]
    Unnumbered,
    /// A thread lives in another namespace than this process.
    #[error("it is in another {namespace} namespace than ternd (a container?)")]
    Namespace {
        /// Which, in words.
        namespace: &'static str,
    },
    /// A thread has another root directory than this process.
    #[error("it has another root directory than ternd (a chroot?)")]
    Root,
    /// A thread is under a filter of system calls.
    #[error("it has a seccomp filter of its own, or is under one of its parents'")]
    Filter,
    /// A security module confines it.
    #[error("it is confined by a security module (label {label:?})")]
    Label {
        /// Its label, as the kernel says it.
        label: String,
    },
    /// The process has ended.
    #[error("it has ended")]
    Ended,
    /// The kernel did not tell.
    #[error("it cannot be told whether it is confined: {what}: {why}")]
    Unknown {
        /// File that was read.
        what: String,
        /// Why that failed.
        why: String,
    },
}

impl Confinement {
    /// Hint for the user.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Confinement::Ended | Confinement::Unknown { .. } => None,
            _ => Some(
                "tern takes nobody out of a sandbox: start the program without tern, or use tern outside of the sandbox",
            ),
        }
    }
}

/// Files below /proc/PID/ns, and what each kind of namespace is called.
const NAMESPACES: [(&str, &str); 10] = [
    ("pid", "PID"),
    ("pid_for_children", "PID (for children)"),
    ("user", "user"),
    ("mnt", "mount"),
    ("net", "network"),
    ("uts", "host name"),
    ("ipc", "IPC"),
    ("time", "time"),
    ("time_for_children", "time (for children)"),
    ("cgroup", "cgroup"),
];
/// Files below /proc/PID/attr in which security modules tell a label.
const LABELS: [&str; 3] = ["current", "apparmor/current", "smack/current"];
/// Longest label that is shown, characters.
const LABEL_SHOWN: usize = 100;

/// Checks that nothing confines process `pid` that does not confine this process too.
///
/// # Errors
/// The first restriction found, of any thread; or [`Confinement::Unknown`], if the kernel does not
/// tell.
pub fn check(pid: i32) -> Result<(), Confinement> {
    check_except(pid, &[])
}

/// Checks as [`check`] does, but lets the process live in other namespaces of these kinds (files
/// below /proc/PID/ns).
///
/// # Errors
/// As [`check`].
pub fn check_except(pid: i32, kinds: &[&str]) -> Result<(), Confinement> {
    if pid <= 0 {
        return Err(Confinement::Unnumbered);
    }
    // The leader is not listed where /proc shows no threads.
    let threads = process::threads(pid).map_err(|e| unknown(pid, &e.doing, &e.source))?;
    check_thread(pid, kinds)?;
    let check_thread = |tid| check_thread(tid, kinds);
    // A thread that has ended since the list was made confines nobody.
    let ended = |verdict: &Result<(), Confinement>| *verdict == Err(Confinement::Ended);
    threads.into_iter().filter(|tid| *tid != pid).map(check_thread).find(|v| v.is_err() && !ended(v)).unwrap_or(Ok(()))
}

fn check_thread(tid: i32, kinds: &[&str]) -> Result<(), Confinement> {
    let status = process::status(tid).map_err(|e| unknown(tid, &e.doing, &e.source))?;
    if matches!(status.state, 'Z' | 'X') {
        return Err(Confinement::Ended);
    }
    if status.seccomp != 0 {
        return Err(Confinement::Filter);
    }
    for ((file, namespace), own) in NAMESPACES.into_iter().zip(own_namespaces()) {
        match namespace_of(&tid.to_string(), file) {
            _ if own.is_none() || kinds.contains(&file) => {}
            Ok(its) if its == *own => {}
            Ok(_) => return Err(Confinement::Namespace { namespace }),
            // A namespace for children that has no first process yet.
            Err(e) if e.kind() == io::ErrorKind::NotFound && file == "pid_for_children" => {
                return Err(Confinement::Namespace { namespace });
            }
            // A process that is about to end has none any more.
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(Confinement::Ended),
            Err(e) => return Err(read_failed(tid, file, &e)),
        }
    }
    if !kinds.contains(&"mnt") {
        check_root(tid)?;
    }
    LABELS.iter().zip(own_labels()).try_for_each(|(file, own)| match label_of(&tid.to_string(), file) {
        Ok(label) if is_confining(&label, own) => Err(Confinement::Label { label: shown(&label) }),
        Ok(_) => Ok(()),
        Err(e) => Err(read_failed(tid, file, &e)),
    })
}

/// By name and by identity: a bind mount of the root has another name, and a directory of a
/// detached mount has the same.
fn check_root(tid: i32) -> Result<(), Confinement> {
    let root = process::link(tid, "root").map_err(|e| unknown(tid, &e.doing, &e.source))?;
    let identity = |path: &str| fs::metadata(path).map(|m| (m.dev(), m.ino()));
    let its = identity(&format!("/proc/{tid}/root/.")).map_err(|e| read_failed(tid, "root", &e))?;
    let is_ours = identity("/").is_ok_and(|ours| ours == its) && root == Path::new("/");
    if is_ours { Ok(()) } else { Err(Confinement::Root) }
}

/// Those of this process, which stays in them; `None` where the kernel has no such namespace.
fn own_namespaces() -> &'static [Option<PathBuf>; NAMESPACES.len()] {
    static OWN: OnceLock<[Option<PathBuf>; NAMESPACES.len()]> = OnceLock::new();
    OWN.get_or_init(|| NAMESPACES.map(|(file, _)| namespace_of("self", file).ok().flatten()))
}

fn namespace_of(who: &str, file: &str) -> io::Result<Option<PathBuf>> {
    fs::read_link(format!("/proc/{who}/ns/{file}")).map(Some)
}

/// Those of this process; empty where no security module gives any.
fn own_labels() -> &'static [String; LABELS.len()] {
    static OWN: OnceLock<[String; LABELS.len()]> = OnceLock::new();
    OWN.get_or_init(|| LABELS.map(|file| label_of("self", file).unwrap_or_default()))
}

/// Label that a security module gives a process; empty without such a module.
fn label_of(who: &str, file: &str) -> io::Result<String> {
    match fs::read(format!("/proc/{who}/attr/{file}")) {
        Ok(label) => Ok(String::from_utf8_lossy(&label).trim_end_matches(['\0', '\n']).to_owned()),
        // No module gives this file an answer (EINVAL), or has the file at all.
        Err(e) if matches!(e.raw_os_error(), Some(libc::EINVAL | libc::ENOENT | libc::EOPNOTSUPP)) => Ok(String::new()),
        Err(e) => Err(e),
    }
}

/// Tells whether a label means that a process may do less than one without it, or than one with the
/// label `own`.
///
/// AppArmor says `unconfined`, or `PROFILE (MODE)`, where the mode `unconfined` restricts nothing;
/// SELinux says `USER:ROLE:TYPE:LEVEL`, where the types `unconfined_t` and `unconfined_service_t`
/// are its policies' word for no restriction; whatever else is not known to be harmless.
fn is_confining(label: &str, own: &str) -> bool {
    let is_free = |kind: &str| matches!(kind, "unconfined_t" | "unconfined_service_t");
    let is_unconfined =
        label == "unconfined" || label.ends_with(" (unconfined)") || label.split(':').nth(2).is_some_and(is_free);
    !label.is_empty() && label != own && !is_unconfined
}

fn shown(label: &str) -> String {
    label.chars().filter(|c| !c.is_control()).take(LABEL_SHOWN).collect()
}

fn read_failed(tid: i32, file: &str, e: &io::Error) -> Confinement {
    unknown(tid, &format!("reading {file} of /proc/{tid}"), e)
}

/// A failed reading: of a process that has ended, or for another reason.
fn unknown(tid: i32, what: &str, e: &io::Error) -> Confinement {
    let has_ended = matches!(e.raw_os_error(), Some(libc::ENOENT | libc::ESRCH));
    let is_there = || process::status(tid).is_ok_and(|status| !matches!(status.state, 'Z' | 'X'));
    match has_ended && !is_there() {
        true => Confinement::Ended,
        false => Confinement::Unknown { what: what.to_owned(), why: e.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};

    struct Confined(Child);

    impl Confined {
        /// Starts a command that becomes `cat`, and waits until it has.
        fn start(words: &[&str]) -> Confined {
            let mut command = Command::new(words[0]);
            let child = command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
            let confined = Confined(child);
            let comm = format!("/proc/{}/comm", confined.pid());
            while fs::read_to_string(&comm).unwrap() != "cat\n" {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            confined
        }

        fn pid(&self) -> i32 {
            self.0.id() as i32
        }
    }

    impl Drop for Confined {
        fn drop(&mut self) {
            self.0.kill().unwrap();
            self.0.wait().unwrap();
        }
    }

    fn verdict(words: &[&str]) -> Result<(), Confinement> {
        check(Confined::start(words).pid())
    }

    #[test]
    fn containers_are_told_apart() {
        assert_eq!((check(0), check(-1)), (Err(Confinement::Unnumbered), Err(Confinement::Unnumbered)));
        assert_eq!(check(i32::MAX), Err(Confinement::Ended));
        assert_eq!(verdict(&["cat"]), Ok(()));
        assert_eq!(verdict(&["setpriv", "--no-new-privs", "cat"]), Ok(()), "the deputy keeps that promise");
        let kinds = [
            ("--uts", "host name"),
            ("--mount", "mount"),
            ("--net", "network"),
            ("--ipc", "IPC"),
            ("--cgroup", "cgroup"),
            ("--user", "user"),
            ("--pid", "PID (for children)"),
            ("--time", "time"),
        ];
        for (option, namespace) in kinds {
            assert_eq!(verdict(&["unshare", option, "cat"]), Err(Confinement::Namespace { namespace }), "{option}");
        }
    }

    /// Has Python confine itself by these lines, and become `cat`.
    fn python(lines: &str) -> Confined {
        let program = format!("import os, ctypes, threading, time\nlibc = ctypes.CDLL(None)\n{lines}");
        Confined::start(&["python3", "-c", &program])
    }

    #[test]
    fn roots_are_told_apart() {
        assert_eq!(verdict(&["chroot", "/", "cat"]), Ok(()));
        let confined = python(
            "os.mkdir(d := '/tmp/jail-%d' % os.getpid()); c = open('/proc/self/comm', 'w'); os.chroot(d)\n\
             c.write('cat'); c.flush(); time.sleep(1000)",
        );
        assert_eq!(check(confined.pid()), Err(Confinement::Root));
        fs::remove_dir(format!("/tmp/jail-{}", confined.pid())).unwrap();
    }

    /// Also of one thread alone, and in strict mode.
    #[test]
    fn filters_are_seen() {
        const ALLOW: &str = "class F(ctypes.Structure): _fields_ = [('n', ctypes.c_ushort), ('p', ctypes.c_void_p)]\n\
            code = ctypes.create_string_buffer(b'\\x06\\0\\0\\0\\0\\0\\xff\\x7f')\n\
            f = F(1, ctypes.addressof(code))\n\
            def confine():\n    libc.prctl(38, 1, 0, 0, 0); assert libc.prctl(22, 2, ctypes.byref(f)) == 0\n";
        let whole = python(&format!("{ALLOW}confine(); os.execvp('cat', ['cat'])"));
        assert_eq!(check(whole.pid()), Err(Confinement::Filter));
        let one = python(&format!(
            "{ALLOW}c = open('/proc/self/comm', 'w')\n\
             def work():\n    confine(); c.write('cat'); c.flush(); time.sleep(1000)\n\
             threading.Thread(target=work).start(); time.sleep(1000)"
        ));
        let of_first = process::status(one.pid()).unwrap().seccomp;
        assert_eq!((of_first, check(one.pid())), (0, Err(Confinement::Filter)));
    }

    #[test]
    fn labels_are_understood() {
        let free = [
            "",
            "unconfined",
            "tern (enforce)",
            "firefox (unconfined)",
            "unconfined_u:unconfined_r:unconfined_t:s0-s0:c0.c1023",
            "system_u:system_r:unconfined_service_t:s0",
        ];
        for label in free {
            assert!(!is_confining(label, "tern (enforce)"), "{label}");
        }
        let confined = [
            "snap.x (enforce)",
            "snap.x (complain)",
            "docker-default (enforce)",
            "x (unconfined) (enforce)",
            "kiosk",
            "user_u:user_r:user_t:s0",
            "system_u:system_r:container_t:s0:c1,c2",
            "a:b:xunconfined_t:s0",
            "_",
        ];
        for label in confined {
            assert!(is_confining(label, "tern (enforce)"), "{label}");
        }
        assert!(is_confining("snap.x (enforce)", ""));
        assert_eq!(shown(&format!("a\n{}", "b".repeat(1000))).len(), LABEL_SHOWN);
    }
}
