//! Root of a home does not become root's of another node: processes with root's rights stay at home
//! unless its owner says otherwise.

use lab::{Lab, Options};

use crate::common::{lab_of, options};
use crate::support::{at_home, nobody_is_away, wait_for};

/// A lab whose nodes trust none with their root.
fn distrustful() -> Lab {
    lab_of(&Options { root_on: "none".into(), ..options(3) })
}

#[test]
fn roots_programs_are_not_placed() {
    let lab = distrustful();
    let powers = [
        ("", "user ids is 0"),
        ("setpriv --reuid 1000 --regid 0 --clear-groups --", "groups is 0"),
        ("setpriv --reuid 1000 --regid 1000 --groups 1000,0 --", "groups is 0"),
        (
            "setpriv --reuid 1000 --regid 1000 --clear-groups --inh-caps +dac_read_search --ambient-caps +dac_read_search --",
            "capabilities: 0x4",
        ),
    ];
    for (words, says) in powers {
        for on in ["--on n2", ""] {
            let text = at_home(&lab, &format!("{words} tern run {on} -- echo placed 2>&1; echo \"status $?\"")).text();
            assert!(
                text.contains(says) && text.contains("root's rights") && text.ends_with("status 125"),
                "{words}: {text}"
            );
            assert!(text.contains("--as-root") && text.contains("tern policy set root-on="), "{words}: {text}");
            assert!(!text.lines().any(|line| line == "placed"), "{words}: {text}");
        }
    }
    assert_eq!(at_home(&lab, "as_user 1000 tern run --on n2 -- echo placed").text(), "placed");
    assert_eq!(at_home(&lab, "tern run --as-root --on n2 -- echo placed").text(), "placed");
    let text = at_home(&lab, &format!("{} tern run --as-root --on n2 -- echo placed 2>&1", powers[3].0)).text();
    assert!(text.contains("--as-root is for root"), "{text}");
}

#[test]
fn the_owner_trusts_nodes_for_good() {
    let lab = distrustful();
    let refused = at_home(&lab, "as_user 1000 tern policy set root-on=all 2>&1").text();
    assert!(refused.contains("is for root"), "{refused}");
    let text = at_home(
        &lab,
        "tern policy set root-on=n3; tern policy show | grep root-on
        tern run --on n3 -- echo on n3; tern run -- echo anywhere; tern run --on n2 -- echo on n2 2>&1",
    )
    .text();
    assert!(text.contains("root-on=n3") && text.contains("on n3\nanywhere\n"), "{text}");
    assert!(text.contains("node n2 is not trusted") && !text.lines().any(|line| line == "on n2"), "{text}");
}

#[test]
fn roots_programs_are_not_moved() {
    let lab = distrustful();
    let text = at_home(
        &lab,
        "sleep 1000 & pid=$!; tern policy set root-on=n3
        tern move $pid n2 2>&1; echo \"first $?\"
        tern move $pid n3; echo \"second $?\"
        tern move $pid n2 2>&1; echo \"third $?\"
        tern move --as-root $pid n2; echo \"fourth $?\"
        tern policy set root-on=none; tern move $pid home; echo \"fifth $?\"; kill $pid",
    )
    .text();
    let (first, rest) = text.split_once("first 1\n").unwrap_or_else(|| panic!("{text}"));
    assert!(first.contains("node n2 is not trusted") && first.contains("--as-root"), "{text}");
    let (_, rest) = rest.split_once("second 0\n").unwrap_or_else(|| panic!("{text}"));
    let (third, rest) = rest.split_once("third 1\n").unwrap_or_else(|| panic!("{text}"));
    assert!(third.contains("node n2 is not trusted"), "{text}");
    assert!(rest.contains("fourth 0\n") && rest.ends_with("fifth 0"), "{text}");
    wait_for("nobody to be away", || nobody_is_away(&lab));
}
