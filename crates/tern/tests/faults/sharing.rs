//! Open files that others come to share while a process is looked at and stopped.

use lab::{Lab, Options};

/// Between each look at the program and its stop it makes a child, with whom it has one more of its
/// open files in common.
const SCRIPT: &str = r#"
cd $(mktemp -d); faults=/run/tern/fault; rm -f $faults $faults.*
until_() { tries=0; until eval "$1" || [ $tries -gt 2000 ]; do sleep 0.01; tries=$((tries + 1)); done; }
arm() { echo freeze:hang > $faults.next; mv $faults.next $faults; }
python3 -c "
import os, time
def until(*names):
    while not any(os.path.exists(name) for name in names): time.sleep(0.01)
files = [os.open('file', os.O_RDWR | os.O_CREAT) for n in range(8)]
children = []
open('up', 'w').close()
for n, file in enumerate(files):
    until(f'fork{n}', 'end')
    if os.path.exists('end'): break
    child = os.fork()
    if child == 0:
        for other in files:
            if other != file: os.close(other)
        open(f'forked{n}', 'w').close(); until('end'); os._exit(0)
    children.append(child)
print(sum(os.waitpid(child, 0)[1] for child in children), 'of', len(children) > 2)" & pid=$!
until_ '[ -e up ]'; arm
tern move $pid n2 --how stop && echo away & mover=$!
for n in 0 1 2 3 4 5 6; do
    until_ '[ -e $faults.done ] || ! kill -0 $mover 2> /dev/null'
    [ -e $faults.done ] || break
    touch fork$n; until_ '[ -e forked$n ]'
    rm $faults.done; arm; touch $faults.over
done
wait $mover; rm -f $faults; touch end; wait $pid
"#;

/// Each try found that it shared more than before, and the fifth was the last.
#[test]
fn what_is_shared_changes_between_each_look_and_the_stop() {
    let lab = Lab::up(env!("CARGO_BIN_EXE_tern"), &Options::new(Lab::fresh_name("faults").unwrap(), 2)).unwrap();
    let output = lab.exec("n1", ["timeout", "-s", "KILL", "90", "bash", "-c", SCRIPT]).unwrap();
    assert_eq!(output.text(), "away\n0 of True", "{}", output.errors());
}
