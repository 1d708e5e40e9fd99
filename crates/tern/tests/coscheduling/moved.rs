//! Jobs whose tasks are moved while a mode is on.

use crate::programs::{Library, ring};
use crate::ring::Ring;
use crate::{alone, common};

const TOOLS: &str = include_str!("../parallel/tools.sh");

/// Moves the tasks of a ring while their job is switched through the modes.
fn moves(library: Library, start: &str) {
    if library.is_missing() {
        return;
    }
    let _alone = alone();
    let lab = common::lab_of(&common::options(3));
    let ring = ring(&lab, library, &["n1"]);
    let script = format!(
        "limit=170; cd $(mktemp -d) && chmod 755 .
        {TOOLS}
        export PVM_TMP=$PWD UCX_TLS=tcp,self MPIR_CVAR_NOLOCAL=1 ring={ring}
        {start}
        has_begun 4; goes_on; starter=$(pgrep -P $job); all=0
        for mode in prio explicit mxispin priospin sdca 'explicit --run 20ms --stop 30ms'; do
            tern cosched $mode $starter > table
            wander 4 4 n2 n3 home; all=$((all + moves))
            goes_on
        done
        tern cosched off; goes_on; moves=$all; ends"
    );
    let output = lab.exec("n1", ["timeout", "170", "bash", "-c", &script]).unwrap();
    assert!(output.status.success(), "{script}\n{}\n{}", output.text(), output.errors());
    Ring::of(&output.text()).moved(4);
}

/// A process that is away is coscheduled by the agent of the node where it runs, by its number
/// there, and comes home from there.
#[test]
fn a_guest_stands_still_in_windows_where_it_runs() {
    if Library::Mpich.is_missing() {
        return;
    }
    let _alone = alone();
    let lab = common::lab_of(&common::options(2));
    let ring = ring(&lab, Library::Mpich, &["n1"]);
    let script = format!(
        "limit=170; cd $(mktemp -d) && chmod 755 .
        {TOOLS}
        export UCX_TLS=tcp,self MPIR_CVAR_NOLOCAL=1
        job mpiexec.mpich -n 3 {ring} 1,4096,65536 0
        has_begun 3; goes_on
        for task in 1 2; do tern move $(cat task.$task) n2 > /dev/null; done
        goes_on; touch /tmp/away
        until_ '[ -e /tmp/switched ]'; goes_on
        for task in 1 2; do tern move $(cat task.$task) home > /dev/null; done
        goes_on; moves=4; touch refused; ends; touch /tmp/done"
    );
    let root = lab.root("n1").unwrap();
    let tern = |words: &[&str]| {
        let output = lab.exec("n2", ["tern"].iter().chain(words)).unwrap();
        assert!(output.status.success(), "{words:?}: {}", output.errors());
        serde_json::from_str::<serde_json::Value>(&output.text()).unwrap()
    };
    std::thread::scope(|scope| {
        let running = scope.spawn(|| lab.exec("n1", ["timeout", "170", "bash", "-c", &script]).unwrap());
        common::eventually("the tasks are away", || root.join("tmp/away").exists());
        let guests = tern(&["guests", "--json"]);
        println!("{guests}");
        let pids: Vec<String> =
            guests.as_array().unwrap().iter().map(|guest| guest["pid"].as_i64().unwrap().to_string()).collect();
        let words: Vec<&str> =
            ["cosched", "explicit", "--json"].into_iter().chain(pids.iter().map(String::as_str)).collect();
        let jobs = tern(&words);
        assert_eq!(jobs[0]["tasks"].as_array().unwrap().len(), 2, "{jobs}");
        let switches = || tern(&["cosched", "status", "--json"])[0]["switches"]["count"].as_u64().unwrap();
        common::eventually("they run in windows", || switches() > 20);
        std::fs::write(root.join("tmp/switched"), "").unwrap();
        common::eventually("the mode ends with the guests", || tern(&["cosched", "status", "--json"])[0].is_null());
        let output = running.join().unwrap();
        assert!(output.status.success(), "{}\n{}", output.text(), output.errors());
        Ring::of(&output.text()).moved(4);
    });
}

#[test]
fn pvm_tasks_move_in_every_mode() {
    moves(
        Library::Pvm,
        "cat > both <<'END'
        pvmd > pvmd.out 2>&1 < /dev/null &
        until [ -e pvmd.0 ]; do sleep 0.02; done
        $ring 4 direct 1,4096,65536 0; status=$?
        echo halt | pvm > /dev/null 2>&1
        exit $status
END
        job tern cosched run none -- sh both",
    );
}

#[test]
fn mpi_ranks_move_in_every_mode() {
    moves(Library::Mpich, "job tern cosched run none -- mpiexec.mpich -n 4 $ring 1,4096,65536 0");
}
