//! The link between client and server: one ordered queue each way, with random delays.

use homefs::client::{Client, Uplink};
use homefs::invalidation::Invalidation;
use homefs::offer::Offer;
use homefs::server::{Outlet, Server};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

enum Down {
    Reply(u16, Vec<u8>, u64),
    Invalidate(u64, Vec<u8>),
    Offer(u64, Vec<u8>),
}

enum Up {
    Request(u16, Vec<u8>),
    Behind(u16, Vec<u8>),
    Applied(u64),
}

/// Counts of messages and bytes.
#[derive(Default)]
pub struct Counts {
    pub requests: AtomicU64,
    /// Requests that the room answered itself.
    pub behind: AtomicU64,
    pub replies: AtomicU64,
    pub invalidations: AtomicU64,
    pub by_opcode: Mutex<std::collections::BTreeMap<u32, u64>>,
}

impl Counts {
    /// Gives the number of READ requests that went to home.
    pub fn reads(&self) -> u64 {
        self.by_opcode.lock().unwrap().get(&(homefs::proto::Opcode::Read as u32)).copied().unwrap_or(0)
    }
}

pub struct UpEnd {
    to_home: Sender<Up>,
    counts: Arc<Counts>,
    /// The process whose children are the room's processes.
    pub room: OnceLock<u32>,
    /// Directories in /proc of the room's processes, by their id in the room. Ids are not reused so
    /// soon.
    processes: Mutex<HashMap<u32, PathBuf>>,
}
pub struct DownEnd(Sender<Down>, Arc<Counts>);

impl Uplink for UpEnd {
    fn request(&self, mount: u16, bytes: &[u8]) {
        self.counts.requests.fetch_add(1, Ordering::Relaxed);
        let opcode = u32::from_le_bytes(bytes[4..8].try_into().unwrap());
        tracing::debug!(opcode, bytes = bytes.len(), "request");
        *self.counts.by_opcode.lock().unwrap().entry(opcode).or_default() += 1;
        let _ = self.to_home.send(Up::Request(mount, bytes.to_vec()));
    }
    fn behind(&self, mount: u16, bytes: &[u8]) {
        self.counts.behind.fetch_add(1, Ordering::Relaxed);
        let _ = self.to_home.send(Up::Behind(mount, bytes.to_vec()));
    }
    fn applied(&self, seq: u64) {
        let _ = self.to_home.send(Up::Applied(seq));
    }
    fn current_call(&self, tid: u32) -> Option<String> {
        let mut known = self.processes.lock().unwrap();
        let dir = match known.get(&tid) {
            Some(dir) => dir.clone(),
            None => known.entry(tid).or_insert(find_process(*self.room.get()?, tid)?).clone(),
        };
        std::fs::read_to_string(dir.join("syscall")).ok()
    }
}

/// Finds the directory in /proc of the process with this id in the room.
fn find_process(room: u32, pid: u32) -> Option<PathBuf> {
    let namespace = std::fs::read_link(format!("/proc/{room}/ns/pid_for_children")).ok()?;
    let is_it = |dir: &Path| {
        std::fs::read_link(dir.join("ns/pid")).is_ok_and(|ns| ns == namespace)
            && std::fs::read_to_string(dir.join("status")).is_ok_and(|status| {
                let line = status.lines().find(|l| l.starts_with("NSpid:"));
                line.and_then(|l| l.split_whitespace().last()).is_some_and(|last| last == pid.to_string())
            })
    };
    // The newest process is looked up most often.
    let names = std::fs::read_dir("/proc").ok()?.filter_map(|e| e.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let mut pids: Vec<_> = names.filter(|pid| *pid > room).collect();
    pids.sort_unstable();
    pids.into_iter().rev().map(|pid| PathBuf::from(format!("/proc/{pid}"))).find(|dir| is_it(dir))
}

impl Outlet for DownEnd {
    fn reply(&self, mount: u16, bytes: &[u8], seq: u64) {
        tracing::debug!(bytes = bytes.len(), seq, errno = i32::from_le_bytes(bytes[4..8].try_into().unwrap()), "reply");
        self.1.replies.fetch_add(1, Ordering::Relaxed);
        let _ = self.0.send(Down::Reply(mount, bytes.to_vec(), seq));
    }
    fn invalidate(&self, seq: u64, invalidation: &Invalidation) {
        self.1.invalidations.fetch_add(1, Ordering::Relaxed);
        let mut bytes = Vec::new();
        invalidation.encode(&mut bytes);
        let _ = self.0.send(Down::Invalidate(seq, bytes));
    }
    fn wanted(&self, _: homefs::server::FileId) {}
    fn offer(&self, seq: u64, offer: &Offer) {
        let mut bytes = Vec::new();
        offer.encode(&mut bytes);
        let _ = self.0.send(Down::Offer(seq, bytes));
    }
}

/// A small random generator, so that a run can be repeated with its delays.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed | 1)
    }
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// Waits for a random time of at most `most_us` microseconds; 0 for none.
fn delay(random: &mut Random, most_us: u64) {
    if most_us > 0 && random.below(4) == 0 {
        std::thread::sleep(Duration::from_micros(random.below(most_us)));
    }
}

pub struct Link {
    pub up: Arc<UpEnd>,
    pub down: Arc<DownEnd>,
    pub counts: Arc<Counts>,
    up_rx: Receiver<Up>,
    down_rx: Receiver<Down>,
}

impl Link {
    pub fn new() -> Link {
        let counts = Arc::new(Counts::default());
        let ((up, up_rx), (down, down_rx)) = (channel(), channel());
        Link {
            up: Arc::new(UpEnd {
                to_home: up,
                counts: counts.clone(),
                room: OnceLock::new(),
                processes: Mutex::default(),
            }),
            down: Arc::new(DownEnd(down, counts.clone())),
            counts,
            up_rx,
            down_rx,
        }
    }

    /// Joins the two ends of the link.
    pub fn join(self, server: &Arc<Server>, client: &Arc<OnceLock<Arc<Client>>>, most_delay_us: u64) {
        let (jobs, jobs_rx) = channel::<(u16, Vec<u8>)>();
        let jobs_rx = Arc::new(Mutex::new(jobs_rx));
        for _ in 0..4 {
            let (server, jobs) = (server.clone(), jobs_rx.clone());
            std::thread::spawn(move || {
                loop {
                    let job = jobs.lock().unwrap().recv();
                    let Ok((mount, bytes)) = job else { return };
                    server.request(mount, &bytes);
                }
            });
        }
        let applied = server.clone();
        std::thread::spawn(move || {
            let mut random = Random::new(0x1234_5678_9abc_def1);
            for message in self.up_rx {
                delay(&mut random, most_delay_us);
                match message {
                    Up::Request(mount, bytes) => drop(jobs.send((mount, bytes))),
                    Up::Behind(mount, bytes) => applied.behind(mount, &bytes),
                    Up::Applied(seq) => applied.applied(seq),
                }
            }
        });
        let client = client.clone();
        std::thread::spawn(move || {
            let mut random = Random::new(0xfeed_beef_dead_cafe);
            for message in self.down_rx {
                delay(&mut random, most_delay_us);
                let client = client.wait();
                match message {
                    Down::Reply(mount, bytes, seq) => client.deliver(mount, &bytes, seq),
                    Down::Invalidate(seq, bytes) => client.invalidate(seq, Invalidation::decode(&bytes).unwrap()),
                    Down::Offer(seq, bytes) => client.offer(seq, Offer::decode(&bytes).unwrap()),
                }
            }
        });
    }
}
