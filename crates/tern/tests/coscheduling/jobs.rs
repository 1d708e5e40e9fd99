//! Modes of real jobs, switched while their tasks talk.

use crate::programs::{Library, ring};
use crate::ring::Ring;
use crate::{alone, run, shared};

/// Switches a ring of eight tasks through the modes.
const SWITCHES: &str = r"
    has_begun 8; goes_on; starter=$(pgrep -P $job)
    for mode in 'spin' 'mxi' 'prio' 'mxispin' 'explicit' 'priospin' 'explicit --run 20ms --stop 30ms' 'mxi' 'none' \
        'prio --real-time' 'dynamic' 'explicit' 'sdca' 'sdca --local-share 30%'; do
        tern cosched $mode $starter > table 2> missing; isnt grep neither missing
        goes_on
    done
    tern cosched status
    tern cosched off; goes_on; ends";

#[test]
fn pvm_tasks_say_the_truth_in_every_mode() {
    if Library::Pvm.is_missing() {
        return;
    }
    let (_alone, lab) = (alone(), shared());
    let ring = ring(&lab, Library::Pvm, &["n1"]);
    for route in ["direct", "daemon"] {
        let text = run(&format!(
            "cat > both <<'END'
            pvmd > pvmd.out 2>&1 < /dev/null &
            until [ -e pvmd.0 ]; do sleep 0.02; done
            {ring} 8 {route} 1,4096,65536 0; status=$?
            echo halt | pvm > /dev/null 2>&1
            exit $status
END
            job tern cosched run none -- sh both
            {SWITCHES}"
        ));
        Ring::of(&text);
    }
}

/// Tasks that messages come for are preferred beside local work, one of each processor, and have
/// their priority back afterwards, also when the agent is killed.
#[test]
fn tasks_are_preferred_by_their_messages() {
    if Library::Mpich.is_missing() {
        return;
    }
    let (_alone, lab) = (alone(), shared());
    let ring = ring(&lab, Library::Mpich, &["n1"]);
    let text = run(&format!(
        "busy; busy
        job mpiexec.mpich -n 4 {ring} 1,4096 0
        has_begun 4; goes_on
        value() {{ tern cosched status --json | sed \"s/.*$1.:\\([0-9]*\\).*/\\1/\"; }}
        is_as_before() {{ for task in task.*; do is $(nice_of $(cat $task)) 0; done; }}
        for mode in dynamic sdca; do
            tern cosched $mode $job > table
            until_ '[ $(value arrivals) -gt 100 ] && [ $(value preferences) -gt 10 ]'
            tern cosched off; is_as_before
            tern cosched $mode $job > table
            until_ '[ $(value preferences) -gt 10 ]'
            kill -9 $(agent); until_ no_guardian; is_as_before
        done
        goes_on; ends"
    ));
    Ring::of(&text);
}

#[test]
fn mpi_ranks_say_the_truth_in_every_mode() {
    if Library::Mpich.is_missing() {
        return;
    }
    let (_alone, lab) = (alone(), shared());
    let ring = ring(&lab, Library::Mpich, &["n1"]);
    let text = run(&format!(
        "job tern cosched run none -- mpiexec.mpich -n 8 {ring} 1,4096,65536 0
        {SWITCHES}"
    ));
    Ring::of(&text);
}
