//! `tern doctor NODE`: may programs of this node run on that one, and what does the pair cost?

use std::sync::Arc;
use std::time::{Duration, Instant};

use control_protocol::facts::{Finding, Grade};
use control_protocol::peer::Member;

use crate::Error;
use crate::daemon::Daemon;
use crate::dial::Session;
use crate::placement::{self, Survey};
use crate::swim::commands::Command;

/// Datagrams tried before UDP counts as blocked.
const ECHOES: u32 = 3;
/// Bound on one of them.
const ECHO_WITHIN: Duration = Duration::from_millis(500);

pub(crate) async fn examine(daemon: &Arc<Daemon>, name: &str) -> Result<Vec<Finding>, Error> {
    if name == daemon.me().name {
        return own(daemon, name).await;
    }
    let member = daemon.living(name)?;
    let mut findings = Vec::new();
    let start = Instant::now();
    let mut session = match Session::open(daemon, &member).await {
        Ok(session) => session,
        Err(e) => {
            findings.push(Finding::new(
                "TCP",
                Grade::Bad,
                format!("{}: is port {} open on both sides?", e.chain(), member.address.port()),
            ));
            findings.push(datagrams(daemon, &member).await);
            return Ok(findings);
        }
    };
    let opened = start.elapsed();
    findings.push(Finding::new(
        "TCP",
        Grade::Good,
        format!("connected and verified in {:.1} ms", opened.as_secs_f64() * 1e3),
    ));
    findings.push(datagrams(daemon, &member).await);
    let survey = session.survey(daemon).await?;
    findings.extend(judge(daemon, name, &survey));
    Ok(findings)
}

/// Looks at this node itself, with the daemon's rights.
async fn own(daemon: &Arc<Daemon>, name: &str) -> Result<Vec<Finding>, Error> {
    let probe = daemon.options.probe;
    let probed = tokio::task::spawn_blocking(probe).await;
    let found = probed.map_err(|e| Error::socket("probe this machine", std::io::Error::other(e)))?;
    let mut findings = vec![Finding::new("node", Grade::Good, format!("{name} is this node"))];
    findings.extend(found);
    Ok(findings)
}

async fn datagrams(daemon: &Arc<Daemon>, member: &Member) -> Finding {
    for _ in 0..ECHOES {
        let (done, answered) = tokio::sync::oneshot::channel();
        let start = Instant::now();
        daemon.swim.tell(Command::Echo { address: member.address, done }).await;
        if let Ok(Ok(())) = tokio::time::timeout(ECHO_WITHIN, answered).await {
            return Finding::new(
                "UDP",
                Grade::Good,
                format!("round trip {:.2} ms", start.elapsed().as_secs_f64() * 1e3),
            );
        }
    }
    Finding::new(
        "UDP",
        Grade::Bad,
        format!("no answer to {ECHOES} datagrams: is UDP port {} open on both sides?", member.address.port()),
    )
}

fn judge(daemon: &Daemon, name: &str, survey: &Survey) -> Vec<Finding> {
    let (home, there) = (daemon.facts(), &survey.facts);
    let ms = |us: i64| us as f64 / 1e3;
    let lacking = placement::lacking(home, there);
    let missing_here = placement::lacking(there, home);
    let verdict = placement::check(home, name, survey, false);
    let graded = |good: bool| if good { Grade::Good } else { Grade::Bad };
    vec![
        Finding::new("round trip", Grade::Good, format!("{:.2} ms over TLS", ms(2 * survey.skew_error_us))),
        Finding::new(
            "clock",
            if survey.is_skewed() { Grade::Costs } else { Grade::Good },
            format!(
                "{:+.2} ms against this node (±{:.2}){}",
                ms(survey.skew_us),
                ms(survey.skew_error_us),
                if survey.is_skewed() {
                    ": programs are shown this node's clock there, by a call each time"
                } else {
                    ""
                }
            ),
        ),
        Finding::new(
            "kernel",
            Grade::Good,
            if home.kernel == there.kernel {
                there.kernel.clone()
            } else {
                format!("{} there, {} here", there.kernel, home.kernel)
            },
        ),
        Finding::new(
            "CPU",
            graded(lacking.is_empty()),
            match (lacking.as_slice(), missing_here.as_slice()) {
                ([], []) => format!("{}: the same features", there.cpu_model),
                ([], more) => format!("{}: all of this node's features, and {}", there.cpu_model, more.join(" ")),
                (less, _) => format!("{}: lacks {}", there.cpu_model, less.join(" ")),
            },
        ),
        Finding::new(
            "PIDs",
            graded(there.pid_max >= home.pid_max),
            format!("up to {} there, {} here", there.pid_max, home.pid_max),
        ),
        Finding::new(
            "kernel features",
            graded(there.cannot_host.is_none()),
            there.cannot_host.as_deref().unwrap_or("all that hosting needs"),
        ),
        Finding::new(
            "tern",
            if there.version == home.version { Grade::Good } else { Grade::Costs },
            format!("{} there, {} here", there.version, home.version),
        ),
        Finding::new(
            "rooms",
            graded(there.rooms_max > survey.load.rooms),
            format!("{} of at most {}", survey.load.rooms, there.rooms_max),
        ),
        match verdict {
            Ok(()) => Finding::new("verdict", Grade::Good, format!("programs of this node can run on {name}")),
            Err(refusal) => Finding::new("verdict", Grade::Bad, refusal.to_string()),
        },
    ]
}
