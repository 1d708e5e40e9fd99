//! `tern netmon` on real queues: sockets, a limited link, PVM, and things that vanish.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod all;
#[path = "../common/mod.rs"]
mod common;
mod killed;
mod link;
mod moved;
mod mpi;
mod outputs;
mod pace;
mod pvm;
mod sockets;
mod vanishing;

use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use lab::{Lab, Options};
use serde_json::Value;

/// Bandwidth of the nodes' links, bits per second: little, so that a link is full soon.
const RATE_BITS: u64 = 8_000_000;

/// Functions of scripts: `until_ CONDITION` waits for it.
const TOOLS: &str = r#"
until_() {
    local tries=0
    until eval "$1" 2> /dev/null; do
        sleep 0.02; tries=$((tries + 1))
        [ $tries -gt 2000 ] && { echo "in vain: $1" >&2; kill $(jobs -p); exit 9; }
    done
}
"#;

/// Gives one lab of two nodes without daemons, with limited links. It goes down with the last test
/// that uses it.
fn shared() -> Arc<Lab> {
    static SHARED: Mutex<Weak<Lab>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let options = Options { daemons: false, rate_bits: Some(RATE_BITS), ..common::options(2) };
        let lab = Arc::new(common::lab_of(&options));
        *shared = Arc::downgrade(&lab);
        lab
    })
}

/// Whether a test lets others run beside it.
#[derive(Clone, Copy, PartialEq)]
enum Beside {
    Others,
    Nothing,
}

/// Runs a script as [`on_first`] does. One that measures runs when no other one does.
fn run(script: &str, beside: Beside) -> String {
    static RUNNING: RwLock<()> = RwLock::new(());
    let _shared = (beside == Beside::Others).then(|| RUNNING.read().unwrap_or_else(PoisonError::into_inner));
    let _alone = (beside == Beside::Nothing).then(|| RUNNING.write().unwrap_or_else(PoisonError::into_inner));
    let lab = shared();
    let script = format!("cd $(mktemp -d) && chmod 755 .\n{TOOLS}\n{script}");
    let output = lab.exec("n1", ["timeout", "120", "bash", "-c", &script]).unwrap();
    assert!(output.status.success(), "{script}\n{}\n{}", output.text(), output.errors());
    output.text()
}

/// Runs a script on n1 in a fresh directory, and gives what it printed.
fn on_first(script: &str) -> String {
    run(script, Beside::Others)
}

/// Leaves a test out if PVM is not installed on this machine.
fn skip_without_pvm() -> bool {
    let is_missing = !["pvm", "pvmd", "gcc"].iter().all(|program| common::is_installed(program));
    if is_missing {
        skip::test("PVM is not installed");
    }
    is_missing
}

/// What `tern netmon --json` or `tern netmon show --json` has printed.
struct Recording(Vec<Value>);

impl Recording {
    /// Reads the lines of JSON. Other lines are left out.
    fn read(text: &str) -> Recording {
        Recording(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }

    fn of_type(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.0.iter().filter(move |value| value["type"] == kind)
    }

    /// The numbers of the objects of this layer for which `is_meant` holds.
    fn objects(&self, layer: &str, is_meant: impl Fn(&Value) -> bool) -> Vec<u64> {
        let objects = self.of_type("object").map(|value| &value["object"]);
        let meant = objects.filter(|object| object["layer"] == layer && is_meant(object));
        meant.map(|object| object["id"].as_u64().unwrap()).collect()
    }

    /// All values of a column of an object, in order.
    fn values(&self, object: u64, column: &str) -> Vec<u64> {
        let own = self.of_type("sample").filter(|sample| sample["object"] == object);
        own.filter_map(|sample| sample["values"][column].as_u64()).collect()
    }

    /// The queues of an object that were found full, with the causes.
    fn findings(&self, object: u64) -> Vec<String> {
        let own = self.of_type("finding").filter(|finding| finding["object"] == object);
        own.map(|f| format!("{} {}", f["queue"].as_str().unwrap(), f["cause"].as_str().unwrap())).collect()
    }

    /// Texts of all notes.
    fn notes(&self) -> Vec<&str> {
        self.of_type("note").map(|note| note["text"].as_str().unwrap()).collect()
    }

    /// Why an object is gone.
    fn gone(&self, object: u64) -> Option<&str> {
        self.of_type("gone").find(|gone| gone["object"] == object).and_then(|gone| gone["reason"].as_str())
    }
}

/// The value of a named detail of an object.
fn detail<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    let details = object["details"].as_array().unwrap();
    details.iter().find(|detail| detail["name"] == name).and_then(|detail| detail["value"].as_str())
}
