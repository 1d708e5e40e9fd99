//! Jobs of other homes, some tasks of which this node hosts.

use std::time::Instant;

use control_protocol::coscheduling::{HostedJob, LEASE, NodeJob};
use cosched::NodeClock;

use crate::protocol::JobReport;

/// The home of a job of another node.
#[derive(Clone, Debug)]
pub struct Hosted {
    /// Name of the home.
    pub home: String,
    /// Number of the job there.
    pub job: u64,
    /// How this node's clock differs from the home's.
    pub clock: NodeClock,
    /// The order holds until then.
    pub until: Instant,
}

impl Hosted {
    /// Takes an order that has come at this moment.
    pub fn of(order: &HostedJob) -> Hosted {
        Hosted {
            home: order.home.clone(),
            job: order.hosted.order.job,
            clock: NodeClock { offset_us: order.hosted.clock_offset_us },
            until: Instant::now() + LEASE,
        }
    }

    /// Tells whether an order is for this job.
    pub fn is_of(&self, order: &HostedJob) -> bool {
        self.home == order.home && self.job == order.hosted.order.job
    }
}

/// Converts the report of such a job for its home.
pub fn for_home(report: JobReport) -> NodeJob {
    NodeJob {
        tasks: report.tasks,
        clock_offset_us: report.clock_offset_us,
        missing: report.missing,
        switches: report.switches.count,
        switch_median_us: report.switches.median_us,
        switch_p99_us: report.switches.p99_us,
        arrivals: report.arrivals,
        preferences: report.preferences,
    }
}
