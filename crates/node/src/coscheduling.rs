//! Coscheduling of processes that are away: passes the orders of this home's agent to the nodes
//! that host its tasks, and those of other homes to the agent of this node, if its owner allows
//! that (`cosched-by`).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use control_protocol::coscheduling::{HostedJob, HostedOrder, JobOnNode, JobOrder, NodeJob};
use control_protocol::peer::{PeerAnswer, PeerRequest};
use identity::NodeName;
use tokio::task::JoinSet;

use crate::coscheduled::{OnNode, Reading, State, Told};
use crate::daemon::Daemon;
use crate::dial::Session;
use crate::locks::lock;
use crate::{Error, guests, rooms};

/// Bound on asking one node: the orders to others hold for three seconds.
const WITHIN: Duration = Duration::from_secs(2);
/// Clocks are compared so often.
const COMPARED: Duration = Duration::from_secs(10);
/// A job of which the agent has said nothing for so long is forgotten.
const FORGOTTEN: Duration = Duration::from_secs(60);

/// The words for a node whose agent was ended by hand.
const ENDED: &str = "the mode was ended there; it begins again when it is set again";

/// Passes an order of this home's agent on. Gives an entry for each node that hosts tasks.
pub(crate) fn pass_on(daemon: &Arc<Daemon>, order: &JobOrder) -> Result<Vec<JobOnNode>, Error> {
    if !order.is_sound() {
        return Err(Error::Refused { node: daemon.me().name, reason: "the order is beyond its bounds".into() });
    }
    let mut jobs = lock(&daemon.coscheduled.jobs);
    jobs.retain(|_, told| told.at.elapsed() < FORGOTTEN);
    let mut told = jobs.remove(&order.job).unwrap_or_else(|| Told::new(order.version));
    told.at = Instant::now();
    if told.version != order.version {
        told.version = order.version;
        told.nodes.values_mut().for_each(|node| node.state = State::New);
    }
    let hosted = if order.mode.is_some() { by_node(daemon, &order.tasks) } else { BTreeMap::new() };
    let result = daemon.runtime.block_on(tell(daemon, &mut told, order, hosted));
    if order.mode.is_some() {
        jobs.insert(order.job, told);
    }
    Ok(result)
}

/// Finds the nodes that host these processes of this home.
fn by_node(daemon: &Daemon, tasks: &[i32]) -> BTreeMap<String, Vec<i32>> {
    let mut found: BTreeMap<String, Vec<i32>> = BTreeMap::new();
    for (id, steward) in rooms::stewards(&daemon.options.run_dir) {
        match steward.list() {
            Ok((node, true, guests)) => {
                let away: Vec<i32> = guests.iter().map(|guest| guest.pid).filter(|pid| tasks.contains(pid)).collect();
                if !away.is_empty() {
                    found.entry(node).or_default().extend(away);
                }
            }
            // A node that does not answer hears nothing: the mode ends there.
            Ok(_) => {}
            Err(e) => tracing::debug!("coscheduling: room {id}: {e}"),
        }
    }
    found
}

/// The result of an order to one node.
struct Answered {
    node: String,
    has_tasks: bool,
    reading: Option<Reading>,
    result: Result<Option<NodeJob>, String>,
}

/// Tells all nodes of a job at once. Those that have no tasks any more are told the end.
async fn tell(
    daemon: &Arc<Daemon>,
    told: &mut Told,
    order: &JobOrder,
    mut hosted: BTreeMap<String, Vec<i32>>,
) -> Vec<JobOnNode> {
    let mut result = Vec::new();
    for node in told.nodes.keys() {
        hosted.entry(node.clone()).or_default();
    }
    let mut asked = JoinSet::new();
    for (node, tasks) in hosted {
        let known = told.nodes.remove(&node).unwrap_or_default();
        if known.state == State::Ended && !tasks.is_empty() {
            result.push(JobOnNode { node: node.clone(), job: Err(ENDED.into()) });
            told.nodes.insert(node, known);
            continue;
        }
        let mode = order.mode.filter(|_| !tasks.is_empty());
        let order = JobOrder { tasks, mode, ..order.clone() };
        let hosted = HostedOrder { order, begins: known.state == State::New, clock_offset_us: 0 };
        asked.spawn(ask(Arc::clone(daemon), node, known.reading, hosted));
    }
    while let Some(answered) = asked.join_next().await {
        let Ok(Answered { node, has_tasks: true, reading, result: answer }) = answered else { continue };
        let state = match &answer {
            Ok(Some(_)) => State::Begun,
            Ok(None) => State::Ended,
            Err(_) => State::New,
        };
        told.nodes.insert(node.clone(), OnNode { state, reading });
        result.push(JobOnNode { node, job: answer.and_then(|job| job.ok_or_else(|| ENDED.into())) });
    }
    result.sort_by(|a, b| a.node.cmp(&b.node));
    result
}

/// Asks one node.
async fn ask(daemon: Arc<Daemon>, node: String, reading: Option<Reading>, hosted: HostedOrder) -> Answered {
    let (has_tasks, mut newest) = (hosted.order.mode.is_some(), reading);
    let exchange = async {
        let mut session = Session::open(&daemon, &daemon.living(&node)?).await?;
        if newest.is_none_or(|reading| reading.compared.elapsed() >= COMPARED) {
            newest = Some(compare_clocks(&daemon, &mut session, newest).await?);
        }
        let offset_us = newest.map_or(0, |reading| reading.offset_us);
        let clock_offset_us = offset_us.saturating_sub(daemon.options.clock_offset_us);
        let request = PeerRequest::Coschedule(HostedOrder { clock_offset_us, ..hosted });
        match session.ask(&request).await? {
            PeerAnswer::Coscheduled(job) => Ok(job),
            _ => Err(Error::Refused { node: node.clone(), reason: "unexpected answer".into() }),
        }
    };
    let result = match tokio::time::timeout(WITHIN, exchange).await {
        Ok(Ok(job)) => Ok(job),
        Ok(Err(Error::Refused { reason, .. })) => Err(reason),
        Ok(Err(e)) => Err(e.chain()),
        Err(_) => Err(format!("it does not answer within {} s", WITHIN.as_secs())),
    };
    Answered { node, has_tasks, reading: newest, result }
}

/// Compares the clocks. The most exact comparison of the last minute counts.
async fn compare_clocks(daemon: &Daemon, session: &mut Session, known: Option<Reading>) -> Result<Reading, Error> {
    let survey = session.survey(daemon).await?;
    let now = Instant::now();
    let new = Reading { at: now, compared: now, offset_us: -survey.skew_us, error_us: survey.skew_error_us };
    let kept = known.filter(|known| known.error_us < new.error_us && known.at.elapsed() < Reading::AGE);
    Ok(kept.map_or(new, |kept| Reading { compared: now, ..kept }))
}

/// Obeys another home. Gives nothing if this node knows no such job, and may not begin with it.
///
/// # Errors
/// In words: the owner of this node does not allow it, or the agent cannot be had.
pub(crate) fn obey(daemon: &Daemon, home: &NodeName, hosted: HostedOrder) -> Result<Option<NodeJob>, String> {
    let ends = hosted.order.mode.is_none();
    if !ends && !daemon.policy.settings().cosched_by.includes(home.as_str()) {
        return Err(format!(
            "its owner does not let {home} coschedule its guests (there: tern policy set cosched-by={home})"
        ));
    }
    if !hosted.order.is_sound() {
        return Err("the order is beyond its bounds".into());
    }
    let of_home = guests::list(daemon).into_iter().filter(|guest| guest.home == home.as_str());
    let at_home: HashMap<i32, i32> = of_home
        .filter(|guest| hosted.order.tasks.contains(&guest.home_pid))
        .map(|guest| (guest.pid, guest.home_pid))
        .collect();
    let order = JobOrder { tasks: at_home.keys().copied().collect(), ..hosted.order };
    let clock_offset_us = hosted.clock_offset_us.saturating_add(daemon.options.clock_offset_us);
    let hosted = HostedOrder { order, clock_offset_us, ..hosted };
    let job = (daemon.options.coschedule)(&daemon.options.run_dir, &HostedJob { home: home.to_string(), hosted })?;
    Ok(job.map(|job| {
        let mut tasks: Vec<i32> = job.tasks.iter().filter_map(|pid| at_home.get(pid).copied()).collect();
        tasks.sort_unstable();
        NodeJob { tasks, ..job }
    }))
}
