//! The processes that the daemon starts: this program again, with the name of a role.

use std::process::ExitCode;

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
        coscheduler::AGENT_ROLE => Some(coscheduler::agent_main(args)),
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
