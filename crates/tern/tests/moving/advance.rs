//! Pages of private copies of files cannot follow a process: they go before it is stopped.

use crate::holding::TOOLS;
use crate::{at_home, shared};

/// Over a slow link few bytes go while it stands still.
#[test]
fn copies_of_files_go_before_the_stop() {
    let lab = shared();
    let script = format!(
        r#"{TOOLS}
        hold copy 4 5 100
        over() {{ go "$@" --rate 20M; echo $(($(field frozen_bytes) < 2000000)); }}
        over n2 --how post; over n3 --how post; over home --how post
        over n2 --how auto --max-freeze 5ms; over home --how auto --max-freeze 5ms
        over n3 --how pre; over n2 --how pre; over home --how pre
        kill $pid; sort said | uniq -c | wc -l"#
    );
    assert_eq!(at_home(&lab, &script).text(), ["1"; 9].join("\n"));
}
