//! PVM at home: one daemon, whose tasks are moved while they talk, by both routes.

use crate::programs::{Library, ring};
use crate::ring::Ring;
use crate::{alone, at_home, at_home_within, shared};

/// Starts a PVM daemon whose files are in the present directory.
pub(crate) const DAEMON: &str = r"
export PVM_TMP=$PWD
pvmd > pvmd.out 2>&1 < /dev/null &
until_ '[ -e pvmd.$(id -u) ]'
halts() { echo halt | pvm > /dev/null 2>&1; true; }
";

/// Eight tasks by this route, each moved in turn for so long.
fn ring_moves(route: &str, seconds: u32) {
    if Library::Pvm.is_missing() {
        return;
    }
    let (_alone, lab) = (alone(), shared());
    let ring = ring(&lab, Library::Pvm, &["n1"]);
    let text = at_home_within(
        &lab,
        170 + 10 * seconds,
        &format!(
            "{DAEMON}
        job {ring} 8 {route} 1,4096,65536,300000 0
        has_begun 8; goes_on
        wander {seconds} 1000 n2 n3 n4 home
        goes_on; ends; halts"
        ),
    )
    .text();
    // Each task once; on a quiet machine it is ten times.
    Ring::of(&text).moved(8);
}

/// Each message goes through the daemon, which stays at home.
#[test]
fn tasks_move_that_talk_through_the_daemon() {
    ring_moves("daemon", 10);
}

/// Tasks connect to each other.
#[test]
fn tasks_move_that_talk_directly() {
    ring_moves("direct", 10);
}

#[test]
#[ignore = "a minute: --full"]
fn tasks_move_for_a_minute_that_talk_through_the_daemon() {
    ring_moves("daemon", 60);
}

#[test]
#[ignore = "a minute: --full"]
fn tasks_move_for_a_minute_that_talk_directly() {
    ring_moves("direct", 60);
}

/// The policy spreads tasks that compute: the daemon and what it starts are in its scope.
#[test]
fn the_policy_spreads_tasks() {
    if Library::Pvm.is_missing() {
        return;
    }
    let _alone = alone();
    let lab = crate::common::lab_of(&lab::Options { cpus: Some(0.3), ..crate::common::options(3) });
    let ring = ring(&lab, Library::Pvm, &["n1"]);
    let text = at_home(
        &lab,
        &format!(
            r#"{DAEMON}
        tern policy set moves=on scope=tree:$!
        job {ring} 6 daemon 262144 0
        has_begun 6; goes_on
        away() {{ tern ps --json | grep -c '"node": *"n[23]"'; }}
        until_ '[ $(away) -ge 1 ]'
        goes_on; moves=0; touch refused; ends; halts"#
        ),
    )
    .text();
    Ring::of(&text);
}
