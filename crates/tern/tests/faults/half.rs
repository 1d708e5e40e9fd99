//! Moves that fail half-way: nothing that they leave stands in the way of the very next try.

use crate::told;

/// `$1`: the program. After each fault the process comes home at once.
const SCRIPT: &str = r#"
cd $(mktemp -d); faults=/run/tern/fault
$1 x > said 2>&1 < /dev/null & pid=$!
until [ -s said ]; do sleep 0.01; done
for how in stop pre post; do
    for phase in recall 'come ahead' 'lay out ahead' 'stop deputy' fill 'take descriptors'; do
        tern move $pid n2 || echo "$how, $phase: did not go"
        rm -f $faults.done; echo "$phase:error" > $faults
        tern move $pid home --how $how > out 2>&1 && [ -e $faults.done ] && echo "$how, $phase: no failure"
        rm -f $faults; met=$([ -e $faults.done ] && echo met)
        [ -z "$met" ] || tern move $pid home > out 2>&1 || { echo "$how, $phase:"; cat out; }
    done
done
for phase in prepare ahead freeze image pages rebuild implant adopt commit; do
    for how in stop pre post; do
        rm -f $faults.done; echo "$phase:error" > $faults
        tern move $pid n2 --how $how > out 2>&1; rm -f $faults
        [ ! -e $faults.done ] || tern move $pid n2 > out 2>&1 || { echo "$how, $phase:"; cat out; }
        tern move $pid home || echo "$how, $phase: did not come"
    done
done
for signal in 1 2 3; do kill -USR1 $pid; sleep 0.05; done; wait $pid; echo "end $?"
"#;

#[test]
fn the_next_try_finds_nothing_of_the_last() {
    let lab = told::lab(2);
    let program = crate::program(&lab);
    std::process::Command::new("chmod").arg("777").arg(lab.root("n1").unwrap().join("run/tern")).status().unwrap();
    let output = lab.exec("n1", ["timeout", "120", "bash", "-c", SCRIPT, "bash", &program]).unwrap();
    assert_eq!((output.text().trim_end(), output.errors().trim_end()), ("end 7", ""));
}
