//! Whole jobs that take turns.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use lab::{Lab, Options};
use serde_json::Value;

use crate::programs::{Library, put, ring};
use crate::ring::Ring;
use crate::{alone, common, run, shared};

/// Processes of each job on each node.
const PROCESSES: u32 = 8;
const JOBS: [&str; 2] = ["job-a", "job-b"];

/// A time in which a process ran, nanoseconds since 1970.
#[derive(Clone, Copy, Debug)]
struct Ran {
    begin_ns: u64,
    end_ns: u64,
}

impl Ran {
    /// Reads the traces of one job on a node. Times before `from_ns` are left out.
    fn all(directory: &Path, from_ns: u64) -> Vec<Ran> {
        let read = |number: u32| std::fs::read_to_string(directory.join(number.to_string())).unwrap();
        let numbers = |line: &str| line.split(' ').map(|word| word.parse().unwrap()).collect::<Vec<u64>>();
        let texts: Vec<String> = (0..PROCESSES).map(read).collect();
        let times = texts.iter().flat_map(|text| text.lines()).map(numbers);
        let times = times.map(|numbers| Ran { begin_ns: numbers[0], end_ns: numbers[1] });
        times.filter(|ran| ran.begin_ns >= from_ns).collect()
    }

    /// Finds a time of the one job that overlaps one of the other.
    fn overlap(one: &[Ran], other: &[Ran]) -> Option<(Ran, Ran)> {
        let mut all: Vec<(Ran, bool)> = one.iter().map(|ran| (*ran, true)).collect();
        all.extend(other.iter().map(|ran| (*ran, false)));
        all.sort_by_key(|(ran, _)| ran.begin_ns);
        let mut latest: [Option<Ran>; 2] = [None, None];
        for (ran, is_one) in all {
            let others = latest[usize::from(!is_one)];
            if let Some(before) = others.filter(|before| before.end_ns > ran.begin_ns) {
                return Some((before, ran));
            }
            let own = &mut latest[usize::from(is_one)];
            if own.is_none_or(|own| own.end_ns < ran.end_ns) {
                *own = Some(ran);
            }
        }
        None
    }
}

fn compile(lab: &Lab, nodes: &[String]) {
    let to = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = to.path().join("turns");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/coscheduling/turns.c");
    let done = Command::new("cc").args(["-O1", "-static", "-o"]).arg(&program).arg(source).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let bytes = std::fs::read(program).unwrap();
    nodes.iter().for_each(|node| put(lab, node, "/tmp/turns", &bytes));
}

/// A node with two jobs.
struct Node<'a> {
    lab: &'a Lab,
    name: String,
}

impl Node<'_> {
    /// The directory of a job, as this machine sees it.
    fn directory(&self, job: &str) -> PathBuf {
        self.lab.root(&self.name).unwrap().join(format!("tmp/{job}"))
    }

    fn tern(&self, words: &[&str]) -> String {
        let words = ["tern"].iter().chain(words);
        let output = self.lab.exec(&self.name, words).unwrap();
        assert!(output.status.success(), "{}: {}", self.name, output.errors());
        output.text()
    }

    fn switches(&self) -> Value {
        let jobs: Value = serde_json::from_str(&self.tern(&["cosched", "status", "--json"])).unwrap();
        jobs[0]["switches"].clone()
    }

    fn have_switched(&self, least: u64) {
        common::eventually("the jobs take turns", || self.switches()["count"].as_u64().unwrap() >= least);
    }

    /// Runs both jobs, has them take turns, and gives the moment from which on they did.
    fn take_turns(&self) -> u64 {
        let processes = PROCESSES.to_string();
        std::thread::scope(|scope| {
            for job in JOBS {
                std::fs::create_dir_all(self.directory(job)).unwrap();
                let words = ["/tmp/turns".to_owned(), format!("/tmp/{job}"), processes.clone()];
                scope.spawn(move || assert!(self.lab.exec(&self.name, words).unwrap().status.success()));
            }
            let pids = JOBS.map(|job| {
                let file = self.directory(job).join("pid");
                common::eventually("the job begins", || file.exists());
                std::fs::read_to_string(file).unwrap().trim().to_owned()
            });
            self.tern(&["gang", &pids[0], &pids[1], "--slice", "100ms"]);
            self.have_switched(4);
            let from = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
            self.have_switched(44);
            println!("{}: {}", self.name, self.switches());
            JOBS.iter().for_each(|job| std::fs::write(self.directory(job).join("end"), "").unwrap());
            from
        })
    }
}

/// Two jobs of 64 processes on 8 nodes: on no node does a process of the one run while one of the
/// other does. The times of the switches are printed.
#[test]
fn no_process_of_two_jobs_runs_at_once() {
    let _alone = alone();
    let lab = common::lab_of(&Options { daemons: false, real_time: true, ..common::options(8) });
    let names: Vec<String> = (1..=8).map(|n| format!("n{n}")).collect();
    compile(&lab, &names);
    let nodes: Vec<Node<'_>> = names.into_iter().map(|name| Node { lab: &lab, name }).collect();
    let from: Vec<u64> = std::thread::scope(|scope| {
        let running: Vec<_> = nodes.iter().map(|node| scope.spawn(|| node.take_turns())).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (node, from_ns) in nodes.iter().zip(from) {
        let [one, other] = JOBS.map(|job| Ran::all(&node.directory(job), from_ns));
        assert!(one.len() >= 10 && other.len() >= 10, "{}: {} and {} times", node.name, one.len(), other.len());
        assert_eq!(Ran::overlap(&one, &other).map(|both| format!("{both:?}")), None, "{}", node.name);
    }
}

/// Messages that are under way when a job's turn ends wait for its next turn, and none is lost.
#[test]
fn jobs_that_take_turns_lose_nothing() {
    if Library::Mpich.is_missing() {
        return;
    }
    let (_alone, lab) = (alone(), shared());
    let ring = ring(&lab, Library::Mpich, &["n1"]);
    let text = run(&format!(
        "top=$PWD
        mkdir one other
        cd $top/one; job mpiexec.mpich -n 4 {ring} 1,4096,300000 0; one=$job
        cd $top/other; job mpiexec.mpich -n 4 {ring} 1,4096,300000 0; other=$job
        cd $top/one; has_begun 4; cd $top/other; has_begun 4
        tern gang $one $other --slice 50ms
        for turn in 1 2 3; do
            cd $top/one; goes_on; cd $top/other; goes_on
        done
        tern cosched status
        cd $top/one; job=$one; ends; cd $top/other; job=$other; ends"
    ));
    let (one, other) = text.split_once(" moves\n").unwrap();
    Ring::of(&format!("{one} moves\n"));
    Ring::of(other);
}
