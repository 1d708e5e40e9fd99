//! Packets that processors have received and not handed on yet.

use std::fs;

use super::error::{Error, Result};
use crate::layer::backlog;
use crate::parse::softnet::{self, Softnet};
use crate::record::Change;

const COUNTS: &str = "/proc/net/softnet_stat";

/// Reads the line of each processor.
pub fn processors() -> Result<Vec<Softnet>> {
    let text = fs::read_to_string(COUNTS).map_err(|e| Error::new(format!("read {COUNTS}"), e))?;
    Ok(softnet::read(&text))
}

/// Gives the columns of a processor. `limit` is net.core.netdev_max_backlog.
pub fn changes(processor: &Softnet, limit: Option<u64>) -> Vec<Change> {
    let mut changes = vec![
        Change::exact(backlog::DROPS, processor.dropped),
        Change::exact(backlog::SQUEEZES, processor.squeezed),
        Change::exact(backlog::PROCESSED, processor.processed),
    ];
    changes.extend(processor.waiting.map(|waiting| Change::exact(backlog::PACKETS, waiting)));
    changes.extend(limit.map(|limit| Change::exact(backlog::LIMIT, limit)));
    changes
}

/// Reads the limit, net.core.netdev_max_backlog.
pub fn limit() -> Option<u64> {
    fs::read_to_string("/proc/sys/net/core/netdev_max_backlog").ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_processor_has_a_line() {
        let all = processors().unwrap();
        assert!(!all.is_empty() && changes(&all[0], limit()).len() >= 4);
    }
}
