//! Who asks for a placement must be who is placed.

use control_protocol::steward::{Program, RoomKind};
use control_protocol::tool::{Homecoming, Request};

use crate::support::{PYTHON, alone, at_home, nobody_is_away, shared, wait_for};

/// A request to run a shell script on n2, and the program, as `tern run` sends them; in
/// hexadecimal.
pub(crate) fn run_request(script: &str) -> (String, String) {
    let (movable, any_cpu, as_root, force) = (false, false, false, false);
    let (on, homecoming, kind) = (Some("n2".into()), Homecoming::Quiet, RoomKind::Home);
    let request = Request::Run { on, movable, any_cpu, as_root, force, homecoming, kind };
    let argv = ["sh", "-c", script].map(|word| word.as_bytes().to_vec()).to_vec();
    let envp = vec![b"PATH=/usr/bin:/bin".to_vec()];
    let program = Program { path: b"/bin/sh".to_vec(), argv, envp, blocked: 0 };
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    (hex(&control_protocol::codec::encode(&request, 4096).unwrap()), hex(&postcard::to_stdvec(&program).unwrap()))
}

/// A user connects, and becomes a set-user-ID program that waits; a child has kept the socket.
/// Whoever of the two asks: nothing runs with more than the user's rights.
#[test]
fn a_program_that_gives_rights_is_not_placed() {
    let _alone = alone();
    let lab = shared();
    let (request, program) = run_request("cat secret >&3; id -u >&3; echo over >&3");
    for mode in ["child-asks", "parent-asks"] {
        let output = at_home(
            &lab,
            &format!(
                "echo hidden > secret; chmod 600 secret
                as_nobody timeout 20 {PYTHON} {attacker} {mode} {request} {program}
                echo; cat said 2> /dev/null; tern ps",
                attacker = crate::support::script("caller.py"),
            ),
        );
        let (text, errors) = (output.text(), output.errors());
        assert!(!text.contains("hidden") && !text.lines().any(|line| line == "0"), "{mode}: {text}\n{errors}");
        if mode == "child-asks" {
            assert!(errors.contains("sent the request on a socket that process"), "{errors}");
        }
        wait_for("nobody to be away", || nobody_is_away(&lab));
    }
    assert_eq!(at_home(&lab, "as_nobody tern run --on n2 -- id -un").text(), "nobody");
}
