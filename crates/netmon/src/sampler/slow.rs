//! The slow sampler: everything but the lengths of sockets' queues, in periods of at least 10 ms.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::fast::{Orders, Shared, Went};
use super::output::{Draft, Output};
use super::watch_mpi::MpiWatch;
use super::watch_pvm::PvmWatch;
use super::watch_sockets::{Hold, SocketWatch};
use crate::layer::Layer;
use crate::pace::Taken;
use crate::parse::route::Link;
use crate::record::Detail;
use crate::source::backlog;
use crate::source::devices::{self, Devices};
use crate::source::disciplines::Disciplines;
use crate::source::processes::Choice;

/// The shortest period, nanoseconds.
pub const PERIOD_MIN_NS: u64 = 10_000_000;
/// Sockets are looked for so often, nanoseconds.
const SOCKETS_NS: u64 = 100_000_000;
/// Processes, rings and PVM's daemons are looked at so often, nanoseconds.
const RARE_NS: u64 = 1_000_000_000;

/// The sources of the slow sampler.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The layers to look at.
    pub layers: Vec<Layer>,
    /// Names of the interfaces.
    pub interfaces: Vec<String>,
    /// The processes to look at.
    pub processes: Choice,
    /// Whether duplicates of sockets are held.
    pub hold: Hold,
    /// How long it goes on.
    pub time: Duration,
    /// Period of the fast sampler, nanoseconds.
    pub fast_period_ns: u64,
}

impl Plan {
    /// Gives the period of the slow sampler, nanoseconds.
    pub fn period_ns(&self) -> u64 {
        self.fast_period_ns.max(PERIOD_MIN_NS)
    }

    fn has(&self, layer: Layer) -> bool {
        self.layers.contains(&layer)
    }
}

/// The slow sampler.
pub struct Slow {
    shared: Shared,
    plan: Plan,
    orders: Arc<Orders>,
    output: Output,
    pids: Vec<i32>,
    sockets: SocketWatch,
    pvm: PvmWatch,
    mpi: MpiWatch,
    links: Links,
    processors: HashMap<u32, u32>,
    sockets_due_ns: u64,
    rare_due_ns: u64,
}

impl Slow {
    /// Makes the sampler.
    pub fn new(shared: Shared, plan: Plan, orders: Arc<Orders>) -> Slow {
        let output = Output::new(shared.sender.clone(), shared.clock);
        let named = plan.processes != Choice::All;
        Slow {
            orders,
            output,
            pids: Vec::new(),
            sockets: SocketWatch::open(plan.processes.clone(), plan.hold, plan.fast_period_ns),
            pvm: PvmWatch::new(named, plan.time),
            mpi: MpiWatch::new(named),
            links: Links::default(),
            processors: HashMap::new(),
            sockets_due_ns: 0,
            rare_due_ns: 0,
            shared,
            plan,
        }
    }

    /// Takes samples until it shall end.
    pub fn run(mut self) -> Went {
        if let Some(text) = self.shared.prepare_thread() {
            self.output.note(text);
        }
        for name in self.plan.processes.absent() {
            self.output.note(format!("there is no process {name} now; it is looked for"));
        }
        let (mut went, period_ns) = (Went::default(), self.plan.period_ns());
        let mut due_ns = self.shared.clock.now_ns();
        while !self.shared.ends() {
            self.shared.clock.wait_until(due_ns);
            let began_ns = self.shared.clock.now_ns();
            self.sample(began_ns);
            if !self.output.send() {
                break;
            }
            let ended_ns = self.shared.clock.now_ns();
            due_ns = went.pace.count(Taken { due_ns, began_ns, ended_ns }, period_ns);
        }
        went
    }

    fn sample(&mut self, now_ns: u64) {
        let is_rare = now_ns >= self.rare_due_ns;
        if is_rare {
            self.rare_due_ns = now_ns + RARE_NS;
            self.pids = self.plan.processes.pids();
        }
        let looks_at_pvm = self.plan.has(Layer::Task) || self.plan.has(Layer::Daemon);
        if self.plan.has(Layer::Socket) || looks_at_pvm {
            self.orders.give(self.sockets.drop_closed());
        }
        if self.plan.has(Layer::Socket) && now_ns >= self.sockets_due_ns {
            let orders = self.sockets.scan(&self.pids, &mut self.output);
            // Objects are sent before the fast sampler can send their values, else these are lost.
            self.output.send();
            self.orders.give(orders);
            // In a network of many sockets, looking at all of them must not become all there is.
            let took_ns = self.shared.clock.now_ns().saturating_sub(now_ns);
            self.sockets_due_ns = now_ns + SOCKETS_NS.max(took_ns.saturating_mul(20));
        }
        if looks_at_pvm && is_rare {
            self.pvm.find(&self.pids, &self.plan.layers, &mut self.output);
        }
        self.pvm.sample(&self.sockets, &mut self.output);
        if self.plan.has(Layer::Rank) && is_rare {
            self.mpi.find(&self.pids, &mut self.output);
        }
        self.mpi.sample(&mut self.output);
        if self.plan.has(Layer::Device) || self.plan.has(Layer::Discipline) {
            self.links.sample(&self.plan, is_rare, &mut self.output);
        }
        if self.plan.has(Layer::Backlog) {
            self.sample_backlog();
        }
    }

    fn sample_backlog(&mut self) {
        let limit = backlog::limit();
        let Ok(processors) = backlog::processors() else { return };
        for processor in processors {
            let object = *self.processors.entry(processor.cpu).or_insert_with(|| {
                let name = format!("processor {}", processor.cpu);
                self.output.object(Draft { layer: Layer::Backlog, name, pid: None, details: Vec::new() })
            });
            self.output.sample(object, backlog::changes(&processor, limit));
        }
    }
}

/// Links with their disciplines.
#[derive(Default)]
struct Links {
    tables: Option<Tables>,
    has_failed: bool,
    known: HashMap<String, KnownLink>,
    disciplines: HashMap<DisciplineKey, u32>,
}

struct Tables {
    devices: Devices,
    disciplines: Disciplines,
}

struct KnownLink {
    /// Index and object of the link; `None`: there is none of this name.
    there: Option<ThereLink>,
}

#[derive(Clone, Copy)]
struct ThereLink {
    index: u32,
    object: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct DisciplineKey {
    link: u32,
    handle: u32,
    parent: u32,
    is_class: bool,
}

impl Links {
    fn sample(&mut self, plan: &Plan, is_rare: bool, output: &mut Output) {
        if self.tables.is_none() && !self.has_failed {
            let opened = Devices::open().and_then(|devices| Ok(Tables { devices, disciplines: Disciplines::open()? }));
            match opened {
                Ok(tables) => self.tables = Some(tables),
                Err(e) => {
                    self.has_failed = true;
                    output.note(format!("interfaces: {e}"));
                }
            }
        }
        let Some(mut tables) = self.tables.take() else { return };
        let mut links = Vec::new();
        for name in &plan.interfaces {
            match tables.devices.link(name) {
                Ok(link) => {
                    self.sample_link(&link, plan, output);
                    if is_rare
                        && let Some(object) =
                            self.known.get(name).and_then(|known| known.there).and_then(|there| there.object)
                    {
                        output.sample(object, tables.devices.rare(name).changes());
                    }
                    links.push(link);
                }
                Err(e) => self.end_link(name, &e.to_string(), output),
            }
        }
        if plan.has(Layer::Discipline) {
            self.sample_disciplines(&mut tables, &links, output);
        }
        self.tables = Some(tables);
    }

    fn sample_link(&mut self, link: &Link, plan: &Plan, output: &mut Output) {
        let there = self.known.get(&link.name).and_then(|known| known.there).filter(|there| there.index == link.index);
        let there = there.unwrap_or_else(|| {
            let details = vec![Detail::new("interface", &link.name), Detail::new("index", link.index.to_string())];
            let draft = Draft { layer: Layer::Device, name: link.name.clone(), pid: None, details };
            let object = plan.has(Layer::Device).then(|| output.object(draft));
            let there = ThereLink { index: link.index, object };
            self.known.insert(link.name.clone(), KnownLink { there: Some(there) });
            there
        });
        if let Some(object) = there.object {
            output.sample(object, devices::changes(link, devices::held(&link.name)));
        }
    }

    /// Says that an interface is not there, once.
    fn end_link(&mut self, name: &str, reason: &str, output: &mut Output) {
        match self.known.insert(name.into(), KnownLink { there: None }) {
            None => output.note(format!("{reason}; it is looked for")),
            Some(KnownLink { there: Some(there) }) => {
                output.note(format!("interface {name} has vanished; it is looked for"));
                there.object.into_iter().for_each(|object| output.gone(object, "the interface has vanished"));
            }
            Some(KnownLink { there: None }) => {}
        }
    }

    fn sample_disciplines(&mut self, tables: &mut Tables, links: &[Link], output: &mut Output) {
        let Ok(rows) = tables.disciplines.all(links) else { return };
        let mut present = HashMap::new();
        for row in rows {
            let Some(link) = links.iter().find(|link| link.index == row.told.link) else { continue };
            let told = &row.told;
            let key =
                DisciplineKey { link: told.link, handle: told.handle, parent: told.parent, is_class: row.is_class };
            let object = self.disciplines.remove(&key).unwrap_or_else(|| {
                let (name, details) = (row.name(link), row.details(link));
                output.object(Draft { layer: Layer::Discipline, name, pid: None, details })
            });
            output.sample(object, row.changes(link));
            present.insert(key, object);
        }
        let absent = std::mem::replace(&mut self.disciplines, present);
        absent.into_values().for_each(|object| output.gone(object, "it is not there any more"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;
    use crate::sampler::clock::Clock;
    use crate::sampler::fast::Order;
    use std::collections::HashSet;
    use std::os::unix::net::UnixStream;

    #[test]
    fn an_object_is_sent_before_its_values_can_be() {
        // netmon leaves its own sockets out: this one is a child's.
        let (own, other) = UnixStream::pair().unwrap();
        let mut child =
            std::process::Command::new("sleep").arg("60").stdin(std::os::fd::OwnedFd::from(own)).spawn().unwrap();
        drop(other);
        let (sender, receiver) = std::sync::mpsc::sync_channel(100);
        let shared = Shared { clock: Clock::start(), ends: Arc::default(), sender, first: false };
        let plan = Plan {
            layers: vec![Layer::Socket],
            interfaces: Vec::new(),
            processes: Choice::All,
            hold: Hold::Never,
            time: Duration::from_secs(1),
            fast_period_ns: 100_000,
        };
        let orders = Arc::new(Orders::default());
        let mut slow = Slow::new(shared, plan, Arc::clone(&orders));
        slow.sample(0);
        let given = orders.take();
        let sent: HashSet<u32> = receiver
            .try_iter()
            .flatten()
            .filter_map(|record| if let Record::Object(object) = record { Some(object.id) } else { None })
            .collect();
        let is_sent = |order: &Order| !matches!(order, Order::Watch(watched) if !sent.contains(&watched.object));
        assert!(given.iter().any(|order| matches!(order, Order::Watch(_))), "there is a socket of another process");
        assert!(given.iter().all(is_sent), "{given:?} {sent:?}");
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
