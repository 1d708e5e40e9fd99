//! Where log lines go. `TERN_LOG` sets what is logged (`debug`, `node=trace`), `info` if absent.

use tracing_subscriber::EnvFilter;

fn filter() -> EnvFilter {
    EnvFilter::try_from_env("TERN_LOG").unwrap_or_else(|_| EnvFilter::new("info"))
}

/// Of the daemon: its standard error, and the log file.
pub fn to_log(log: node::Log) {
    tracing_subscriber::fmt()
        .with_env_filter(filter())
        .with_ansi(false)
        .with_target(false)
        .with_writer(move || log.clone())
        .init();
}

/// Of a role: the daemon has made the log file its standard error.
pub fn to_stderr() {
    tracing_subscriber::fmt()
        .with_env_filter(filter())
        .with_ansi(false)
        .with_target(false)
        .with_writer(std::io::stderr)
        .init();
}
