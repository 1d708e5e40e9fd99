//! `tern suspend` and `tern resume`.

use control_protocol::tool::{Answer, Request, SuspendReport};

use crate::args::{Dirs, Output, Suspend};
use crate::client;
use crate::error::Error;

/// Has everybody wait for this node. Gives the exit status: 1 if somebody did not confirm.
pub(crate) fn suspend(dirs: &Dirs, args: &Suspend) -> Result<u8, Error> {
    let for_ms = args.for_s.map(|s| s.saturating_mul(1000));
    shown(client::ask(dirs, &Request::Suspend { for_ms })?, args.output)
}

/// Tells everybody that this node is there again. Gives the exit status: 1 if somebody did not
/// confirm.
pub(crate) fn resume(dirs: &Dirs, output: Output) -> Result<u8, Error> {
    shown(client::ask(dirs, &Request::Wake)?, output)
}

fn shown(answer: Answer, output: Output) -> Result<u8, Error> {
    let Answer::Suspended(report) = answer else { return Err(client::unexpected()) };
    let status = crate::show(output, &report, || words(&report));
    Ok(if report.failures.is_empty() { status } else { 1 })
}

fn words(report: &SuspendReport) -> String {
    let SuspendReport { for_ms, rooms, members, failures } = report;
    let failures: String = failures.iter().map(|why| format!("not confirmed: {why}\n")).collect();
    let told = format!("{} rooms and {} nodes", rooms.len(), members.len());
    let line = match for_ms {
        0 => format!("{told} go on\n"),
        ms => format!("{told} wait for at most {} s\n", ms / 1000),
    };
    line + &failures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_who_waits_and_who_did_not_confirm() {
        let mut report = SuspendReport { for_ms: 5000, rooms: vec!["n2".into()], ..SuspendReport::default() };
        report.failures.push("n3 has not answered".into());
        assert_eq!(words(&report), "1 rooms and 0 nodes wait for at most 5 s\nnot confirmed: n3 has not answered\n");
        assert_eq!(words(&SuspendReport::default()), "0 rooms and 0 nodes go on\n");
    }
}
