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
