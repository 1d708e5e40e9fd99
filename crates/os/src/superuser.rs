//! Rights of the superuser: what makes a process as dangerous to its home as root's own, if another
//! node acts in its name.

use crate::Result;
use crate::process::{self, Status};
use std::fmt;

/// A right of the superuser's that a process has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Power {
    /// One of its user ids is 0: it is root, or can be again.
    User,
    /// One of its groups is 0.
    Group,
    /// The process has these capabilities, a bit each.
    Capabilities(u64),
}

impl fmt::Display for Power {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Power::User => f.write_str("one of its user ids is 0"),
            Power::Group => f.write_str("one of its groups is 0"),
            Power::Capabilities(set) => write!(f, "it has capabilities: {set:#x}"),
        }
    }
}

/// Finds what makes process `pid` as good as root: of any of its threads, each of which has ids and
/// capabilities of its own.
///
/// # Errors
/// The process has ended, or /proc does not tell.
pub fn power_of(pid: i32) -> Result<Option<Power>> {
    let first = power(&process::status(pid)?);
    // A thread that has ended since the list was made has no rights.
    let others = || process::threads(pid).map(|tids| tids.into_iter().filter_map(|tid| process::status(tid).ok()));
    match first {
        Some(power) => Ok(Some(power)),
        None => Ok(others()?.find_map(|status| power(&status))),
    }
}

/// Finds it among the rights that a thread has, or may take (saved ids, permitted capabilities).
pub fn power(status: &Status) -> Option<Power> {
    let in_group = status.gid.contains(&0) || status.groups.contains(&0);
    match status.permitted {
        _ if status.uid.contains(&0) => Some(Power::User),
        _ if in_group => Some(Power::Group),
        0 => None,
        capabilities => Some(Power::Capabilities(capabilities)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn every_right_of_root_counts() {
        let user = Status {
            uid: [1000; 4],
            gid: [1000; 4],
            groups: vec![1000, 27],
            permitted: 0,
            ..process::status(std::process::id() as i32).unwrap()
        };
        assert_eq!(power(&user), None);
        for at in 0..4 {
            let (mut uid, mut gid) = ([1000; 4], [1000; 4]);
            (uid[at], gid[at]) = (0, 0);
            assert_eq!(power(&Status { uid, ..user.clone() }), Some(Power::User));
            assert_eq!(power(&Status { gid, ..user.clone() }), Some(Power::Group));
        }
        assert_eq!(power(&Status { groups: vec![5, 0], ..user.clone() }), Some(Power::Group));
        assert_eq!(power(&Status { permitted: 4, ..user }), Some(Power::Capabilities(4)));
    }

    /// As root of the tests: a user with capabilities, and one without.
    #[test]
    fn living_processes_are_told_apart() {
        let of = |options: &[&str]| {
            let mut command = Command::new("setpriv");
            let mut child = command.args(options).arg("cat").stdin(Stdio::piped()).spawn().unwrap();
            let pid = child.id() as i32;
            while std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap() != "cat\n" {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            let found = power_of(pid).unwrap();
            child.kill().unwrap();
            child.wait().unwrap();
            found
        };
        let nobody = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
        assert_eq!((of(&[]), of(&nobody)), (Some(Power::User), None));
        let reads_all = ["--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search"];
        assert_eq!(of(&[nobody.as_slice(), &reads_all].concat()), Some(Power::Capabilities(4)));
        assert!(power_of(i32::MAX).is_err());
    }
}
