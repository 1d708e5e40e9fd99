//! PVM's daemons and tasks, as they come and go.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::output::{Draft, Output};
use super::watch_sockets::SocketWatch;
use crate::layer::{Layer, daemon, task};
use crate::parse::pvm_log::{Receiver, Waiting};
use crate::record::{Change, Detail};
use crate::source::error::Error;
use crate::source::processes::program;
use crate::source::pvm_daemons::{Daemon, is_daemon};
use crate::source::pvm_tasks::{Task, Tasks};

/// PVM's daemons and tasks.
pub struct PvmWatch {
    named: bool,
    time: Duration,
    finder: Tasks,
    tasks: HashMap<i32, KnownTask>,
    daemons: HashMap<i32, KnownDaemon>,
    /// Daemons that cannot be asked: each is told once.
    refused: HashSet<i32>,
    has_told_absence: bool,
    has_told_unreadable: bool,
}

struct KnownTask {
    task: Task,
    /// Its number; `None`: it has not begun to use PVM.
    object: Option<u32>,
    /// The task cannot be read: netmon tells that once.
    is_unreadable: bool,
}

struct KnownDaemon {
    daemon: Daemon,
    rows: HashMap<Receiver, u32>,
}

impl PvmWatch {
    /// Makes a watch for this time. `named` says that the user named processes.
    pub fn new(named: bool, time: Duration) -> PvmWatch {
        PvmWatch {
            named,
            time,
            finder: Tasks::default(),
            tasks: HashMap::new(),
            daemons: HashMap::new(),
            refused: HashSet::new(),
            has_told_absence: false,
            has_told_unreadable: false,
        }
    }

    /// Looks for daemons and tasks among these processes, and asks the daemons.
    pub fn find(&mut self, pids: &[i32], layers: &[Layer], output: &mut Output) {
        if layers.contains(&Layer::Task) {
            self.find_tasks(pids, output);
        }
        if layers.contains(&Layer::Daemon) {
            self.find_daemons(pids, output);
        }
        if self.tasks.is_empty() && self.daemons.is_empty() && !self.has_told_absence {
            output.note("no task and no daemon of PVM was found here; they are looked for");
        }
        self.has_told_absence = true;
    }

    fn find_tasks(&mut self, pids: &[i32], output: &mut Output) {
        let found = self.finder.find(pids, self.named);
        for unreadable in found.unreadable.iter().filter(|_| self.named) {
            output.note(format!("process {}: {}; its messages are not counted", unreadable.pid, unreadable.reason));
        }
        if !self.named && !found.unreadable.is_empty() && !std::mem::replace(&mut self.has_told_unreadable, true) {
            output.note(format!(
                "{} processes cannot be looked at (not root?): if they are tasks of PVM, their messages are not counted",
                found.unreadable.len()
            ));
        }
        let own_consoles: Vec<i32> = self.daemons.values().map(|known| known.daemon.console_pid()).collect();
        for task in found.tasks.into_iter().filter(|task| !own_consoles.contains(&task.pid) && !is_daemon(task.pid)) {
            let known = self.tasks.get(&task.pid);
            if known.is_none_or(|known| known.task != task) {
                if let Some(KnownTask { object: Some(object), .. }) = known {
                    output.gone(*object, "the process executes another program");
                }
                self.tasks.insert(task.pid, KnownTask { task, object: None, is_unreadable: false });
            }
        }
    }

    fn find_daemons(&mut self, pids: &[i32], output: &mut Output) {
        for pid in pids.iter().filter(|pid| is_daemon(**pid)) {
            if self.daemons.contains_key(pid) || self.refused.contains(pid) {
                continue;
            }
            match Daemon::open(*pid, self.time) {
                Ok(daemon) => {
                    self.daemons.insert(*pid, KnownDaemon { daemon, rows: HashMap::new() });
                }
                Err(e) => {
                    self.refused.insert(*pid);
                    output.note(format!("PVM daemon {pid}: {e}; its packets are not counted"));
                }
            }
        }
        let refused = &mut self.refused;
        self.daemons.retain(|pid, known| match known.daemon.ask_if_due() {
            Ok(()) => true,
            Err(e) => {
                if !e.is_absent() {
                    refused.insert(*pid);
                }
                let reason = if e.is_absent() { format!("PVM daemon {pid} has ended") } else { e.to_string() };
                output.note(reason.clone());
                known.rows.values().for_each(|object| output.gone(*object, reason.clone()));
                false
            }
        });
    }

    /// Counts the messages of all tasks, and reads what daemons have told.
    pub fn sample(&mut self, sockets: &SocketWatch, output: &mut Output) {
        self.tasks.retain(|pid, known| match known.task.waiting() {
            Ok(None) => true,
            Ok(Some(waiting)) => {
                known.is_unreadable = false;
                let object = *known.object.get_or_insert_with(|| output.object(task_draft(*pid)));
                let mut changes = vec![
                    Change::exact(task::RX_MESSAGES, waiting.messages),
                    Change::exact(task::RX_BYTES, waiting.bytes),
                ];
                if let Some(waiting) = known.task.to_send() {
                    changes.push(Change::exact(task::TX_MESSAGES, waiting.messages));
                    changes.push(Change::exact(task::TX_BYTES, waiting.bytes));
                } else if !known.task.is_of_known_build() {
                    let unsent = sockets.unsent_bytes(*pid);
                    changes.extend(unsent.map(|bytes| Change::estimate(task::TX_BYTES, bytes)));
                }
                output.sample(object, changes);
                true
            }
            Err(e) => keep_unreadable(*pid, known, &e, output),
        });
        for (pid, KnownDaemon { daemon, rows }) in &mut self.daemons {
            let console = daemon.console_pid();
            if let Ok(told) = daemon.told() {
                sample_daemon(*pid, &told, console, rows, output);
            }
        }
    }
}

/// Says why a task cannot be read, once. False: it is gone.
fn keep_unreadable(pid: i32, known: &mut KnownTask, error: &Error, output: &mut Output) -> bool {
    if error.is_absent() {
        if let Some(object) = known.object {
            output.gone(object, format!("process {pid} has ended"));
        }
        return false;
    }
    if !std::mem::replace(&mut known.is_unreadable, true) {
        let hint = if error.is_denied() || error.source.raw_os_error() == Some(1) {
            " (only root and its user may)"
        } else {
            ""
        };
        output.note(format!("task of PVM, process {pid}: cannot read its messages: {error}{hint}"));
    }
    true
}

fn task_draft(pid: i32) -> Draft {
    let program = program(pid).unwrap_or_default();
    let name = format!("pvmrxlist of {program}[{pid}]");
    Draft { layer: Layer::Task, name, pid: Some(pid), details: vec![Detail::new("program", program)] }
}

/// Takes in what a daemon has told. Tasks that a table does not have any more are gone.
fn sample_daemon(pid: i32, told: &[Waiting], console: i32, rows: &mut HashMap<Receiver, u32>, output: &mut Output) {
    let is_task = |receiver: &Receiver| matches!(receiver, Receiver::Task { .. });
    if told.iter().any(|row| is_task(&row.receiver)) {
        rows.retain(|receiver, object| {
            let stays = !is_task(receiver) || told.iter().any(|row| row.receiver == *receiver);
            if !stays {
                output.gone(*object, "the task has left PVM");
            }
            stays
        });
    }
    for row in told {
        // `pvmd'` is the daemon's own helper for new hosts.
        let is_own = match &row.receiver {
            Receiver::Host(name) => name.is_empty() || name == "pvmd'",
            Receiver::Task { pid, .. } => *pid == console,
        };
        if is_own {
            continue;
        }
        let object = *rows.entry(row.receiver.clone()).or_insert_with(|| output.object(row_draft(pid, &row.receiver)));
        let mut changes = vec![Change::exact(daemon::PACKETS, row.packets)];
        changes.extend(row.bytes.map(|bytes| Change::exact(daemon::BYTES, bytes)));
        changes.extend(row.round_trip_us.map(|time| Change::exact(daemon::ROUND_TRIP_US, time)));
        output.sample(object, changes);
    }
}

fn row_draft(pid: i32, receiver: &Receiver) -> Draft {
    let (name, kind) = match receiver {
        Receiver::Host(host) => (format!("pvmd[{pid}] to host {host}"), "host"),
        Receiver::Task { tid, pid: task } => (format!("pvmd[{pid}] to task t{tid:x}[{task}]"), "task"),
    };
    Draft { layer: Layer::Daemon, name, pid: Some(pid), details: vec![Detail::new("receiver", kind)] }
}
