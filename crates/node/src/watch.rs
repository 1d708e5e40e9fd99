//! Keeps an eye on the nodes that host rooms of this home: a node that others still hear of, but
//! this one does not, is no target.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use control_protocol::peer::Member;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::daemon::Daemon;
use crate::swim::commands::Command;

/// How often each is asked, by datagram.
const EVERY: Duration = Duration::from_millis(1500);
/// Bound on its answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
/// So many unanswered in a row make it silent.
const MISSES_MAX: u32 = 2;

/// Watches until the daemon ends.
pub(crate) async fn run(daemon: Arc<Daemon>) {
    let mut misses: HashMap<String, u32> = HashMap::new();
    let mut tick = interval(EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let hosts: Vec<Member> = daemon.rooms.hosts().iter().filter_map(|host| daemon.living(host).ok()).collect();
        misses.retain(|name, _| hosts.iter().any(|m| m.name == *name));
        let mut answers = JoinSet::new();
        for member in hosts {
            let daemon = Arc::clone(&daemon);
            answers.spawn(async move { (answers_now(&daemon, &member).await, member.name) });
        }
        while let Some(Ok((answered, name))) = answers.join_next().await {
            if answered {
                misses.remove(&name);
                daemon.rooms.heard_of(&name);
                continue;
            }
            let missed = misses.entry(name.clone()).or_default();
            *missed += 1;
            if *missed == MISSES_MAX {
                tracing::warn!("{name} hosts a room of this node and does not answer");
            }
            if *missed >= MISSES_MAX {
                daemon.rooms.is_silent(&name);
            }
        }
    }
}

async fn answers_now(daemon: &Daemon, member: &Member) -> bool {
    let (done, answer) = tokio::sync::oneshot::channel();
    daemon.swim.tell(Command::Echo { address: member.address, done }).await;
    matches!(timeout(ANSWER_WITHIN, answer).await, Ok(Ok(())))
}
