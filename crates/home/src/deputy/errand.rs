//! What a process had to do at home, in words, and what would have kept it away.

use room_protocol::SHARED_MEMORY;
use room_protocol::message::Errand;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Programs that map a file shared and writable for their own statistics alone, which other
/// programs read, and can be told not to: a part of the file's path, and how.
const AVOIDABLE: [(&str, &str); 2] = [
    ("/hsperfdata_", "JAVA_TOOL_OPTIONS=-XX:+PerfDisableSharedMem in its environment keeps java away"),
    ("/go/telemetry/", "`go telemetry off` keeps the Go tools away"),
];

/// Says what the process had to do. Another node says so: no control characters reach a terminal.
pub fn words(errand: &Errand) -> String {
    match errand {
        Errand::Core { signal } => format!("the core file that signal {signal} leaves"),
        Errand::Call { nr, file } => {
            let name = systable::name(*nr).unwrap_or("an unknown call");
            let on = file.as_deref().map_or(String::new(), |file| format!(" of {}", printable(file)));
            let why = systable::row(*nr).map_or("", |row| row.why);
            match i64::from(*nr) {
                libc::SYS_mmap => {
                    format!("{name}(2){on}, shared, which processes at home or on other nodes open, too")
                }
                libc::SYS_execve | libc::SYS_execveat => {
                    format!("{name}(2){on}: a program that gives rights, which home alone can give")
                }
                _ => format!("{name}(2){on}: {why}"),
            }
        }
    }
}

/// Says what would keep it away, if that is known.
pub fn help(errand: &Errand) -> Option<String> {
    let Errand::Call { nr, file } = errand else { return None };
    if is_shared_memory(file.as_deref()) {
        return None;
    }
    let file = file.as_deref().map(printable).unwrap_or_default();
    let known = AVOIDABLE.iter().find(|(part, _)| file.contains(part)).map(|(_, how)| (*how).to_owned());
    let mapped = || "a program that writes the file by write(2), or maps it MAP_PRIVATE, stays away".to_owned();
    known.or_else(|| is_mmap(*nr).then(mapped))
}

/// A file that is there to be mapped stays where it is mapped first, as long as nobody else opens
/// it.
fn is_shared_memory(file: Option<&[u8]>) -> bool {
    file.is_some_and(|file| Path::new(OsStr::from_bytes(file)).starts_with(SHARED_MEMORY))
}

fn is_mmap(nr: u32) -> bool {
    i64::from(nr) == libc::SYS_mmap
}

fn printable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_file_and_help_are_named() {
        let java = Errand::call_on(libc::SYS_mmap as u32, b"/tmp/hsperfdata_me/12\x1b");
        let said = words(&java);
        assert!(said.starts_with("mmap(2) of /tmp/hsperfdata_me/12?, shared, which processes"), "{said}");
        assert!(help(&java).unwrap().contains("-XX:+PerfDisableSharedMem"));
        assert!(help(&Errand::call_on(libc::SYS_mmap as u32, b"/x")).unwrap().contains("MAP_PRIVATE"));
        let semaphore = Errand::call_on(libc::SYS_mmap as u32, b"/dev/shm/sem.x");
        assert!(
            words(&semaphore).ends_with("/dev/shm/sem.x, shared, which processes at home or on other nodes open, too")
        );
        assert_eq!(help(&semaphore), None);
        let sudo = Errand::call_on(libc::SYS_execve as u32, b"/usr/bin/sudo");
        assert_eq!(words(&sudo), "execve(2) of /usr/bin/sudo: a program that gives rights, which home alone can give");
        let queue = Errand::call(libc::SYS_mq_open as u32);
        assert_eq!(
            (words(&queue).as_str(), help(&queue)),
            ("mq_open(2): its objects are known to the whole home", None)
        );
        assert!(words(&Errand::Core { signal: 11 }).contains("signal 11"));
    }
}
