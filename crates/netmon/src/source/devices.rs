//! Network devices: counters, rings, and what drivers hold (byte queue limits).

use std::fs;
use std::path::{Path, PathBuf};

use super::error::{Error, Result};
use super::netlink::{Netlink, Subject};
use crate::layer::device;
use crate::parse::ethtool::{self, Medium, Rings};
use crate::parse::route::{self, Link};
use crate::record::Change;

/// The bytes of a packet on the wire beside its content: the header of Ethernet.
const HEADER_BYTES: u64 = 14;

/// Reads the devices of this network.
#[derive(Debug)]
pub struct Devices {
    route: Netlink,
    /// ethtool, if the kernel has it; with its number.
    ethtool: Option<Ethtool>,
}

#[derive(Debug)]
struct Ethtool {
    netlink: Netlink,
    family: u16,
}

/// Values that change rarely, or that a driver tells slowly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rare {
    rings: Rings,
    medium: Medium,
    /// Megabits per second.
    speed: Option<u64>,
}

/// The fill of a device's queue (Documentation/ABI/testing/sysfs-class-net-queues).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    bytes: u64,
    limit_bytes: u64,
}

impl Devices {
    /// Opens the kernel's tables.
    pub fn open() -> Result<Devices> {
        Ok(Devices { route: Netlink::open(Subject::Route)?, ethtool: Ethtool::open() })
    }

    /// Reads a link and its counters.
    pub fn link(&mut self, name: &str) -> Result<Link> {
        let mut found = None;
        self.route
            .ask(&route::link(name, 1), false, |body| found = route::read_link(body))
            .map_err(|e| Error::new(format!("find interface {name}"), e.source))?;
        found.ok_or_else(|| Error::new(format!("find interface {name}"), std::io::ErrorKind::InvalidData))
    }

    /// Reads rings, counts of the medium, and speed, as far as the driver tells.
    pub fn rare(&mut self, name: &str) -> Rare {
        let mut rare = Rare { speed: speed(name), ..Rare::default() };
        if let Some(Ethtool { netlink, family }) = &mut self.ethtool {
            // A driver that does not have these refuses: they stay unknown.
            let _ = netlink.ask(&ethtool::rings(*family, name), false, |body| {
                rare.rings = ethtool::read_rings(body).unwrap_or_default();
            });
            let _ = netlink.ask(&ethtool::medium(*family, name), false, |body| {
                rare.medium = ethtool::read_medium(body).unwrap_or_default();
            });
        }
        rare
    }
}

impl Ethtool {
    fn open() -> Option<Ethtool> {
        let mut netlink = Netlink::open(Subject::Generic).ok()?;
        let mut family = None;
        netlink.ask(&ethtool::family(), false, |body| family = ethtool::read_family(body)).ok()?;
        Some(Ethtool { netlink, family: family? })
    }
}

/// Reads what the driver holds of all queues to send, if it has byte queue limits.
pub fn held(name: &str) -> Option<Held> {
    let queues = fs::read_dir(directory(name)?.join("queues")).ok()?;
    let mut found = None;
    for queue in queues.flatten().filter(|queue| queue.file_name().to_string_lossy().starts_with("tx-")) {
        let limits = queue.path().join("byte_queue_limits");
        if let (Some(bytes), Some(limit)) = (number(&limits.join("inflight")), number(&limits.join("limit"))) {
            let held = found.get_or_insert(Held::default());
            held.bytes += bytes;
            held.limit_bytes += limit;
        }
    }
    found
}

/// The directory of an interface, whose name may be anything.
fn directory(name: &str) -> Option<PathBuf> {
    let is_one_name = !name.is_empty() && !name.contains('/') && name != "." && name != "..";
    is_one_name.then(|| Path::new("/sys/class/net").join(name))
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn speed(name: &str) -> Option<u64> {
    number(&directory(name)?.join("speed"))
}

/// Gives the columns of a device.
pub fn changes(link: &Link, held: Option<Held>) -> Vec<Change> {
    let counters = &link.counters;
    let mut changes = vec![
        Change::exact(device::COLLISIONS, counters.collisions),
        Change::exact(device::RX_DROPS, counters.rx_dropped),
        Change::exact(device::TX_DROPS, counters.tx_dropped),
        Change::exact(device::RX_MISSED, counters.rx_missed),
        Change::exact(device::RX_TOTAL, counters.rx_bytes),
        Change::exact(device::TX_TOTAL, counters.tx_bytes),
    ];
    if let Some(Held { bytes, limit_bytes }) = held {
        changes.push(Change::exact(device::TX_BYTES, bytes));
        // Limits begin at 0 and grow when the device is used.
        changes.extend((limit_bytes > 0).then(|| Change::exact(device::TX_LIMIT, limit_bytes)));
        let packet_bytes = u64::from(link.mtu).saturating_add(HEADER_BYTES);
        changes.push(Change::estimate(device::TX_PACKETS, bytes.div_ceil(packet_bytes)));
    }
    changes
}

impl Rare {
    /// Gives the columns that change rarely.
    pub fn changes(&self) -> Vec<Change> {
        let numbers = [
            (device::TX_RING, self.rings.tx.map(u64::from)),
            (device::RX_RING, self.rings.rx.map(u64::from)),
            (device::RX_RING_MAX, self.rings.rx_max.map(u64::from)),
            (device::SINGLE_COLLISIONS, self.medium.single_collisions),
            (device::MULTIPLE_COLLISIONS, self.medium.multiple_collisions),
            (device::DEFERRED, self.medium.deferred),
            (device::SPEED, self.speed),
        ];
        numbers.iter().filter_map(|(column, number)| number.map(|number| Change::exact(*column, number))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_read() {
        let mut devices = Devices::open().unwrap();
        let link = devices.link("lo").unwrap();
        assert!(link.index > 0 && link.mtu > 0);
        assert!(changes(&link, held("lo")).len() >= 6);
        devices.rare("lo");
        assert!(devices.link("nosuchlink0").unwrap_err().is_absent());
        assert_eq!((directory("../x"), directory("..")), (None, None));
    }
}
