//! The tokens of make and its like: which tool takes them, and how `tern` offers them.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd as _, IntoRawFd as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use super::Offer;

/// The first make that takes the path of a FIFO.
const TAKES_PATH: (u32, u32) = (4, 4);
/// Options of make with a letter that take a value: what follows in the same word is no option.
const WITH_VALUE: &[u8] = b"CEfIloW";

/// Chooses how tokens are offered: not at all, if the user says how many jobs there are to be, or a
/// make above has tokens.
pub(super) fn offer(arguments: &[OsString], flags: &OsStr) -> Offer {
    let flags = flags.to_string_lossy();
    let above = flags.contains("--jobserver") || flags.split(' ').any(|word| says_jobs(word.as_bytes()));
    if above || arguments.iter().any(|word| says_jobs(word.as_bytes())) {
        return Offer::Nothing;
    }
    let output = std::process::Command::new("make").arg("--version").env_remove("MAKEFLAGS").output();
    let text = output.map_or_else(|_| String::new(), |output| String::from_utf8_lossy(&output.stdout).into_owned());
    if version(&text) >= Some(TAKES_PATH) { Offer::Path } else { Offer::Descriptors }
}

/// Tells whether a word of make's command line says how many jobs there are to be.
fn says_jobs(word: &[u8]) -> bool {
    if word.starts_with(b"--") {
        return word == b"--jobs" || word.starts_with(b"--jobs=");
    }
    let Some(letters) = word.strip_prefix(b"-") else { return false };
    let options = letters.iter().position(|letter| WITH_VALUE.contains(letter)).map_or(letters, |end| &letters[..end]);
    options.contains(&b'j')
}

/// Reads the version of `GNU Make 4.3`.
fn version(text: &str) -> Option<(u32, u32)> {
    let (major, rest) = text.strip_prefix("GNU Make ")?.split_once('.')?;
    let minor = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Gives the value of MAKEFLAGS. Opens the tokens, if they are offered by descriptors.
pub(super) fn flags(offer: Offer, fifo: &Path) -> io::Result<Option<OsString>> {
    let inherited = std::env::var("MAKEFLAGS").unwrap_or_default();
    let auth = match offer {
        Offer::Nothing => return Ok(None),
        Offer::Path => format!("fifo:{}", fifo.display()),
        Offer::Descriptors => {
            // Not close-on-exec: the command inherits them.
            let open = || rustix::fs::open(fifo, OFlags::RDWR, Mode::empty());
            let (reads, writes) = (open()?, open()?);
            let numbers = format!("{},{}", reads.as_raw_fd(), writes.as_raw_fd());
            let _ = (reads.into_raw_fd(), writes.into_raw_fd());
            numbers
        }
    };
    Ok(Some(format!("{inherited} -j --jobserver-auth={auth}").into()))
}

/// Gives the command's arguments: ninja, which knows nothing of tokens, is told how many jobs there
/// are to be, unless the user says so.
pub(super) fn arguments(command: &[OsString], slots: u32) -> Vec<OsString> {
    let mut words = command.iter().cloned();
    let name = words.next().unwrap_or_default();
    let words: Vec<OsString> = words.collect();
    let is_ninja = Path::new(&name).file_name().is_some_and(|name| name == "ninja" || name == "ninja-build");
    if !is_ninja || words.iter().any(|word| word.as_bytes().starts_with(b"-j")) {
        return words;
    }
    // Some wait for files while others compute, as ninja itself reckons.
    let jobs = format!("-j{}", slots.saturating_add(2));
    [jobs.into()].into_iter().chain(words).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_counted_by_the_user_or_not() {
        for says in ["-j", "-j4", "-kj4", "--jobs", "--jobs=3"] {
            assert!(says_jobs(says.as_bytes()), "{says}");
        }
        for says_not in ["all", "-k", "-Cjava", "-fjobs.mk", "--just-print", "-", "CFLAGS=-j", "-lj"] {
            assert!(!says_jobs(says_not.as_bytes()), "{says_not}");
        }
        assert_eq!(offer(&["-j4".into()], OsStr::new("")), Offer::Nothing);
        assert_eq!(offer(&[], OsStr::new(" -j3 --jobserver-auth=3,4")), Offer::Nothing);
    }

    #[test]
    fn versions() {
        assert_eq!(version("GNU Make 4.3\nBuilt for"), Some((4, 3)));
        assert_eq!(version("GNU Make 4.4.1\n"), Some((4, 4)));
        assert_eq!(version("bmake"), None);
    }

    #[test]
    fn ninja_is_told_how_many() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        assert_eq!(arguments(&words("ninja all"), 6), words("-j8 all"));
        assert_eq!(arguments(&words("/usr/bin/ninja -j 3"), 6), words("-j 3"));
        assert_eq!(arguments(&words("cargo build"), 6), words("build"));
    }
}
