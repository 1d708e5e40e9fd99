//! A lab whose nodes all have this machine's programs, each with an ssh server, like machines of a
//! cluster on which PVM and MPI are installed.

use std::fs;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use lab::{Lab, Options, Output};

use crate::programs::put;
use crate::{TOOLS, common};

pub(crate) const NODES: [&str; 4] = ["n1", "n2", "n3", "n4"];
/// The program that runs a command on another node, as it is shipped.
const ON_NODE: &[u8] = include_bytes!("../../../../dist/on-node");
/// The directory of a job, on every node.
pub(crate) const JOB: &str = "/tmp/job";

const SERVER: &str = "
HostKey /tmp/ssh/key
AuthorizedKeysFile /tmp/ssh/key.pub
StrictModes no
UsePAM no
UseDNS no
PermitRootLogin yes
PidFile none
MaxStartups 100
SetEnv PATH=/run/lab/bin:/usr/local/bin:/usr/bin:/bin PVM_ALLOW_ROOT=1 PVM_ROOT=/usr/lib/pvm3
";

/// What a script needs to reach the other nodes. `everywhere COMMAND` runs a command on all nodes
/// at once.
const REACH: &str = r#"
export ON_NODE_SSH="ssh -x -q -F none -i /tmp/ssh/key -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
export PATH=$PATH:/usr/sbin:/tmp/bin
everywhere() {
    local node all=
    for node in n1 n2 n3 n4; do on-node $node "$@" & all="$all $!"; done
    wait $all
}
"#;

/// Gives one lab for all tests of jobs over several nodes.
pub(crate) fn whole() -> Arc<Lab> {
    static WHOLE: Mutex<Weak<Lab>> = Mutex::new(Weak::new());
    let mut whole = WHOLE.lock().unwrap_or_else(PoisonError::into_inner);
    whole.upgrade().unwrap_or_else(|| {
        let lab = common::lab_of(&Options { whole: true, ..common::options(NODES.len() as u32) });
        serve_ssh(&lab);
        let lab = Arc::new(lab);
        *whole = Arc::downgrade(&lab);
        lab
    })
}

/// Starts an ssh server on each node. All nodes have one key, which opens all of them.
fn serve_ssh(lab: &Lab) {
    let keys = tempfile::tempdir().unwrap();
    let key = keys.path().join("key");
    let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key).status().unwrap();
    assert!(made.success());
    for node in NODES {
        let root = lab.root(node).unwrap();
        for directory in ["tmp/ssh", "tmp/bin", "run/sshd"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        for name in ["key", "key.pub"] {
            fs::copy(keys.path().join(name), root.join("tmp/ssh").join(name)).unwrap();
        }
        fs::write(root.join("tmp/ssh/config"), SERVER).unwrap();
        put(lab, node, "/tmp/bin/on-node", ON_NODE);
        put(lab, node, "/tmp/tools.sh", TOOLS.as_bytes());
        let started = lab.exec(node, ["/usr/sbin/sshd", "-f", "/tmp/ssh/config"]).unwrap();
        assert!(started.status.success(), "{}", started.errors());
    }
}

/// Is there an ssh server on this machine? Leaves the test out if not.
pub(crate) fn ssh_is_missing() -> bool {
    let missing = !std::path::Path::new("/usr/sbin/sshd").exists();
    if missing {
        skip::test("sshd is not installed");
    }
    missing
}

/// Runs a script on n1, in the directory of a fresh job that is empty on every node.
pub(crate) fn on_first(lab: &Lab, script: &str) -> Output {
    let script = format!(
        "{TOOLS}\n{REACH}\neverywhere 'rm -rf {JOB}; mkdir -p {JOB}' && cd {JOB} && export PVM_TMP={JOB}\n{script}"
    );
    let output = lab.exec("n1", ["timeout", "170", "bash", "-c", &script]).unwrap();
    assert!(output.status.success(), "{script}\n{}\n{}", output.text(), output.errors());
    output
}
