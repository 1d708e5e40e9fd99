//! Where a tracer may not keep filters from seeing its calls, as under a container's own.

use crate::told::{self, Faults, Script};

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
    let lab = told::lab(2);
    let faults = Faults::of(&lab, "n2");
    faults.set("suspend filters:error");
    assert_eq!(Script::start(&lab, SCRIPT).rest(), ["away", "True b'seen\\n'", "end 0"]);
    assert!(faults.is_met(), "it was not asked for");
}
