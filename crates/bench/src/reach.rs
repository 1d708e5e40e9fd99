//! `tern bench reach`: has the nodes of a lab (`tern lab up --whole`) reach each other by ssh, so
//! that launchers of parallel jobs work in it as on machines.

use crate::Error;
use crate::run::me;
use clap::Args as ClapArgs;
use serde::Deserialize;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// The arguments of `tern bench reach`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// Name of the lab, whose nodes must have this machine's programs (`tern lab up --whole`)
    #[arg(long, env = "TERN_LAB", default_value = "lab")]
    lab: String,
}

/// Starts a server, and installs `on-node`. The key of all nodes is on standard input.
const SET_UP: &str = r#"
set -e
mkdir -p /tmp/ssh /run/sshd
umask 077
cat > /tmp/ssh/key
ssh-keygen -y -f /tmp/ssh/key > /tmp/ssh/key.pub
printf '%s' "$1" > /tmp/ssh/config
umask 022
printf '%s' "$2" > /run/lab/bin/on-node
chmod 755 /run/lab/bin/on-node
/usr/sbin/sshd -f /tmp/ssh/config
"#;

/// The command by which a lab's nodes reach each other.
const SSH: &str =
    "ssh -x -q -F none -i /tmp/ssh/key -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null";

#[derive(Deserialize)]
struct Node {
    name: String,
}

/// Sets up all nodes. Gives a line of text.
pub fn set_up(args: &Args) -> Result<String, Error> {
    let key = fresh_key()?;
    let listed = output(in_node(&args.lab, "n1", &["tern", "nodes", "--json"])?, b"")?;
    let nodes: Vec<Node> =
        serde_json::from_slice(&listed).map_err(|e| Error::system("reading the lab's nodes")(e.into()))?;
    let on_node = include_str!("../../../dist/on-node").replace("ssh -x -o BatchMode=yes", SSH);
    let words = ["sh", "-c", SET_UP, "sh", include_str!("parallel/sshd_config"), &on_node];
    for node in &nodes {
        output(in_node(&args.lab, &node.name, &words)?, &key)?;
    }
    Ok(format!("{} nodes reach each other by on-node\n", nodes.len()))
}

fn fresh_key() -> Result<Vec<u8>, Error> {
    let dir = std::env::temp_dir().join(format!("tern-reach-{}", std::process::id()));
    std::fs::create_dir_all(&dir).map_err(Error::system(format!("making {}", dir.display())))?;
    let mut command = Command::new("ssh-keygen");
    command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(dir.join("key"));
    let key =
        output(command, b"").and_then(|_| std::fs::read(dir.join("key")).map_err(Error::system("reading the new key")));
    let _ = std::fs::remove_dir_all(&dir);
    key
}

fn in_node(lab: &str, node: &str, words: &[&str]) -> Result<Command, Error> {
    let mut command = Command::new(me()?);
    command.args(["lab", "--name", lab, "exec", node, "--"]).args(words);
    Ok(command)
}

/// Runs a command with this input. Gives its output.
pub fn output(mut command: Command, input: &[u8]) -> Result<Vec<u8>, Error> {
    let name = command.get_program().to_string_lossy().into_owned();
    let failed = || Error::system(format!("running {name}"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed())?;
    if let Some(mut to) = child.stdin.take() {
        // A command need not read all of its input.
        let _ = to.write_all(input);
    }
    let done = child.wait_with_output().map_err(failed())?;
    match done.status.success() {
        true => Ok(done.stdout),
        false => Err(Error::Failed {
            command: format!("{command:?}").chars().take(200).collect(),
            status: done.status.to_string(),
            output: String::from_utf8_lossy(&done.stderr).trim().to_owned(),
        }),
    }
}
