//! The processes that the daemon starts: this program again, with the name of a role.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use control_protocol::coscheduling::{JobOnNode, JobOrder};

/// Tells whether the first word after the program's name is the name of a role.
pub fn is_role(word: &std::ffi::OsStr) -> bool {
    word.as_encoded_bytes().starts_with(b"__")
}

/// Runs the role that the words after the program's name say; `None` if the daemon starts no such
/// role.
pub fn run(words: &[String]) -> Option<ExitCode> {
    let (role, args) = words.split_first()?;
    crate::logging::to_stderr();
    match role.as_str() {
        "__steward" => Some(home::steward_main(args)),
        home::watchdog::ROLE => Some(home::watchdog::main(args)),
        coscheduler::AGENT_ROLE => Some(coscheduler::agent_main(args, coschedule_away)),
        coscheduler::STARTER_ROLE => Some(coscheduler::starter_main(args)),
        coscheduler::GUARDIAN_ROLE => Some(coscheduler::guardian_main()),
        cli::PACK_ROLE | cli::UNPACK_ROLE => Some(ExitCode::from(cli::copy_role(words))),
        "__warden" => Some(room::warden::main(args)),
        _ => None,
    }
}

/// Says that a role has no meaning.
pub fn unknown(words: &[String]) -> ExitCode {
    tracing::error!("{} is no role of this program", words.first().map_or("", String::as_str));
    ExitCode::from(2)
}

/// Has this node's ternd tell the nodes that host tasks of a job.
fn coschedule_away(run_dir: &Path, order: &JobOrder) -> Result<Vec<JobOnNode>, String> {
    /// ternd asks all nodes within two seconds.
    const TIMEOUT: Duration = Duration::from_secs(10);
    let dirs = cli::Dirs { run_dir: run_dir.to_owned(), timeout: TIMEOUT, ..cli::Dirs::from_environment() };
    cli::coschedule(&dirs, order).map_err(|e| e.to_string())
}
