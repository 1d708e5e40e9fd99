//! `tern job run`: a command with all that it starts.
//!
//! The tool is the job's keeper. The keeper tells `ternd` of itself before the command begins, so
//! that no child escapes. The kernel gives the job's orphans to the keeper
//! (PR_SET_CHILD_SUBREAPER of prctl(2)), so that daemons stay in the job. The keeper ends when the
//! command does. Processes that are left then stay in the job.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use control_protocol::jobs::JobRequest;

use super::{ask, one};
use crate::args::JobRun;
use crate::{Begun, Dirs, Error, Host, run};

/// Runs the command. Gives its exit status.
pub(super) fn run(dirs: &Dirs, args: &JobRun, host: Host) -> Result<u8, Error> {
    let local = |what| move |source: std::io::Error| Error::Local { what, source };
    let Some((name, words)) = args.command.split_first() else {
        return Err(Error::NotFound { program: String::new() });
    };
    let path = run::resolve(name, std::env::var_os("PATH").as_deref())?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|e| local("collect the orphans of the job")(e.into()))?;
    one(dirs, JobRequest::Run { name: args.name.clone(), program: path.display().to_string() })?;
    match (host.begin_job)(false).map_err(local("make a process"))? {
        Begun::Child => {
            (host.restore_inheritance)();
            let source = Command::new(&path).arg0(name).args(words).exec();
            Error::NotExecutable { program: path.display().to_string(), source }.print();
            std::process::exit(126)
        }
        Begun::Parent(job) => {
            let ended = job().map_err(local("wait for the command"))?;
            // Orphans have this process as their parent for the last time. Without an answer the
            // next look finds what is still a descendant.
            let _ = ask(dirs, JobRequest::List);
            Ok((ended.end)())
        }
    }
}
