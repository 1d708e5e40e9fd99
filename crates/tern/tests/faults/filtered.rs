//! Where a tracer may not keep filters from seeing its calls, as under a container's own.

use lab::{Lab, Options};
use std::os::unix::fs::PermissionsExt;

const SCRIPT: &str = r#"
mkdir /tmp/filtered && cd /tmp/filtered
python3 -c "
import os, time
open('begun', 'w').close()
while not os.path.exists('end'): time.sleep(0.005)
print(os.getppid() == $$, os.read(os.open('end', 0), 9))" & pid=$!
until [ -e begun ]; do sleep 0.01; done
tern move $pid n2 && echo away
echo seen > end
wait $pid; echo "end $?"
"#;

#[test]
fn a_body_gets_its_filters_last() {
    let lab = Lab::up(env!("CARGO_BIN_EXE_tern"), &Options::new(Lab::fresh_name("faults").unwrap(), 2)).unwrap();
    let run = lab.root("n2").unwrap().join("run/tern");
    std::fs::set_permissions(&run, std::fs::Permissions::from_mode(0o777)).unwrap();
    std::fs::write(run.join("fault"), "suspend filters:error").unwrap();
    let said = lab.in_node("n1", ["timeout", "-s", "KILL", "60", "bash", "-c", SCRIPT]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&said.stdout), "away\nTrue b'seen\\n'\nend 0\n");
    assert!(run.join("fault.done").exists(), "it was not asked for");
}
