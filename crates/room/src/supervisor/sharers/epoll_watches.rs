//! Epoll instances that watch what becomes home's: they watch an open file, not a number, and would
//! go on to watch what nobody has any more.

use crate::supervisor::sharers::common_files::Commons;
use crate::supervisor::sharers::watched::Watch;
use checkpoint::BodyError;
use os::process;
use std::collections::BTreeSet;

/// Those of this process, and of the others who stand still.
pub fn find(found: &mut Commons, pid: i32) -> Result<(), BodyError> {
    for pid in found.others.iter().copied().chain([pid]) {
        let mut own = found.files.iter().flat_map(|f| &f.places).filter(|p| p.pid == pid).peekable();
        let Some(host) = own.peek().map(|p| p.host.0) else { continue };
        let common: BTreeSet<i32> = own.map(|p| p.fd).collect();
        for epoll in process::descriptors(host)? {
            let name = process::link(host, &format!("fd/{epoll}"))?;
            if name.to_string_lossy() != "anon_inode:[eventpoll]" {
                continue;
            }
            let all = checkpoint::watched(host, epoll)?.into_iter().filter(|watched| common.contains(&watched.fd));
            found.watches.extend(all.map(|watched| Watch { pid, epoll, watched }));
        }
    }
    Ok(())
}
