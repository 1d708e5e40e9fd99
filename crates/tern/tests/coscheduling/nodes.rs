//! Modes that are set at home, for tasks that run on other nodes.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use lab::Lab;
use serde_json::Value;

use crate::programs::{Library, ring};
use crate::ring::Ring;
use crate::{alone, common};

/// A ring whose tasks `move` themselves nowhere: the test moves them. The ring ends when there is
/// `over`.
const RING: &str = r"
    mkdir $top && cd $top && chmod 755 .
    export PVM_TMP=$PWD UCX_TLS=tcp,self MPIR_CVAR_NOLOCAL=1 ring
    cat > both <<'END'
    pvmd > pvmd.out 2>&1 < /dev/null &
    until [ -e pvmd.0 ]; do sleep 0.02; done
    $ring 3 direct 1,4096,65536 0; status=$?
    echo halt | pvm > /dev/null 2>&1
    exit $status
END
    job $start
    has_begun 3; goes_on; pgrep -P $job > starter; touch begun; moves=0; touch refused
    until [ -e over ]; do sleep 0.1; done; ends";

/// A ring of three tasks of PVM on the first of three nodes.
struct Job {
    lab: Arc<Lab>,
    directory: PathBuf,
    running: Option<JoinHandle<lab::Output>>,
}

impl Job {
    /// Starts the ring by this command, in which `$ring` is the program.
    fn start(lab: &Arc<Lab>, start: &str) -> Job {
        let ring = ring(lab, Library::Pvm, &["n1"]);
        let tools = include_str!("../parallel/tools.sh");
        let script = format!("limit=900\n{tools}\nring={ring} top=/tmp/nodes\nstart=\"{start}\"\n{RING}");
        let words = ["timeout", "900", "bash", "-c"].map(str::to_owned).into_iter().chain([script]);
        let words: Vec<String> = words.collect();
        let (lab, its) = (Arc::clone(lab), Arc::clone(lab));
        let running = std::thread::spawn(move || its.exec("n1", words).unwrap());
        let directory = lab.root("n1").unwrap().join("tmp/nodes");
        let job = Job { lab, directory, running: Some(running) };
        common::eventually("the ring begins", || job.directory.join("begun").exists() || job.has_ended());
        job
    }

    fn has_ended(&self) -> bool {
        self.running.as_ref().is_none_or(JoinHandle::is_finished)
    }

    fn task(&self, number: u32) -> i64 {
        let text = std::fs::read_to_string(self.directory.join(format!("task.{number}"))).unwrap();
        text.trim().parse().unwrap()
    }

    fn round(&self) -> u64 {
        let text = std::fs::read_to_string(self.directory.join("rounds")).unwrap_or_default();
        text.trim().parse().unwrap_or_default()
    }

    fn goes_on(&self) {
        let before = self.round();
        common::eventually("the ring goes on", || self.round() > before + 2 || self.has_ended());
    }

    fn moves(&self, number: u32, to: &str) {
        let task = self.task(number).to_string();
        common::eventually("the task moves", || {
            self.lab.exec("n1", ["tern", "move", &task, to]).unwrap().status.success()
        });
    }

    /// Waits until the job on a node has these tasks of the ring.
    fn has(&self, node: &str, numbers: &[u32]) {
        let mut wanted: Vec<i64> = numbers.iter().map(|number| self.task(*number)).collect();
        wanted.sort_unstable();
        common::eventually(&format!("{node} has {numbers:?}"), || {
            let entry = on_node(&self.lab, node);
            let tasks: Vec<i64> = entry["tasks"].as_array().into_iter().flatten().filter_map(Value::as_i64).collect();
            tasks == wanted || self.has_ended()
        });
    }

    fn ends(mut self) {
        std::fs::write(self.directory.join("over"), "").unwrap();
        let output = self.running.take().unwrap().join().unwrap();
        assert!(output.status.success(), "{}\n{}", output.text(), output.errors());
        Ring::of(&output.text());
    }
}

/// A lab whose nodes show this machine's programs.
fn whole_lab(nodes: u32) -> Lab {
    common::lab_of(&lab::Options { whole: true, ..common::options(nodes) })
}

fn sh(lab: &Lab, node: &str, line: &str) -> String {
    let output = lab.exec(node, ["bash", "-c", line]).unwrap();
    assert!(output.status.success(), "{node}: {line}: {}{}", output.text(), output.errors());
    output.text()
}

fn json(lab: &Lab, node: &str, line: &str) -> Value {
    serde_json::from_str(&sh(lab, node, line)).unwrap()
}

/// Home's report of its first job on a node.
fn on_node(lab: &Lab, node: &str) -> Value {
    let jobs = json(lab, "n1", "tern cosched status --json");
    let entries = jobs[0]["nodes"].as_array().cloned().unwrap_or_default();
    entries.into_iter().find(|entry| entry["node"] == node).unwrap_or_default()
}

/// The PID of a guest on its node.
fn body(lab: &Lab, node: &str, at_home: i64) -> i64 {
    let guests = json(lab, node, "tern guests --json");
    let mut guests = guests.as_array().into_iter().flatten();
    guests.find(|guest| guest["home_pid"] == at_home).map_or(0, |guest| guest["pid"].as_i64().unwrap())
}

/// Tells whether a process is in a group of coscheduling, and its nice value.
fn levers(lab: &Lab, node: &str, pid: i64) -> (bool, String) {
    let line = format!("grep -c tern-cosched /proc/{pid}/cgroup || true; cut -d' ' -f19 /proc/{pid}/stat");
    let text = sh(lab, node, &line);
    let (groups, nice) = text.trim().split_once('\n').unwrap_or_default();
    (groups != "0", nice.to_owned())
}

/// Tells whether a process stands still by its control group.
fn is_frozen(lab: &Lab, node: &str, pid: i64) -> bool {
    let line = format!(
        "group=$(sed -n 's/^0:://p' /proc/{pid}/cgroup); cat /sys/fs/cgroup/unified$group/cgroup.freeze \
         /sys/fs/cgroup$group/cgroup.freeze 2> /dev/null | head -1"
    );
    sh(lab, node, &line).trim() == "1"
}

/// Sets the mode of the ring's job.
fn set(lab: &Lab, mode: &str) -> String {
    sh(lab, "n1", &format!("tern cosched {mode} --job $(cat /tmp/nodes/starter) 2>&1"))
}

fn has_no_job(lab: &Lab, node: &str) -> bool {
    json(lab, node, "tern cosched status --json") == serde_json::json!([])
}

/// A mode that is set once at home holds on all nodes, follows moves, needs consent, and ends with
/// the agents of either side.
#[test]
fn a_mode_set_at_home_holds_where_tasks_run() {
    if Library::Pvm.is_missing() {
        return;
    }
    let _alone = alone();
    let lab = &Arc::new(whole_lab(3));
    sh(lab, "n2", "tern policy set cosched-by=n1");
    let job = Job::start(lab, "tern cosched run none -- sh both");
    job.moves(1, "n2");
    job.moves(2, "n3");
    let (_, usual) = levers(lab, "n3", body(lab, "n3", job.task(2)));
    let said = set(lab, "explicit");
    assert!(said.contains("n3: its owner does not let n1") && said.contains("cosched-by=n1"), "{said}");
    job.has("n2", &[1]);
    assert_eq!(levers(lab, "n3", body(lab, "n3", job.task(2))), (false, usual.clone()));
    sh(lab, "n3", "tern policy set cosched-by=n1");
    job.has("n3", &[2]);
    for (node, task) in [("n2", 1), ("n3", 2)] {
        let pid = body(lab, node, job.task(task));
        common::eventually("the body is in the mode", || levers(lab, node, pid) == (true, "-20".into()));
    }
    job.goes_on();
    println!("{}", sh(lab, "n1", "tern cosched status"));

    // Moves keep the mode.
    job.moves(1, "n3");
    job.has("n3", &[1, 2]);
    job.has("n2", &[]);
    job.moves(2, "home");
    job.has("n3", &[1]);
    common::eventually("the agent of n2 ends", || has_no_job(lab, "n2"));
    job.goes_on();
    ends_with_agents(lab, &job, &usual);
    job.ends();
}

/// Ends the agents, of which one is on n3 for the first task, and switches through the modes.
fn ends_with_agents(lab: &Lab, job: &Job, usual: &str) {
    const KILL: &str = "kill -9 $(pgrep -f '^tern __cosched /')";
    let pid = body(lab, "n3", job.task(1));
    let is_free = || levers(lab, "n3", pid) == (false, usual.into());
    let begun = Instant::now();
    sh(lab, "n3", KILL);
    common::eventually("the guest is free", is_free);
    println!("free after {} ms", begun.elapsed().as_millis());
    common::eventually("home hears of it", || {
        on_node(lab, "n3")["refused"].as_str().is_some_and(|why| why.contains("ended there"))
    });
    assert!(is_free());
    for mode in ["prio", "dynamic", "sdca"] {
        set(lab, mode);
        job.has("n3", &[1]);
        assert_eq!(json(lab, "n3", "tern cosched status --json")[0]["mode"], mode);
        job.goes_on();
        if mode != "prio" {
            common::eventually("messages are seen there", || on_node(lab, "n3")["arrivals"].as_u64() > Some(10));
        }
        println!("{mode}: {}", on_node(lab, "n3"));
    }
    set(lab, "explicit");
    job.has("n3", &[1]);
    sh(lab, "n1", KILL);
    common::eventually("the mode ends without home", || has_no_job(lab, "n3"));
    assert!(is_free());
    set(lab, "explicit");
    job.has("n3", &[1]);
    sh(lab, "n1", "tern cosched off");
    common::eventually("the mode ends", || has_no_job(lab, "n3"));
    job.goes_on();
}

/// Windows are at the same moments on all nodes, also if a node's clock is wrong.
#[test]
fn nodes_have_the_same_windows_though_their_clocks_differ() {
    let _alone = alone();
    let lab = &whole_lab(2);
    sh(
        lab,
        "n2",
        "tern policy set cosched-by=n1; kill $(tern status --json | grep '\"pid\"' | tr -dc 0-9)
        until ! tern status > /dev/null 2>&1; do sleep 0.1; done
        setsid tern-lab daemon --pretend-clock-offset 1700 > /dev/null 2>&1 < /dev/null &
        until tern status > /dev/null 2>&1; do sleep 0.1; done",
    );
    sh(
        lab,
        "n1",
        "cd /tmp; for job in a b; do
            (echo $BASHPID > $job.pid; sh -c 'echo $$ > '$job'.away; while :; do :; done' & \
             while :; do :; done) > /dev/null 2>&1 < /dev/null &
        done
        until [ -s a.away ] && [ -s b.away ]; do sleep 0.05; done",
    );
    let number = |file: &str| -> i64 { sh(lab, "n1", &format!("cat /tmp/{file}")).trim().parse().unwrap() };
    for job in ["a", "b"] {
        common::eventually("it moves", || {
            let line = format!("tern move $(cat /tmp/{job}.away) n2");
            lab.exec("n1", ["bash", "-c", &line]).unwrap().status.success()
        });
    }
    println!("{}", sh(lab, "n1", "tern gang $(cat /tmp/a.pid) $(cat /tmp/b.pid) --slice 2s 2>&1"));
    let tasks = ["a", "b"].map(|job| (number(&format!("{job}.pid")), body(lab, "n2", number(&format!("{job}.away")))));
    common::eventually("both jobs are there", || {
        json(lab, "n2", "tern cosched status --json").as_array().is_some_and(|jobs| jobs.len() == 2)
    });
    let offset_us = on_node(lab, "n2")["clock_offset_us"].as_i64().unwrap();
    println!("the clock of n2: {offset_us} us, of which 1700 ms are pretended, and not the agent's");
    assert!(offset_us.abs() < 200_000, "{offset_us}");
    // An agent without real time may be late on a busy machine, but not by most of a turn.
    let (mut same, mut other, mut seen) = (0, 0, [false; 2]);
    while same + other < 20 || seen != [true; 2] {
        let at_home = || tasks.map(|(pid, _)| is_frozen(lab, "n1", pid));
        let (before, away, after) = (at_home(), tasks.map(|(_, pid)| is_frozen(lab, "n2", pid)), at_home());
        // No switch meanwhile.
        if before == after && before[0] != before[1] {
            *(if away == before { &mut same } else { &mut other }) += 1;
            seen[usize::from(before[0])] = true;
        }
    }
    println!("{same} looks found the same job running on both nodes, {other} did not");
    assert!(same >= 3 * other, "{same} {other}");
    sh(lab, "n1", "tern cosched off; kill -9 $(cat /tmp/?.pid /tmp/?.away)");
}

/// A program that `tern run` starts in a mode is in it on its node from the beginning.
#[test]
fn a_program_is_run_in_a_mode() {
    let _alone = alone();
    let lab = &whole_lab(2);
    sh(lab, "n2", "tern policy set cosched-by=n1");
    sh(
        lab,
        "n1",
        "cd /tmp; (tern run --cosched prio --on n2 -- sh -c 'env > env; echo $$ > own; while :; do :; done' > said 2>&1 &); until [ -s own ]; do sleep 0.05; done",
    );
    let pid: i64 = sh(lab, "n1", "cat /tmp/own").trim().parse().unwrap();
    common::eventually("the body is preferred", || levers(lab, "n2", body(lab, "n2", pid)).1 == "-20");
    let environment = sh(lab, "n1", "cat /tmp/env");
    assert!(environment.contains("LD_PRELOAD=") && environment.contains("TERN_COSCHED="), "{environment}");
    sh(lab, "n1", &format!("kill -9 {pid}"));
    common::eventually("the mode ends with it", || {
        json(lab, "n1", "tern cosched status --json") == serde_json::json!([])
    });
    let refused = lab.exec("n1", ["tern", "run", "--cosched", "often", "--", "true"]).unwrap();
    assert!(
        !refused.status.success() && refused.errors().contains("explicit, dynamic or sdca"),
        "{}",
        refused.errors()
    );
}
