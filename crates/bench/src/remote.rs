//! Nodes of a lab that send to each other: the commands that run in them for `tern bench pairs`,
//! each controlled by lines of text.

use crate::Error;
use crate::pair::Done;
use crate::run::me;
use serde::Deserialize;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// The port of sinks.
const SINK_PORT: u16 = 7700;

/// Gives the directory of the moved program on nodes. No other program has its name.
pub fn place() -> PathBuf {
    PathBuf::from(format!("/var/tmp/tern-pairs-{}", std::process::id()))
}

/// A node of the lab.
#[derive(Deserialize)]
pub struct Node {
    /// Name of the node: `n1` and so on.
    pub name: String,
    address: std::net::SocketAddr,
}

/// A node that sends, and the one that receives.
#[derive(Clone, Copy)]
pub struct Pair<'a> {
    /// The sending node.
    pub from: &'a Node,
    /// The receiving node.
    pub to: &'a Node,
}

/// A command in a node of the lab, which ends with this value.
pub struct Remote(Child);

impl Drop for Remote {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn in_node(lab: &str, node: &str, words: &[String]) -> Result<Command, Error> {
    let mut command = Command::new(me()?);
    command.args(["lab", "--name", lab, "exec", node, "--", "tern"]).args(words).stdin(Stdio::piped());
    command.stdout(Stdio::piped());
    Ok(command)
}

/// A sending node.
pub struct Source {
    remote: Remote,
    said: BufReader<ChildStdout>,
}

impl Source {
    /// Starts a process of `mib` MiB that runs `program` in one node of the lab, to be sent to the
    /// other. It is ready when its first line arrives ([`Source::hear`]).
    pub fn start(lab: &str, how: &str, pair: Pair<'_>, mib: u64, program: &[u8]) -> Result<Source, Error> {
        let Pair { from, to } = pair;
        let sink = std::net::SocketAddr::new(to.address.ip(), SINK_PORT);
        let words = ["bench", "pair", "--to", &to.name, "--sink", &sink.to_string(), "--mib", &mib.to_string()];
        let more = ["--how", how, "--dir", &place().display().to_string()].map(str::to_owned);
        let words: Vec<String> = words.into_iter().map(str::to_owned).chain(more).collect();
        let failed = || Error::system(format!("running tern in {}", from.name));
        let mut child = in_node(lab, &from.name, &words)?.spawn().map_err(failed())?;
        let said = child.stdout.take().map(BufReader::new);
        let mut remote = Remote(child);
        let size = (program.len() as u64).to_le_bytes();
        if let Some(input) = remote.0.stdin.as_mut() {
            input.write_all(&size).and_then(|()| input.write_all(program)).map_err(failed())?;
        }
        let said = said.ok_or(std::io::ErrorKind::BrokenPipe.into()).map_err(failed())?;
        Ok(Source { remote, said })
    }

    fn tell(&mut self, word: &str) -> Result<(), Error> {
        let Some(input) = self.remote.0.stdin.as_mut() else { return Ok(()) };
        writeln!(input, "{word}").and_then(|()| input.flush()).map_err(Error::system("telling a node what to do"))
    }

    /// Reads the next line of the source.
    pub fn hear(&mut self) -> Result<String, Error> {
        let mut line = String::new();
        self.said.read_line(&mut line).map_err(Error::system("hearing of a node"))?;
        let ended = || Error::Failed {
            command: "tern bench pair".into(),
            status: "it ended (what it said is above)".into(),
            output: line.clone(),
        };
        if line.ends_with('\n') { Ok(line.trim().to_owned()) } else { Err(ended()) }
    }
}

/// Ends all sources. Each process checks all its memory, cleans up, and ends.
pub fn end(sources: Vec<Source>) -> Result<(), Error> {
    for mut source in sources {
        drop(source.remote.0.stdin.take());
        let status = source.remote.0.wait().map_err(Error::system("waiting for a node's part"))?;
        if !status.success() {
            let output = "what it said is above".to_owned();
            return Err(Error::Failed { command: "tern bench pair".into(), status: status.to_string(), output });
        }
    }
    Ok(())
}

/// Gives all sources the same command at once.
pub fn together(sources: &mut [Source], word: &str) -> Result<(Vec<Done>, Duration), Error> {
    let begun = Instant::now();
    sources.iter_mut().try_for_each(|source| source.tell(word))?;
    let heard = sources.iter_mut().map(|source| {
        let line = source.hear()?;
        serde_json::from_str(&line).map_err(|e| Error::system("reading what a node has done")(e.into()))
    });
    let done = heard.collect::<Result<_, _>>()?;
    Ok((done, begun.elapsed()))
}

/// Starts to receive one stream on this node.
pub fn sink(lab: &str, node: &Node) -> Result<Remote, Error> {
    let words = ["bench".to_owned(), "sink".to_owned(), "--once".to_owned(), format!("0.0.0.0:{SINK_PORT}")];
    in_node(lab, &node.name, &words)?.spawn().map(Remote).map_err(Error::system("running a sink"))
}

/// Lists the nodes of a lab.
pub fn nodes(lab: &str) -> Result<Vec<Node>, Error> {
    let words = ["nodes", "--json"].map(str::to_owned);
    let done = in_node(lab, "n1", &words)?.output().map_err(Error::system("asking for the lab's nodes"))?;
    let wrong =
        |output: String| Error::Failed { command: "tern nodes".into(), status: done.status.to_string(), output };
    serde_json::from_slice(&done.stdout).map_err(|e| wrong(e.to_string()))
}

/// The rates of a lab's links, bits per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
pub struct Links {
    /// Rate of each node's link.
    #[serde(rename = "rate_bits")]
    pub each: Option<u64>,
    /// Rate between the two bridges, if there are two.
    #[serde(rename = "trunk_bits")]
    pub trunk: Option<u64>,
}

impl Links {
    /// Reads the rates of a lab that is up.
    pub fn of(lab: &str) -> Result<Links, Error> {
        #[derive(Deserialize)]
        struct Status {
            options: Options,
        }
        #[derive(Deserialize)]
        struct Options {
            name: String,
            #[serde(flatten)]
            links: Links,
        }
        let mut command = Command::new(me()?);
        command.args(["lab", "--name", lab, "status", "--json"]).stdin(Stdio::null());
        let done = command.output().map_err(Error::system("asking for the lab"))?;
        let wrong = |e: serde_json::Error| Error::Failed {
            command: "tern lab status".into(),
            status: done.status.to_string(),
            output: e.to_string(),
        };
        let all: Vec<Status> = serde_json::from_slice(&done.stdout).map_err(wrong)?;
        let missing = || Error::system(format!("looking for lab {lab}"))(std::io::ErrorKind::NotFound.into());
        all.into_iter().find(|s| s.options.name == lab).map(|s| s.options.links).ok_or_else(missing)
    }

    /// Computes the rate that each of `pairs` pairs can have, MB/s; `None` if the lab does not
    /// limit the links.
    pub fn bound_mb_s(&self, pairs: u64) -> Option<f64> {
        let trunk = self.trunk.map(|bits| bits as f64 / pairs.max(1) as f64);
        self.each.map(|bits| bits as f64).into_iter().chain(trunk).min_by(f64::total_cmp).map(|bits| bits / 8e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_bound_what_a_pair_can_have() {
        let bound = |each, trunk, pairs| Links { each, trunk }.bound_mb_s(pairs);
        assert_eq!(bound(None, None, 4), None);
        assert_eq!(bound(Some(800_000_000), None, 4), Some(100.0));
        assert_eq!(bound(None, Some(800_000_000), 4), Some(25.0));
        assert_eq!(bound(Some(80_000_000), Some(800_000_000), 4), Some(10.0));
    }
}
