//! Queueing disciplines and classes of links (tc(8)).

use super::error::Result;
use super::netlink::{Netlink, Subject};
use crate::layer::discipline;
use crate::parse::route::{self, Discipline, Limit, Link, ROOT};
use crate::record::{Change, Detail};

/// Disciplines whose classes are not told beside them.
const WITH_CLASSES: [&str; 8] = ["prio", "mq", "mqprio", "htb", "hfsc", "drr", "ets", "qfq"];
/// The classes that pfifo_fast and prio have for these kinds of packets, by their minor number.
const BANDS: [&str; 3] = ["interactive", "normal", "background"];

/// Reads the disciplines and classes of this network.
#[derive(Debug)]
pub struct Disciplines {
    netlink: Netlink,
}

/// A discipline or a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The kernel's counters.
    pub told: Discipline,
    /// Whether it is a class.
    pub is_class: bool,
}

impl Row {
    /// Names it by its link and handle.
    pub fn name(&self, link: &Link) -> String {
        let what = if self.is_class { "class " } else { "" };
        format!("{} {what}{} {}", link.name, self.told.kind, route::handle(self.told.handle))
    }

    /// Lists its kind, its parent, and the kind of packets in it.
    pub fn details(&self, link: &Link) -> Vec<Detail> {
        let parent = if self.told.parent == ROOT { "root".into() } else { route::handle(self.told.parent) };
        let mut details = vec![
            Detail::new("interface", &link.name),
            Detail::new("kind", &self.told.kind),
            Detail::new("parent", parent),
        ];
        let minor = (self.told.handle & 0xffff) as usize;
        if self.is_class && self.told.kind == "prio" {
            details.extend(minor.checked_sub(1).and_then(|n| BANDS.get(n)).map(|band| Detail::new("band", *band)));
        }
        details
    }

    /// Gives the columns.
    pub fn changes(&self, link: &Link) -> Vec<Change> {
        let told = &self.told;
        let mut changes = vec![
            Change::exact(discipline::PACKETS, told.packets.into()),
            Change::exact(discipline::BYTES, told.bytes.into()),
            Change::exact(discipline::DROPS, told.drops.into()),
            Change::exact(discipline::OVERLIMITS, told.overlimits.into()),
            Change::exact(discipline::REQUEUES, told.requeues.into()),
            Change::exact(discipline::SENT_BYTES, told.sent_bytes),
        ];
        match told.limit {
            Limit::Packets(packets) => changes.push(Change::exact(discipline::PACKET_LIMIT, packets.into())),
            Limit::OfLink => changes.push(Change::exact(discipline::PACKET_LIMIT, link.queue_limit.into())),
            Limit::Bytes(bytes) => changes.push(Change::exact(discipline::BYTE_LIMIT, bytes.into())),
            Limit::Unknown => {}
        }
        if told.parent == ROOT && !self.is_class {
            changes.push(Change::exact(discipline::QUEUES, link.tx_queues.into()));
        }
        changes
    }
}

impl Disciplines {
    /// Opens the kernel's table.
    pub fn open() -> Result<Disciplines> {
        Ok(Disciplines { netlink: Netlink::open(Subject::Route)? })
    }

    /// Lists the disciplines and classes of these links.
    pub fn all(&mut self, links: &[Link]) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        self.netlink.ask(&route::disciplines(), true, |body| {
            let told = route::read_discipline(body);
            rows.extend(
                told.filter(|t| links.iter().any(|link| link.index == t.link))
                    .map(|told| Row { told, is_class: false }),
            );
        })?;
        let with_classes: Vec<u32> =
            rows.iter().filter(|row| WITH_CLASSES.contains(&row.told.kind.as_str())).map(|row| row.told.link).collect();
        for link in links.iter().filter(|link| with_classes.contains(&link.index)) {
            let mut classes = Vec::new();
            let asked = self.netlink.ask(&route::classes(link.index), true, |body| {
                classes.extend(route::read_discipline(body).map(|told| Row { told, is_class: true }));
            });
            match asked {
                // The link vanishes: its own source says so.
                Err(e) if e.is_absent() => {}
                asked => asked?,
            }
            rows.append(&mut classes);
        }
        Ok(rows)
    }
}
